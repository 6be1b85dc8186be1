"""What changed between two records, as a table of the rows that did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ggmlprobe.record import Result, dumps
from ggmlprobe.report.changes import Change, Pairs, as_data, changes
from ggmlprobe.report.footer import device_line, library_line
from ggmlprobe.report.kernels import short
from ggmlprobe.report.markdown import class_text
from ggmlprobe.report.table import Cell, command_line, constant_line, layout_of, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number, ranges
from ggmlprobe.report.times import MICRO, interval, plain

ROWS_NAMED = 3

TEXTS: dict[str, Callable[[Any], str]] = {
    "verdict": ascii_line,
    "class": lambda letter: letter or NONE,
    "columns": lambda columns: ranges(columns) or NONE,
    "max_ulp": number,
    "kernels": lambda names: ", ".join(ascii_line(short(name)) for name in names) or NONE,
}


def table(pairs: Pairs) -> str:
    """Markdown: the rows that changed with what was and what is, classes, times, both sides."""
    made = changes(pairs)
    moved = [change for change in made if change.before]
    layout = layout_of(pairs.b)
    blocks = [
        command_line(pairs.b.command),
        constant_line(layout),
        _changed(moved, layout.varying),
        _times([change for change in made if change.time], layout.varying),
        "\n".join([*_classes(pairs), *_footer(pairs, made, moved)]),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def render_json(pairs: Pairs) -> str:
    """The same as JSON, in one line."""
    return dumps(as_data(pairs)) + "\n"


FORMATS: dict[str, Callable[[Pairs], str]] = {"md": table, "json": render_json}


def _place(rows: Sequence[Result], varying: dict[str, Cell]) -> dict[str, list[str]]:
    columns = {name: [cell(row) for row in rows] for name, cell in varying.items()}
    return columns | {"width": [str(row.width) for row in rows]}


def _changed(moved: list[Change], varying: dict[str, Cell]) -> str:
    if not moved:
        return ""
    columns = _place([change.row for change in moved], varying)
    for name, text in TEXTS.items():
        if any(name in change.before for change in moved):
            columns[name] = [_arrow(change, name, text) for change in moved]
    return pipe_table(columns)


def _arrow(change: Change, name: str, text: Callable[[Any], str]) -> str:
    if name not in change.before:
        return "="
    return f"{text(change.before[name])} -> {text(change.after[name])}"


def _times(timed: list[Change], varying: dict[str, Cell]) -> str:
    if not timed:
        return ""
    columns = _place([change.row for change in timed], varying)
    columns["B us/token"] = [
        plain(MICRO * change.row.time.median_seconds / change.row.width)
        if change.row.time
        else NONE
        for change in timed
    ]
    ratios = [change.time for change in timed if change.time]
    columns["x time"] = [f"{ratio.ratio:.3f}" for ratio in ratios]
    columns["95 %"] = [interval(ratio) for ratio in ratios]
    return pipe_table(columns)


def _classes(pairs: Pairs) -> list[str]:
    was = {(entry.config, entry.case): class_text(entry) for entry in pairs.a.classes}
    return [
        f"- {ascii_line(entry.case)} in {ascii_line(entry.config)}: "
        f"were {was[entry.config, entry.case]}, are {class_text(entry)}"
        for entry in pairs.b.classes
        if was.get((entry.config, entry.case), class_text(entry)) != class_text(entry)
    ]


def _footer(pairs: Pairs, made: list[Change], moved: list[Change]) -> list[str]:
    sides = (("A", pairs.a), ("B", pairs.b))
    lines = [f"- {side}: {library_line(r)}, {ascii_line(r.environment.date)}" for side, r in sides]
    devices = dict.fromkeys(device_line(record) for _, record in sides)
    lines.append(f"- device: {'; in B '.join(devices)}")
    for side in ("A", "B"):
        alone = pairs.only(side)
        if alone:
            named = ", ".join(f"{ascii_line(r.case)} at {r.width}" for r in alone[:ROWS_NAMED])
            more = f" and {len(alone) - ROWS_NAMED} more" if len(alone) > ROWS_NAMED else ""
            lines.append(f"- only in {side}: {named}{more}")
    return [*lines, f"- changed: {len(moved)} of {len(made)} rows"]
