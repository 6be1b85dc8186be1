"""The table of `ab`: verdict before and after, and time after over time before, per width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ggmlprobe.dispatch.price import Ratio, Z
from ggmlprobe.record import Record, Result, Slowdown
from ggmlprobe.report.footer import footer
from ggmlprobe.report.kernels import kernel_cells
from ggmlprobe.report.rows import CONFIG_COLUMNS, class_letters, varying_config_columns
from ggmlprobe.report.table import command_line, constant_line, layout_of, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, ranges
from ggmlprobe.report.times import interval, time_lines

A, B = "c0", "c1"
PASS = "INVARIANT"
Key = tuple[str, int]


def table(record: Record) -> str:
    """Markdown: command, sides, a row per case and width, pass counts, cost per width, footer."""
    layout = layout_of(record)
    rows = {row.key: row for row in record.results}
    keys = list(dict.fromkeys((row.case, row.width) for row in record.results))
    pairs = [(rows.get((A, *key)), rows.get((B, *key))) for key in keys]
    times = {(each.case, each.width): each for each in record.ab or []}
    sides = varying_config_columns(record.configs)
    either = [a or b for a, b in pairs]
    columns = {
        name: [cell(row) for row in either if row]
        for name, cell in layout.varying.items()
        if name not in sides
    }
    columns["width"] = [str(width) for _, width in keys]
    columns |= _verdicts(record, pairs)
    columns |= _ratios([times.get(key) for key in keys])
    blocks = [
        command_line(record.command),
        constant_line(layout),
        "\n".join(_side_lines(record, sides)),
        pipe_table(columns),
        "\n".join(_summary(pairs, times)),
        "\n".join([*time_lines(record), *footer(record)]),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _side_lines(record: Record, names: Sequence[str]) -> list[str]:
    """What each side is, in what the two differ."""
    return [
        f"- {side}: " + ", ".join(f"{name} {CONFIG_COLUMNS[name](config)}" for name in names)
        for side, config in zip("AB", record.configs, strict=True)
    ]


def _verdicts(
    record: Record, pairs: Sequence[tuple[Result | None, Result | None]]
) -> dict[str, list[str]]:
    letters = class_letters(record)
    columns = {}
    for i, side in enumerate("AB"):
        rows = [pair[i] for pair in pairs]
        columns[f"class {side}"] = [letters.get(row.key, NONE) if row else NONE for row in rows]
        columns[f"verdict {side}"] = [ascii_line(row.verdict) if row else NONE for row in rows]
        for name, cell in kernel_cells(record).items():
            columns[f"{name} {side}"] = [cell(row) if row else NONE for row in rows]
    columns["same bits"] = [_same_bits(a, b) for a, b in pairs]
    return columns


def _same_bits(a: Result | None, b: Result | None) -> str:
    if not (a and b and a.seeds and b.seeds):
        return NONE
    same = [seed.hashes for seed in a.seeds] == [seed.hashes for seed in b.seeds]
    return "yes" if same else "no"


def _ratios(times: Sequence[Slowdown | None]) -> dict[str, list[str]]:
    if not any(times):
        return {}
    return {
        "time B/A": [f"{each.ratio:.3f}" if each else NONE for each in times],
        "95 %": [interval(_ratio(each)) if each else NONE for each in times],
        "time A/A": [f"{each.null:.3f}" if each else NONE for each in times],
        "A/A 95 %": [interval(_null(each)) if each else NONE for each in times],
    }


def _ratio(each: Slowdown) -> Ratio:
    return Ratio(each.ratio, each.low, each.high)


def _null(each: Slowdown) -> Ratio:
    return Ratio(each.null, each.null_low, each.null_high)


def _summary(
    pairs: Sequence[tuple[Result | None, Result | None]], times: dict[Key, Slowdown]
) -> list[str]:
    """Pass counts, and the cost: width 1 apart, then widths whose verdict changed, then others."""
    counts = [
        f"{sum(row.verdict == PASS for row in rows if row)}/{sum(row is not None for row in rows)}"
        for rows in zip(*pairs, strict=True)
    ]
    changed = {a.width for a, b in pairs if a and b and a.verdict != b.verdict}
    widths = {width for _, width in times}
    groups = {
        "width 1": widths & {1},
        "widths whose verdict changed": (widths & changed) - {1},
        "other widths": widths - changed - {1},
    }
    lines = [f"- pass: {counts[0]} (A) -> {counts[1]} (B)"]
    for name, group in groups.items():
        lines += _cost(name, [each for each in times.values() if each.width in group])
    return lines + _failed_nulls(times)


def _failed_nulls(times: dict[Key, Slowdown]) -> list[str]:
    """Where A differs from itself by more than its interval; chance alone does so in 5 %."""
    failed = [key for key, each in times.items() if not each.null_low <= 1 <= each.null_high]
    if not failed:
        return []
    widths = ranges({width for _, width in failed})
    return [
        f"- A/A interval without 1 in {len(failed)} of {len(times)} (width {widths}): noise there "
        "is larger than the intervals of B/A say (5 % come by chance)"
    ]


def _cost(name: str, group: Sequence[Slowdown]) -> list[str]:
    """One line over the cases and widths of a group."""
    if not group:
        return []
    label = name if name == "width 1" else f"{name} ({ranges(each.width for each in group)})"
    both, null = mean(map(_ratio, group)), mean(map(_null, group))
    return [
        f"- time at {label}: B/A {both.ratio:.3f} ({interval(both)}), "
        f"A/A {null.ratio:.3f} ({interval(null)})"
    ]


def mean(ratios: Iterable[Ratio]) -> Ratio:
    """Geometric mean of independent ratios."""
    each = list(ratios)
    log = sum(math.log(r.ratio) for r in each) / len(each)
    errors = [math.log(r.high / r.low) / (2 * Z) for r in each]
    half = Z * math.sqrt(sum(error**2 for error in errors)) / len(each)
    return Ratio(math.exp(log), math.exp(log - half), math.exp(log + half))
