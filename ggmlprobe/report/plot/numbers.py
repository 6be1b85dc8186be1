"""ULP histogram, and time per token over width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ggmlprobe.record import CaseClasses, Record, Result, TimeStats
from ggmlprobe.report.plot.nothing import NothingToDraw
from ggmlprobe.report.plot.series import (
    MOST,
    by_case,
    labels,
    legend,
    note_left_out,
    plain_log,
    width_axis,
)
from ggmlprobe.report.plot.style import WIDE, series_color

HIGH = 3.4
MICRO = 1e6


def draw_ulp(figure: Figure, record: Record) -> None:
    """Draw how many elements differ by how many ULPs, all widths together, a line for each case.

    Raises:
        NothingToDraw: no element differs.
    """
    counts = {place: _pooled(rows) for place, rows in by_case(record).items()}
    counts = {place: each for place, each in counts.items() if each}
    if not counts:
        raise NothingToDraw("no element differs in this record: there is no ULP histogram")
    buckets = sorted({name for each in counts.values() for name in each}, key=_lower)
    figure.set_size_inches(WIDE, HIGH + 0.2 * min(len(counts), MOST))
    axes = figure.add_subplot()
    named = labels(record)
    for i, (place, each) in enumerate(list(counts.items())[:MOST]):
        color = series_color(i)
        heights = [each.get(bucket, 0) for bucket in buckets]
        if len(counts) == 1:
            axes.bar(range(len(buckets)), heights, color=color)
        else:
            shown = [height or float("nan") for height in heights]
            axes.plot(range(len(buckets)), shown, "o-", color=color, label=named[place])
    axes.set_yscale("log")
    plain_log(axes.yaxis)
    step = max(1, len(buckets) // 12)
    axes.set_xticks(range(0, len(buckets), step), buckets[::step], rotation=35, ha="right")
    axes.set_xlabel("distance in ULPs")
    axes.set_ylabel("differing elements")
    axes.set_title("ULP histogram, all widths")
    note_left_out(axes, MOST, len(counts))
    if len(counts) > 1:
        legend(figure, axes)


def _pooled(rows: Sequence[Result]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        for bucket, count in row.ulp_histogram.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return counts


def _lower(bucket: str) -> tuple[int, str]:
    """Least distance of a bucket named `5-8`; a name of another kind comes first."""
    low = bucket.partition("-")[0]
    return (int(low) if low.isascii() and low.isdigit() else 0, bucket)


def draw_time(figure: Figure, record: Record) -> None:
    """Draw time per token over width with quartiles; dashed lines where the class changes.

    Raises:
        NothingToDraw: nothing was timed.
    """
    timed = {
        place: there
        for place, rows in by_case(record).items()
        if (there := [(row.width, row.time) for row in rows if row.time is not None])
    }
    if not timed:
        raise NothingToDraw("no times in this record: run the probe with --time")
    classes = {(entry.config, entry.case): entry for entry in record.classes}
    figure.set_size_inches(WIDE, HIGH + 0.2 * min(len(timed), MOST))
    axes = figure.add_subplot()
    named = labels(record)
    for i, (place, points) in enumerate(list(timed.items())[:MOST]):
        _line(axes, points, series_color(i), named[place])
        for low, high in _boundaries(classes.get(place), [width for width, _ in points]):
            axes.axvline((low + high) / 2, color=series_color(i), ls=(0, (3, 2 + i)), lw=0.9)
    axes.set_yscale("log")
    plain_log(axes.yaxis)
    width_axis(axes, [width for points in timed.values() for width, _ in points])
    axes.set_ylabel("us per token")
    axes.set_title("time per token; dashed: another width class begins")
    note_left_out(axes, MOST, len(timed))
    if len(timed) > 1:
        legend(figure, axes)


def _line(
    axes: Axes, points: Sequence[tuple[int, TimeStats]], color: str, label: str
) -> None:  # fmt: skip
    widths = [width for width, _ in points]
    scale = [MICRO / width for width in widths]
    times = [time for _, time in points]
    medians = [time.median_seconds * k for time, k in zip(times, scale, strict=True)]
    axes.plot(widths, medians, "o-", color=color, label=label)
    lows = [time.low_seconds * k for time, k in zip(times, scale, strict=True)]
    highs = [time.high_seconds * k for time, k in zip(times, scale, strict=True)]
    axes.fill_between(widths, lows, highs, color=color, alpha=0.15, lw=0)


def _boundaries(entry: CaseClasses | None, widths: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring widths of different classes."""
    if entry is None:
        return []
    number = {width: i for i, group in enumerate(entry.groups) for width in group}
    known = [width for width in widths if width in number]
    return [(low, high) for low, high in pairwise(known) if number[low] != number[high]]
