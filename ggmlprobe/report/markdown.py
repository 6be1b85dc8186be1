"""The table a person attaches to an upstream issue; it reads well in a terminal, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ggmlprobe.classes import Classes
from ggmlprobe.record import CaseClasses, Config, Record, Result
from ggmlprobe.report.footer import footer
from ggmlprobe.report.notes import Notes
from ggmlprobe.report.rows import (
    CONFIG_COLUMNS,
    class_letters,
    configs_by_id,
    param_names,
    varying_config_columns,
)
from ggmlprobe.report.settings import setting_lines
from ggmlprobe.report.text import NONE, ascii_line, number, param, ranges

PAIRS_SHOWN = 8

Cell = Callable[[Result], str]


@dataclass(frozen=True)
class Layout:
    """What tells the rows of a record apart.

    Attributes:
        varying: name -> cell of each column that has more than one value.
        constant: name -> value of each parameter that has just one.
    """

    varying: dict[str, Cell]
    constant: dict[str, str]


def table(record: Record) -> str:
    """Markdown: command, fixed parameters, table, notes, width classes, footer.

    A column is there only if it varies, or if it holds something; ``width``, ``class`` and
    ``verdict`` always are. ASCII only; lines are not wrapped.
    """
    layout = _layout(record)
    notes = Notes()
    blocks = [_command(record.command)]
    if record.results:
        blocks.append(_constant_line(layout))
        blocks.append(_pipe_table(_columns(record, layout, notes)))
    blocks.append("\n".join(notes.lines()))
    blocks.append("\n".join(_class_lines(record, layout)))
    blocks.append("\n".join(setting_lines(record)))
    blocks.append("\n".join(footer(record)))
    return "\n\n".join(filter(None, blocks)) + "\n"


def _command(command: str) -> str:
    line = ascii_line(command)
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def _constant_line(layout: Layout) -> str:
    items = layout.constant.items()
    return " ".join(value if name == "op" else f"{name}={value}" for name, value in items)


def _layout(record: Record) -> Layout:
    varying: dict[str, Cell] = {}
    constant: dict[str, str] = {}
    names = param_names(record.results)
    cells: dict[str, Cell] = {"op": lambda row: ascii_line(row.op)}
    cells |= {ascii_line(name): _param_cell(name) for name in names}
    for name, cell in cells.items():
        values = {cell(row) for row in record.results}
        if len(values) > 1:
            varying[name] = cell
        else:
            constant[name] = next(iter(values), NONE)
    configs = configs_by_id(record)
    varying |= {
        name: _config_cell(name, configs) for name in varying_config_columns(record.configs)
    }
    return Layout(varying, constant)


def _param_cell(name: str) -> Cell:
    return lambda row: param(row.params.get(name))


def _config_cell(name: str, configs: Mapping[str, Config]) -> Cell:
    text = CONFIG_COLUMNS[name]
    return lambda row: text(configs[row.config])


def _columns(record: Record, layout: Layout, notes: Notes) -> dict[str, list[str]]:
    rows = record.results
    letters = class_letters(record)
    cells = dict(layout.varying)
    cells["width"] = lambda row: str(row.width)
    cells["class"] = lambda row: letters.get(row.key, NONE)
    cells["verdict"] = lambda row: ascii_line(row.verdict)
    if any(row.elements_differing for row in rows):
        cells["columns"] = _differing
        cells["max_ulp"] = lambda row: number(row.max_ulp)
        cells["max_err_scaled"] = lambda row: number(row.max_err_scaled)
    if any(row.verdict != "INVARIANT" and row.nmse_width is not None for row in rows):
        cells["nmse_serial"] = lambda row: number(row.nmse_serial)
        cells["nmse_width"] = lambda row: number(row.nmse_width)
    if any(row.nan for row in rows):
        cells["nan"] = lambda row: number(row.nan)
    if any(row.unwritten for row in rows):
        cells["unwritten"] = lambda row: number(row.unwritten)
    if any(row.signal or row.detail for row in rows):
        cells["note"] = notes.cell
    return {name: [cell(row) for row in rows] for name, cell in cells.items()}


def _differing(row: Result) -> str:
    if len(row.columns_differing) == row.width > 1:
        return "all"
    return ranges(row.columns_differing) or NONE


def _pipe_table(columns: dict[str, list[str]]) -> str:
    padded = [_padded(name, cells) for name, cells in columns.items()]
    return "\n".join("|" + "|".join(line) + "|" for line in zip(*padded, strict=True))


def _padded(name: str, cells: Sequence[str]) -> list[str]:
    """One column: name, rule, cells, all of one width; numbers stand to the right."""
    escaped = [cell.replace("|", "\\|") for cell in (name, *cells)]
    width = max(len(cell) for cell in escaped)
    right = all(_is_number(cell) for cell in cells)
    texts = [f" {cell.rjust(width) if right else cell.ljust(width)} " for cell in escaped]
    rule = "-" * (width + 1) + (":" if right else "-")
    return [texts[0], rule, *texts[1:]]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == NONE
    return True


def _class_lines(record: Record, layout: Layout) -> list[str]:
    first = {(row.config, row.case): row for row in reversed(record.results)}
    lines = []
    for entry in record.classes:
        row = first.get((entry.config, entry.case))
        label = ascii_line(entry.case)
        if row is not None:
            label = " ".join(f"{name}={cell(row)}" for name, cell in layout.varying.items())
        lines.append((label or "width classes", _class_text(entry)))
    texts = {text for _, text in lines}
    if len(lines) > 1 and len(texts) == 1:
        return [f"- width classes of all {len(lines)} cases: {texts.pop()}"]
    return [f"- {label}: {text}" for label, text in lines]


def _class_text(entry: CaseClasses) -> str:
    letters = Classes(entry.groups, entry.transitive, [])
    text = " | ".join(f"{letters.letter(g[0])}: {ranges(g)}" for g in entry.groups if g)
    if entry.transitive:
        return text
    # in backticks, or GitHub reads a pair of tildes as struck-out text
    pairs = ", ".join("~".join(map(str, pair)) for pair in entry.pairs[:PAIRS_SHOWN])
    more = len(entry.pairs) - PAIRS_SHOWN
    return f"{text} (not transitive: `{pairs}`{f' and {more} more' if more > 0 else ''})"
