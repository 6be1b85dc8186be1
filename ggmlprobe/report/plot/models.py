"""Flip rate over width, and how far logits move against the margin they are protected by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ggmlprobe.model.record import BlockComparison, Rate
from ggmlprobe.record import Record
from ggmlprobe.report.plot.nothing import NothingToDraw
from ggmlprobe.report.plot.series import MOST, legend, note_left_out, plain_log, width_axis
from ggmlprobe.report.plot.style import GRID, PALETTE, SERIAL, WIDE, series_color
from ggmlprobe.report.text import ascii_line

HIGH = 3.4
LABEL = 40


def draw_flips(figure: Figure, record: Record) -> None:
    """Draw the flip rate over width with its intervals: of all, and of what was swept.

    Raises:
        NothingToDraw: the record has no rates.
    """
    lines: dict[str, list[Rate]] = {}
    for rate in record.rates:
        if rate.width is not None and rate.flip_rate is not None:
            name = "all" if rate.axis == "width" else f"{rate.axis}={rate.value or 'unset'}"
            lines.setdefault(ascii_line(name)[:LABEL], []).append(rate)
    if not lines:
        raise NothingToDraw("no flip rates in this record: `model compare` makes some")
    figure.set_size_inches(WIDE, HIGH + 0.2 * min(len(lines), MOST))
    axes = figure.add_subplot()
    for i, (name, rates) in enumerate(list(lines.items())[:MOST]):
        _rate_line(axes, sorted(rates, key=lambda rate: rate.width or 0), i, name)
    width_axis(axes, [rate.width or 1 for rates in lines.values() for rate in rates])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("cells with another argmax, %")
    axes.set_title("flip rate, 95 % intervals")
    note_left_out(axes, MOST, len(lines))
    if len(lines) > 1:
        legend(figure, axes)


def _rate_line(axes: Axes, rates: Sequence[Rate], number: int, name: str) -> None:
    middle = [100 * (rate.flip_rate or 0.0) for rate in rates]
    low = [m - 100 * (rate.flip_low or 0.0) for m, rate in zip(middle, rates, strict=True)]
    high = [100 * (rate.flip_high or 0.0) - m for m, rate in zip(middle, rates, strict=True)]
    # lines of one width would lie on each other
    widths = [(rate.width or 1) + 0.06 * number for rate in rates]
    color = series_color(number)
    # an edited file may have a rate outside of its interval
    spread = [[max(0.0, value) for value in ends] for ends in (low, high)]
    axes.errorbar(widths, middle, yerr=spread, fmt="o-", color=color, capsize=2.5, label=name)


class Point(NamedTuple):
    """A cell: margin of the single path, change of the AR token's logit, another argmax."""

    margin: float
    delta: float
    flipped: bool


def draw_margin(figure: Figure, record: Record) -> None:
    """Draw |l_single - l_block| against the single path's top-2 margin, flips in front.

    Raises:
        NothingToDraw: the record has neither cells nor flips.
    """
    points = [point for row in record.comparisons for point in _cells(row)]
    what = "every cell"
    if not points:
        points, what = _flips(record), "flips alone (--cells has every cell)"
    drawn = [point for point in points if point.margin > 0 and point.delta > 0]
    if not drawn:
        raise NothingToDraw("no cells in this record: run `model compare` with --cells")
    figure.set_size_inches(WIDE, HIGH + 0.8)
    axes = figure.add_subplot()
    for flipped, color, label in ((False, SERIAL, "same argmax"), (True, PALETTE[0], "flip")):
        chosen = [point for point in drawn if point.flipped == flipped]
        if chosen:
            xs, ys = [p.margin for p in chosen], [p.delta for p in chosen]
            axes.scatter(xs, ys, s=22 if flipped else 9, color=color, lw=0, alpha=0.8,
                         zorder=2 + flipped, label=f"{label} ({len(chosen)})")  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)
    values = [value for point in drawn for value in (point.margin, point.delta)]
    ends = [min(values), max(values)]
    axes.plot(ends, ends, color=GRID, lw=0.9, ls="--", label="delta = margin")
    axes.set_xlabel("top-2 margin of the single path")
    axes.set_ylabel("|l_single - l_block|")
    zero = len(points) - len(drawn)
    axes.set_title(f"margin against delta, {what}" + (f", {zero} at 0 left out" if zero else ""))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=3)


def _cells(row: BlockComparison) -> list[Point]:
    cells = row.cell_values
    if cells is None:
        return []
    columns = (
        cells.margin, cells.l_single, cells.l_block, cells.single_token, cells.block_token
    )  # fmt: skip
    return [
        Point(margin, abs(single - block), a != b)
        for margin, single, block, a, b in zip(*columns, strict=False)
        if margin is not None and single is not None and block is not None
    ]


def _flips(record: Record) -> list[Point]:
    numbers = [(flip.margin_single, flip.l_single, flip.l_block) for flip in record.flip_list]
    return [
        Point(margin, abs(single - block), True)
        for margin, single, block in numbers
        if margin is not None and single is not None and block is not None
    ]
