"""Comparisons pooled: totals of a record, and rates along each axis that was swept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ggmlprobe.model.pooling import PAIRS, interval, pooled
from ggmlprobe.model.record import BlockComparison, PairStats, Rate
from ggmlprobe.record import Config, Header, Record

Value = Callable[[BlockComparison, Config], str]

PER_WIDTH: Mapping[str, Value] = {
    "fa": lambda row, config: config.model.fa if config.model else "",
    "type_k": lambda row, config: config.model.type_k if config.model else "",
    "type_v": lambda row, config: config.model.type_v if config.model else "",
    "threads": lambda row, config: str(config.threads),
    "threads_batch": lambda row, config: str(config.threads_batch),
    "env": lambda row, config: " ".join(f"{k}={v or ''}" for k, v in config.env.items()),
    "prefix": lambda row, config: row.prefix,
}
"""Axes whose values are given for each width."""

POOLED: Mapping[str, Value] = {
    "kind": lambda row, config: row.kind,
    "prompt": lambda row, config: row.prompt,
}
"""Axes whose values pool all widths, the hardest first."""


def compared(rows: Iterable[BlockComparison]) -> list[BlockComparison]:
    """Those that have cells."""
    return [row for row in rows if row.cells]


def rate(axis: str, value: str, rows: Sequence[BlockComparison]) -> Rate:
    """The rates of some comparisons together."""
    widths = {row.width for row in rows}
    offsets = [count for row in rows for count in row.by_offset]
    cells = sum(count.cells for count in offsets)
    differing = sum(count.cells_differing for count in offsets)
    flips = sum(count.flips for count in offsets)
    windows = sum(row.windows_full for row in rows)
    flipped = sum(row.windows_flipped for row in rows)
    return Rate(
        axis, value, widths.pop() if len(widths) == 1 else None,
        cells, differing, *interval(differing, cells), flips, *interval(flips, cells),
        windows, flipped, *interval(flipped, windows),
    )  # fmt: skip


def rates(rows: Sequence[BlockComparison], configs: Sequence[Config]) -> list[Rate]:
    """Rates of each width, and of every value of each axis that has more than one.

    Where both prefixes ran, only the axis `prefix` takes those of prefix ar: they are the same
    windows once more.
    """
    there = compared(rows)
    by_id = {config.id: config for config in configs}
    seed = [row for row in there if row.prefix == "prefill"] or there
    made = [
        rate("width", str(width), [row for row in seed if row.width == width])
        for width in sorted({row.width for row in seed})
    ]
    for axis, value in PER_WIDTH.items():
        # one thread count for both widths is one axis
        if axis == "threads_batch" and all(c.threads == c.threads_batch for c in configs):
            continue
        made += along(axis, value, there if axis == "prefix" else seed, by_id, True)
    for axis, value in POOLED.items():
        found = along(axis, value, seed, by_id, False)
        made += sorted(found, key=lambda r: (-(r.flip_rate or 0.0), -(r.differing_rate or 0.0)))
    return made


def along(
    axis: str, value: Value, rows: Sequence[BlockComparison], configs: Mapping[str, Config],
    per_width: bool,
) -> list[Rate]:  # fmt: skip
    """Rates of an axis; none where it has one value."""
    groups: dict[tuple[str, int], list[BlockComparison]] = {}
    for row in rows:
        place = (value(row, configs[row.config]), row.width if per_width else 0)
        groups.setdefault(place, []).append(row)
    if len({name for name, _ in groups}) < 2:
        return []
    order = sorted(groups, key=lambda place: place[1])
    return [rate(axis, name, groups[name, width]) for name, width in order]


def totals(rows: Sequence[BlockComparison]) -> list[PairStats]:
    """The three pairs over all cells of all comparisons."""
    there = compared(rows)
    if not there:
        return []
    return [
        pooled(pair for row in there for pair in row.pairs if pair.pair == name) for name in PAIRS
    ]


def record_of(header: Header, rows: Sequence[BlockComparison], interrupted: bool) -> Record:
    """The record of a run."""
    flips = [flip for row in rows for flip in row.flip_list]
    return Record(
        header.schema, header.command, header.configs, header.environment,
        cells=sum(row.cells for row in rows),
        cells_differing=sum(row.cells_differing for row in rows),
        flips=sum(row.flips for row in rows), flip_list=flips, pairs=totals(rows),
        comparisons=list(rows), rates=rates(rows, header.configs), interrupted=interrupted,
    )  # fmt: skip
