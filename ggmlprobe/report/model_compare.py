"""Comparisons of block and single decode as Markdown: the seed's statistics, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ggmlprobe.model.pooling import SEVERITY_LIMITS, add_bins, interval, pooled
from ggmlprobe.model.record import (
    BlockComparison,
    MarginBin,
    OffsetCount,
    PairStats,
    Rate,
)
from ggmlprobe.record import Config, Record
from ggmlprobe.report.footer import device_line, library_line, machine_line
from ggmlprobe.report.model_flips import flip_lines
from ggmlprobe.report.rows import CONFIG_COLUMNS, configs_by_id, varying_config_columns
from ggmlprobe.report.table import command_line, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number

SMALL = 5e-7

Cell = Callable[[BlockComparison], str]


def table(record: Record) -> str:
    """Command, what is constant, one row per comparison, pairs, rates, margins, flips, footer."""
    varying, constant = columns_of(record)
    blocks = [
        command_line(record.command),
        " ".join(f"{name}={value}" for name, value in constant.items()),
        pipe_table({name: list(map(cell, record.comparisons)) for name, cell in varying.items()}),
        pairs_table(record.pairs),
        rates_table(record.rates),
        offsets_table(record.comparisons),
        margins_table(record.comparisons),
        "\n".join(flip_lines(record)),
        "\n".join([*notes(record), *severity_line(record), *check_lines(record), *drift(record)]),
        "\n".join(footer(record)),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def columns_of(record: Record) -> tuple[dict[str, Cell], dict[str, str]]:
    """(name to cell of what varies or is found, name to value of what is constant)."""
    rows, configs = record.comparisons, configs_by_id(record)
    varying: dict[str, Cell] = {}
    constant: dict[str, str] = {}
    config_names = varying_config_columns(record.configs)
    for name in ("model", "fa", "type_k", "type_v", "ngl", "extra_bufts"):
        if name not in config_names and record.configs:
            constant[name] = CONFIG_COLUMNS[name](record.configs[0])
    for name in config_names:
        varying[name] = config_cell(name, configs)
    named: dict[str, Cell] = {
        "prompt": lambda row: ascii_line(row.prompt),
        "chat_template": lambda row: str(int(row.chat)),
        "n": lambda row: str(row.n),
        "prefix": lambda row: row.prefix,
        "method": lambda row: row.method or NONE,
    }
    for name, cell in named.items():
        values = dict.fromkeys(map(cell, rows))
        if len(values) > 1:
            varying[name] = cell
        else:
            constant[name] = next(iter(values), NONE)
    if constant.get("method") == constant.get("prefix") or len({row.prefix for row in rows}) > 1:
        varying.pop("method", None)
        constant.pop("method", None)
    return varying | found_columns(rows), constant


def config_cell(name: str, configs: Mapping[str, Config]) -> Cell:
    """What a row's config has in a column."""
    text = CONFIG_COLUMNS[name]
    return lambda row: text(configs[row.config])


def found_columns(rows: Sequence[BlockComparison]) -> dict[str, Cell]:
    """What was found, by column."""
    cells: dict[str, Cell] = {
        "width": lambda row: str(row.width),
        "verdict": lambda row: ascii_line(row.verdict),
        "cells": lambda row: str(row.cells),
        "differing": lambda row: str(row.cells_differing),
        "flips": lambda row: str(row.flips),
        "positions": lambda row: str(row.flip_positions),
        "first": lambda row: number(row.first_flip),
        "mean|d|": lambda row: statistic(row.pairs[2].mean_abs if row.pairs else None),
        "centred": lambda row: number(row.centred_max),
        "dprob": lambda row: number(row.probability_change_max),
        "KL": lambda row: number(row.kl_max),
        "near-ties": lambda row: share(row.near_ties, row.cells),
    }
    if any(row.nan for row in rows):
        cells["nan"] = lambda row: str(row.nan)
    return cells


