"""The class map: cases down, widths across, a colour and a letter for each class."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ggmlprobe.classes import joint_letters, letters
from ggmlprobe.record import Record, Result
from ggmlprobe.report.marks import ALONE
from ggmlprobe.report.plot.nothing import NothingToDraw
from ggmlprobe.report.plot.series import by_case, labels
from ggmlprobe.report.plot.style import GRID, INK, WIDE, class_color
from ggmlprobe.verdict import Verdict

Key = tuple[str, str, int]

MOST = 120
ROW = 0.26
MARGIN = 1.0
LETTERED = 40
TEXT = "#ffffff"
GAP = 0.06


def draw_classes(figure: Figure, record: Record) -> None:
    """Draw the map of a record with width classes.

    Raises:
        NothingToDraw: it has none.
    """
    if not record.classes:
        raise NothingToDraw("no width classes in this record: a run of `op` or `sweep` has some")
    cases = dict(list(by_case(record).items())[:MOST])
    widths = sorted({row.width for rows in cases.values() for row in rows})
    numbers = _numbers(record)
    figure.set_size_inches(WIDE, MARGIN + ROW * len(cases))
    axes = figure.add_subplot()
    for y, rows in enumerate(cases.values()):
        for row in rows:
            _cell(axes, widths.index(row.width), y, row, numbers.get(row.key), len(widths))
    named = labels(record, short=True)
    axes.set_yticks(range(len(cases)), [named[place] for place in cases])
    step = max(1, len(widths) // 24)
    axes.set_xticks(
        range(0, len(widths), step), [str(width) for width in widths[::step]], fontsize=8
    )
    axes.set_xlim(-0.5, len(widths) - 0.5)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("width")
    axes.set_title("width classes, A: serial runs", x=0)


def _numbers(record: Record) -> dict[Key, int]:
    """Number of the class by row; of `threshold` over all arms of a case together."""
    if not any(config.arm for config in record.configs):
        return {
            (entry.config, entry.case, width): i
            for entry in record.classes
            for i, group in enumerate(entry.groups)
            for width in group
        }
    made: dict[Key, int] = {}
    for case in dict.fromkeys(row.case for row in record.results):
        rows = sorted((row for row in record.results if row.case == case and row.seeds),
                      key=lambda row: (row.config, row.width))  # fmt: skip
        named = joint_letters({row.key: [seed.hashes for seed in row.seeds] for row in rows})
        order = {letter: i for i, letter in enumerate(dict.fromkeys(named.values()))}
        made |= {key: order[letter] for key, letter in named.items()}
    return made


def _cell(axes: Axes, x: int, y: int, row: Result, number: int | None, widths: int) -> None:
    corner, size = (x - 0.5 + GAP, y - 0.5 + GAP), 1 - 2 * GAP
    if number is None:
        axes.add_patch(Rectangle(corner, size, size, facecolor="none", edgecolor=GRID, lw=0.6))
        mark, color = ALONE.get(Verdict(row.verdict), "x"), INK
    else:
        axes.add_patch(Rectangle(corner, size, size, facecolor=class_color(number), lw=0))
        mark, color = letters(number), TEXT
    if widths <= LETTERED:
        axes.text(x, y, mark, color=color, ha="center", va="center", fontsize=7.5)
