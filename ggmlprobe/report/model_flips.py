"""Flipped cells in words: where, both argmaxes with their logits, what the AR run had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ggmlprobe.model.record import Flip
from ggmlprobe.record import Record
from ggmlprobe.report.rows import CONFIG_COLUMNS, varying_config_columns
from ggmlprobe.report.text import NONE, ascii_line, number, ranges

FLIPS_SHOWN = 20


def flip_lines(record: Record) -> list[str]:
    """A line for each position that flips in a comparison, as far as they fit."""
    groups: dict[tuple[Any, ...], list[Flip]] = {}
    for flip in record.flip_list:
        place = (flip.config, flip.prompt, flip.width, flip.prefix, flip.position)
        groups.setdefault(place, []).append(flip)
    labels = labels_of(record)
    shown = list(groups.values())[:FLIPS_SHOWN]
    several = len(record.comparisons) > 1
    lines = [flip_line(group, several, labels[group[0].config]) for group in shown]
    more = len(groups) - FLIPS_SHOWN
    return [*lines, f"- and flips at {more} more positions"] if more > 0 else lines


def labels_of(record: Record) -> dict[str, str]:
    """What tells a config from the others, by its id."""
    names = varying_config_columns(record.configs)
    return {
        config.id: "".join(f" {name}={CONFIG_COLUMNS[name](config)}" for name in names)
        for config in record.configs
    }


def flip_line(group: Sequence[Flip], several: bool, label: str) -> str:
    """Where, both argmaxes with their logits, the AR token on both paths, as in the first window.

    Args:
        group: flips of one position, in several windows.
        several: there are other comparisons. label: of the config.
    """
    flip = group[0]
    of = f" {ascii_line(flip.prompt)}, width {flip.width}, {flip.prefix}" if several else ""
    single = token(flip.single_token, flip.single_piece)
    block = token(flip.block_token, flip.block_piece)
    delta = (flip.l_single or 0.0) - (flip.l_block or 0.0)
    line = (
        f"- FLIP{label}{of} pos={flip.position} "
        f"(window t={flip.window}, block offset j={flip.offset}): "
        f"single argmax={single} l={logit(flip.single_logit)}, "
        f"block argmax={block} l={logit(flip.block_logit)}; "
        f"AR token={token(flip.ar_token, flip.ar_piece)} l_ar={logit(flip.l_ar)} "
        f"l_s={logit(flip.l_single)} l_b={logit(flip.l_block)} dlogit={delta:+.4f}; "
        f"margin {number(flip.margin_single)} -> {number(flip.margin_block)}"
    )
    if len(group) > 1:
        line += f"; also in windows t={ranges(other.window for other in group[1:])}"
    note = "; single path deviates from the AR trajectory too: prefill-vs-incremental drift"
    return line + (note if flip.off_trajectory else "")


def logit(value: float | None) -> str:
    """A logit with four decimals."""
    return NONE if value is None else f"{value:.4f}"


def token(which: int, piece: str) -> str:
    """A token with its text, in ASCII, as code."""
    text = f"{which}({piece!a})"
    return f"`` {text} ``" if "`" in text else f"`{text}`"