def statistic(value: float | None, signed: bool = False) -> str:
    """Six decimals as the seed prints them; a smaller number with its exponent."""
    if value is None:
        return NONE
    sign = "+" if signed else ""
    if 0 < abs(value) < SMALL:
        return f"{value:{sign}.2e}"
    return f"{value:{sign}.6f}"


def share(part: int, whole: int) -> str:
    """A part of a whole in percent."""
    return f"{100 * part / whole:.1f}%" if whole else NONE


def pairs_table(pairs: Sequence[PairStats]) -> str:
    """The three pairs of paths: differences of the AR token's logit over all cells."""
    if not pairs:
        return ""
    return pipe_table(
        {
            "pair": [pair.pair for pair in pairs],
            "cells": [str(pair.cells) for pair in pairs],
            "mean": [statistic(pair.mean, signed=True) for pair in pairs],
            "var": [statistic(pair.var) for pair in pairs],
            "mean|d|": [statistic(pair.mean_abs) for pair in pairs],
            "var|d|": [statistic(pair.var_abs) for pair in pairs],
        }
    )


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A share in percent, with its interval."""
    if value is None or low is None or high is None:
        return NONE
    return f"{100 * value:.2f}% [{100 * low:.2f}, {100 * high:.2f}]"


def rates_table(rates: Sequence[Rate]) -> str:
    """Rates over full windows, with 95 % intervals."""
    if not rates:
        return ""
    widths = [number(rate.width) if rate.axis != "width" else rate.value for rate in rates]
    columns: Mapping[str, list[str]] = {
        "axis": [rate.axis for rate in rates],
        "value": [ascii_line(rate.value) or "unset" for rate in rates],
        "width": widths,
        "full windows": [str(rate.windows) for rate in rates],
        "cells": [str(rate.cells) for rate in rates],
        "differing": [
            with_interval(rate.differing_rate, rate.differing_low, rate.differing_high)
            for rate in rates
        ],
        "flips": [str(rate.flips) for rate in rates],
        "flip rate": [with_interval(r.flip_rate, r.flip_low, r.flip_high) for r in rates],
        "windows with a flip": [
            with_interval(rate.window_rate, rate.window_low, rate.window_high) for rate in rates
        ],
    }
    return pipe_table(columns)


def margins_table(rows: Sequence[BlockComparison]) -> str:
    """How often a cell flips, by the margin the single path leads by; nothing without flips."""
    bins = [row.margins for row in rows if row.cells]
    if not any(row.flips for row in rows):
        return ""
    there = [each for each in add_bins(bins) if each.cells]
    return pipe_table(
        {
            "top-2 margin": [margin_range(each) for each in there],
            "cells": [str(each.cells) for each in there],
            "differing": [str(each.cells_differing) for each in there],
            "flips": [str(each.flips) for each in there],
            "flip rate": [with_interval(*interval(each.flips, each.cells)) for each in there],
        }
    )


def margin_range(each: MarginBin) -> str:
    """The margins of a bin."""
    return f">= {each.low:g}" if each.high is None else f"{each.low:g} to {each.high:g}"


def offsets_table(rows: Sequence[BlockComparison]) -> str:
    """Cells of full windows by their offset in the block; nothing where no bit differs."""
    if not any(row.cells_differing for row in rows):
        return ""
    groups: dict[int, list[OffsetCount]] = {}
    for count in (count for row in rows for count in row.by_offset):
        groups.setdefault(count.offset, []).append(count)
    there = sorted(groups.items())
    cells = [sum(count.cells for count in group) for _, group in there]
    differing = [sum(count.cells_differing for count in group) for _, group in there]
    flips = [sum(count.flips for count in group) for _, group in there]
    return pipe_table(
        {
            "offset j": [str(offset) for offset, _ in there],
            "cells": list(map(str, cells)),
            "differing": [share(*pair) for pair in zip(differing, cells, strict=True)],
            "flips": list(map(str, flips)),
            "flip rate": [
                with_interval(*interval(*pair)) for pair in zip(flips, cells, strict=True)
            ],
        }
    )


def notes(record: Record) -> list[str]:
    """Why there is no comparison where there is none, each reason once."""
    found: dict[str, list[str]] = {}
    for row in record.comparisons:
        if row.detail:
            why = ascii_line(f"{row.verdict}: {row.detail}")
            found.setdefault(why, []).append(ascii_line(f"{row.prompt}/{row.width}"))
    return [f"- {why} ({shortened(places)})" for why, places in found.items()]


def shortened(places: Sequence[str]) -> str:
    """The first of many places."""
    more = len(places) - 3
    return ", ".join(places[:3]) + (f" and {more} more" if more > 0 else "")


def severity_line(record: Record) -> list[str]:
    """How many cells differ by how much."""
    counts: dict[str, int] = {}
    for row in record.comparisons:
        for name, count in row.severity.items():
            counts[name] = counts.get(name, 0) + count
    names = ["0", *(f"{limit:.0e}" for limit in SEVERITY_LIMITS), "more"]
    parts = [f"{n if n in ('0', 'more') else f'<= {n}'}: {counts[n]}" for n in names if n in counts]
    return [f"- cells by l_single - l_block in absolute value: {', '.join(parts)}"] * bool(parts)


def check_lines(record: Record) -> list[str]:
    """Each self-check over all comparisons."""
    rows: dict[str, int] = {}
    differing: dict[str, int] = {}
    for check in (check for row in record.comparisons for check in row.checks):
        rows[check.name] = rows.get(check.name, 0) + check.rows
        differing[check.name] = differing.get(check.name, 0) + check.rows_differing
    return [
        f"- self-check {name}: {differing[name] or 'none'} of {count} rows differ"
        for name, count in rows.items()
    ]


def drift(record: Record) -> list[str]:
    """How far the two prefixes' blocks are apart beyond window 0."""
    rows = [row for row in record.comparisons if row.drift is not None]
    if not rows:
        return []
    together = pooled(part for part in (row.drift for row in rows) if part is not None)
    differing = sum(row.drift_cells_differing or 0 for row in rows)
    return [
        f"- prefill drift, {together.pair}, t > 0: {differing} of {together.cells} cells differ, "
        f"mean {statistic(together.mean, signed=True)}, mean abs {statistic(together.mean_abs)}; "
        + times(rows, record.comparisons)
    ]


