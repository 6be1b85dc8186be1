"""Rows of a record as lines of a picture."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ggmlprobe.record import Record, Result
from ggmlprobe.report.table import Cell, layout_of

MOST = 8
LABEL = 60
SHORT_LABEL = 32

Place = tuple[str, str]


def by_case(record: Record) -> dict[Place, list[Result]]:
    """Rows of each config and case, widths ascending."""
    cases: dict[Place, list[Result]] = {}
    for row in sorted(record.results, key=lambda row: row.width):
        cases.setdefault((row.config, row.case), []).append(row)
    order = dict.fromkeys((row.config, row.case) for row in record.results)
    return {place: cases[place] for place in order}


def labels(record: Record, short: bool = False) -> dict[Place, str]:
    """What tells each config and case from the others; the op where there is one.

    Args:
        short: values without their names.
    """
    cells = telling(record)
    most = SHORT_LABEL if short else LABEL
    made = {}
    for place, rows in by_case(record).items():
        named = {name: cell(rows[0]) for name, cell in cells.items()}
        values = named.values() if short else [f"{n}={value}" for n, value in named.items()]
        text = " ".join(values) or rows[0].op
        made[place] = text if len(text) <= most else text[: most - 3] + "..."
    return made


def telling(record: Record) -> dict[str, Cell]:
    """Columns that tell cases apart, without those that follow from columns before them."""
    cells = layout_of(record).varying
    if "arm" in cells:
        cells.pop("env", None)
    rows = [rows[0] for rows in by_case(record).values()]
    kept: dict[str, Cell] = {}
    apart = 1
    for name, cell in cells.items():
        more = {**kept, name: cell}
        count = len({tuple(each(row) for each in more.values()) for row in rows})
        if count > apart:
            kept, apart = more, count
    return kept


def legend(figure: Figure, axes: Axes) -> None:
    """Below the picture, where it hides nothing; none for a single line without a name."""
    handles, names = axes.get_legend_handles_labels()
    columns = 2 if max(map(len, names), default=0) <= LABEL // 2 else 1
    figure.legend(handles, names, loc="outside lower left", ncols=columns)


def note_left_out(axes: Axes, shown: int, there: int) -> None:
    """Say in the title that not all series are drawn."""
    if there > shown:
        axes.set_title(f"{axes.get_title(loc='left')} (first {shown} of {there} cases)")


def plain_log(axis: Axis) -> None:
    """A logarithmic axis whose ticks are plain numbers."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def width_axis(axes: Axes, widths: Sequence[int]) -> None:
    """A tick at each width, as far as they do not run into each other."""
    wanted = sorted(set(widths))
    if wanted[-1] > 64:
        axes.set_xscale("log", base=2)
        wanted = [width for width in wanted if width & (width - 1) == 0] or wanted
    shown: list[int] = []
    for width in wanted:
        if not shown or wanted[-1] > 64 or width - shown[-1] >= wanted[-1] / 32:
            shown.append(width)
    axes.set_xticks(shown, [str(width) for width in shown])
    axes.minorticks_off()
    axes.set_xlabel("width (tokens of one evaluation)")
