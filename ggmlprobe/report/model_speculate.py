"""`model speculate` as text: speed, acceptance, equivalence, and what rechecking buys."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ggmlprobe.codec import dumps, to_dict
from ggmlprobe.model.speculated import Speculated, SpeculationTotal, TokenDifference
from ggmlprobe.record import Config, Record
from ggmlprobe.report import json
from ggmlprobe.report.csv import cell
from ggmlprobe.report.footer import device_line, library_line, machine_line
from ggmlprobe.report.model_compare import shortened, with_interval
from ggmlprobe.report.model_flips import labels_of, logit, token
from ggmlprobe.report.model_rows import around
from ggmlprobe.report.rows import CONFIG_COLUMNS, configs_by_id, varying_config_columns
from ggmlprobe.report.table import command_line, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number

SETTINGS = ("model", "fa", "type_k", "type_v", "ngl", "extra_bufts")
DIFFERENCES_SHOWN = 20
OWN_FIELDS = (
    "prompt", "kind", "chat", "n", "n_max", "arm", "draft", "recheck", "verdict", "prompt_tokens",
    "tokens", "blocks", "drafts", "drafted", "accepted", "mean_length", "rechecked", "changed",
    "ratio", "ratio_low", "ratio_high", "signal", "detail",
)  # fmt: skip


def table(record: Record) -> str:
    """Command, what is constant, a row per prompt and arm, totals, differences, footer."""
    blocks = [
        command_line(record.command),
        " ".join(f"{name}={value}" for name, value in constants(record).items()),
        rows_table(record),
        totals_table(record),
        "\n".join(difference_lines(record)),
        "\n".join(notes(record)),
        "\n".join(footer(record)),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def constants(record: Record) -> dict[str, str]:
    """Settings that all rows share."""
    varying = varying_config_columns(record.configs)
    found = {
        name: CONFIG_COLUMNS[name](record.configs[0])
        for name in SETTINGS if name not in varying and record.configs
    }  # fmt: skip
    drafts = [row.draft for row in record.speculated if row.draft]
    found |= {"draft": ascii_line(drafts[0])} if drafts else {}
    for row in record.speculated[:1]:
        found |= {"n_max": str(row.n_max), "n": str(row.n), "chat_template": str(int(row.chat))}
    return found


def config_cells(record: Record, ids: Sequence[str]) -> dict[str, list[str]]:
    """Columns that tell the configs apart."""
    configs = configs_by_id(record)
    return {
        name: [CONFIG_COLUMNS[name](configs[each]) for each in ids]
        for name in varying_config_columns(record.configs)
    }


def rows_table(record: Record) -> str:
    """One row per prompt and arm."""
    rows = record.speculated
    cells: dict[str, Callable[[Speculated], str]] = {
        "prompt": lambda row: ascii_line(row.prompt),
        "arm": lambda row: row.arm,
        "recheck": lambda row: number(row.recheck or None),
        "verdict": lambda row: ascii_line(row.verdict),
        "tokens": lambda row: str(row.tokens),
        "first": lambda row: number(row.difference.position if row.difference else None),
        "drafted": lambda row: number(row.drafted) if row.arm != "user" else NONE,
        "accepted": lambda row: number(row.accepted) if row.arm != "user" else NONE,
        "mean len": lambda row: number(row.mean_length),
        "rechecked": lambda row: str(row.rechecked),
        "changed": lambda row: str(row.changed),
        "t/s": lambda row: rate(row.token_seconds),
        "plain t/s": lambda row: rate(row.plain_token_seconds),
        "x time": lambda row: number(row.ratio),
        "95 %": lambda row: span(row.ratio_low, row.ratio_high),
    }
    if not any(row.recheck for row in rows):
        for name in ("recheck", "rechecked", "changed"):
            del cells[name]
    if len({row.prompt for row in rows}) < 2:
        del cells["prompt"]
    return pipe_table(
        config_cells(record, [row.config for row in rows])
        | {name: list(map(cell, rows)) for name, cell in cells.items()}
    )


def rate(seconds: Sequence[float]) -> str:
    """Tokens per second, median of the rounds."""
    return number(1.0 / statistics.median(seconds)) if seconds else NONE


def span(low: float | None, high: float | None) -> str:
    """An interval."""
    return NONE if low is None or high is None else f"{low:.3f}-{high:.3f}"


def totals_table(record: Record) -> str:
    """Equivalence and cost per arm and margin, over all prompts; nothing for one prompt."""
    totals = record.speculation_totals
    if not any(each.prompts > 1 for each in totals):
        return ""
    cells: dict[str, Callable[[SpeculationTotal], str]] = {
        "all prompts": lambda each: each.arm,
        "recheck": lambda each: number(each.recheck or None),
        "equal": lambda each: f"{each.equal}/{each.prompts}",
        "equal, 95 %": lambda each: with_interval(each.equal_rate, each.equal_low, each.equal_high),
        "acceptance": acceptance,
        "mean len": lambda each: number(each.mean_length),
        "rechecked": lambda each: f"{each.rechecked}/{each.tokens}",
        "x time": lambda each: number(each.ratio),
        "95 %": lambda each: span(each.ratio_low, each.ratio_high),
    }
    if not any(each.recheck for each in totals):
        del cells["recheck"], cells["rechecked"]
    return pipe_table(
        config_cells(record, [each.config for each in totals])
        | {name: list(map(cell, totals)) for name, cell in cells.items()}
    )


def acceptance(each: SpeculationTotal) -> str:
    """Accepted tokens of all drafted ones."""
    if not each.drafted or each.accepted is None:
        return NONE
    return f"{each.accepted}/{each.drafted} ({100 * each.accepted / each.drafted:.1f}%)"


def difference_lines(record: Record) -> list[str]:
    """A line for each token in which texts of a prompt differ: candidates, logits, margins."""
    labels = labels_of(record)
    groups: dict[tuple[object, ...], list[Speculated]] = {}
    for row in record.speculated:
        if (apart := row.difference) is not None:
            place = (row.config, row.prompt, apart.position, apart.byte, apart.token, apart.own)
            groups.setdefault(place, []).append(row)
    lines = []
    for first, *others in list(groups.values())[:DIFFERENCES_SHOWN]:
        assert first.difference is not None
        also = f"; also {', '.join(map(way, others))}" if others else ""
        lines.append(f"- {difference(first, first.difference, labels[first.config])}{also}")
    more = len(groups) - DIFFERENCES_SHOWN
    return [*lines, f"- and {more} more places where a text differs"] if more > 0 else lines


def way(row: Speculated) -> str:
    """The arm, with its margin."""
    return f"{row.arm} recheck {row.recheck:g}" if row.recheck else row.arm


def difference(row: Speculated, apart: TokenDifference, label: str) -> str:
    """Where a text parts from the plain one."""
    head = f"{row.verdict}{label} {ascii_line(row.prompt)}, {way(row)}: "
    if apart.position < 0:
        return f"{head}byte {apart.byte}: plain {apart.plain_piece!a}, here {apart.piece!a}"
    place = "" if apart.width is None else f" (row {apart.offset} of a block of {apart.width})"
    plain, other = which(apart.plain_token, apart.plain_piece), which(apart.token, apart.piece)
    line = f"{head}token {apart.position}{place}: plain {plain}, here {other}"
    if not apart.logits:
        margin = number(apart.plain_margin)
        told = f"; log-probabilities plain {pair(apart.plain_logits)}, margin {margin}"
        return line + (told if apart.plain_logits else "")
    return (
        f"{line}; logits plain {pair(apart.plain_logits)}, here {pair(apart.logits)}; "
        f"margin {number(apart.plain_margin)} and {number(apart.margin)}"
        + ("; the target's own argmax" if apart.own else "")
    )


def which(number_of: int | None, piece: str) -> str:
    """A token; a text that has ended has none."""
    return "nothing" if number_of is None else token(number_of, piece)


def pair(values: Sequence[float | None]) -> str:
    """Logits of the plain token and of the other."""
    return " / ".join(map(logit, values))


def notes(record: Record) -> list[str]:
    """Why a verdict is what it is, each reason once."""
    found: dict[str, list[str]] = {}
    for row in record.speculated:
        if row.detail:
            why = ascii_line(f"{row.verdict}: {row.detail}")
            found.setdefault(why, []).append(ascii_line(f"{row.prompt}/{row.arm}"))
    return [f"- {why} ({shortened(places)})" for why, places in found.items()]


def footer(record: Record) -> list[str]:
    """Model, library, device, machine, and what came out."""
    models = dict.fromkeys(c.model.description for c in record.configs if c.model is not None)
    rows = record.speculated
    apart = sum(row.verdict != "INVARIANT" for row in rows)
    rounds = max((len(row.token_seconds) for row in rows), default=0)
    cut = "; interrupted, rows are missing" if record.interrupted else ""
    return [
        f"- model: {'; '.join(map(ascii_line, models))}",
        f"- library: {library_line(record)}",
        f"- device: {device_line(record)}",
        f"- machine: {machine_line(record)}",
        f"- time: x time is seconds per token over plain decoding's in the same context, prompt "
        f"excluded, median of {rounds} rounds in turn",
        f"- findings: {apart} of {len(rows)} texts are not the plain one{cut}",
    ]


def render_jsonl(record: Record) -> str:
    """One self-contained JSON object per row."""
    configs = configs_by_id(record)
    return "".join(
        dumps(around(configs[row.config]) | to_dict(row)) + "\n" for row in record.speculated
    )


def render_csv(record: Record) -> str:
    """A header line, then one line per row."""
    configs = configs_by_id(record)
    out = io.StringIO()
    lines = [_line(row, configs[row.config]) for row in record.speculated]
    writer = csv.DictWriter(out, list(lines[0]) if lines else [*OWN_FIELDS], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def _line(row: Speculated, config: Config) -> dict[str, Any]:
    plain = to_dict(row)
    apart = plain["difference"] or {}
    cells = around(config) | {"env": CONFIG_COLUMNS["env"](config) if config.env else None}
    cells |= {name: plain[name] for name in OWN_FIELDS}
    cells["tokens_per_second"] = _rate(row.token_seconds)
    cells["plain_tokens_per_second"] = _rate(row.plain_token_seconds)
    for name in ("position", "byte", "plain_piece", "piece", "plain_margin", "margin", "own"):
        cells[f"first_{name}"] = apart.get(name)
    return {name: cell(value) for name, value in cells.items()}


def _rate(seconds: Sequence[float]) -> float | None:
    return 1.0 / statistics.median(seconds) if seconds else None


FORMATS: Mapping[str, Callable[[Record], str]] = {
    "md": table, "csv": render_csv, "json": json.render, "jsonl": render_jsonl,
}  # fmt: skip
"""As report.FORMATS."""