def times(ar: Iterable[BlockComparison], rows: Sequence[BlockComparison]) -> str:
    """What both prefixes took; widths of a prompt share their time."""
    spent = {"ar": 0.0, "prefill": 0.0}
    seen: set[tuple[str, str, str]] = set()
    prompts = {(row.config, row.prompt) for row in ar}
    for row in rows:
        place = (row.config, row.prompt, row.prefix)
        if place[:2] in prompts and place not in seen:
            seen.add(place)
            spent[row.prefix] += row.seconds or 0.0
    ratio = spent["prefill"] / spent["ar"] if spent["ar"] else 0.0
    return f"prefill took {spent['prefill']:.1f} s, ar {spent['ar']:.1f} s: {ratio:.1f} times"


def footer(record: Record) -> list[str]:
    """Model, library, device, machine, and what came out."""
    models = dict.fromkeys(c.model for c in record.configs if c.model is not None)
    files = {f"{ascii_line(m.description)}, {m.n_vocab} tokens, {ascii_line(m.file)}": 0
             for m in models}  # fmt: skip
    rows = record.comparisons
    found = f"{record.cells_differing} of {record.cells} cells differ, {record.flips} flips"
    cut = "; interrupted, rows are missing" if record.interrupted else ""
    return [
        f"- model: {'; '.join(files)}",
        f"- library: {library_line(record)}",
        f"- device: {device_line(record)}",
        f"- machine: {machine_line(record)}",
        f"- findings: {found} in {len(rows)} comparisons; rates are over full windows, "
        f"intervals Clopper-Pearson 95 %, as if cells were independent{cut}",
    ]
