"""What tables of a record share: what varies over its rows, and the pipes around cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report.rows import (
    CONFIG_COLUMNS,
    configs_by_id,
    param_names,
    varying_config_columns,
)
from ggmlprobe.report.text import NONE, ascii_line, param

Cell = Callable[[Result], str]
# Markdown takes these for HTML: `float` of `f<float>` would vanish
TAG = re.compile(r"<(?=[A-Za-z/!?])")


@dataclass(frozen=True)
class Layout:
    """What tells the rows of a record apart.

    Attributes:
        varying: name -> cell of each column that has more than one value.
        constant: name -> value of each parameter that has just one.
    """

    varying: dict[str, Cell]
    constant: dict[str, str]


def command_line(command: str) -> str:
    """The exact command, or anything else, as code in one line."""
    line = ascii_line(command)
    longest = max(map(len, re.findall("`+", line)), default=0)
    if not longest:
        return f"`{line}`"
    ticks = "`" * max(2, longest + 1)
    return f"{ticks} {line} {ticks}"


def constant_line(layout: Layout) -> str:
    """The op and the parameters that every row shares."""
    items = layout.constant.items()
    return " ".join(value if name == "op" else f"{name}={value}" for name, value in items)


def layout_of(record: Record, rows: Sequence[Result] | None = None) -> Layout:
    """Which parameters and settings vary over the rows of a record, and which are constant.

    Args:
        rows: those to look at, if not all.
    """
    rows = record.results if rows is None else rows
    varying: dict[str, Cell] = {}
    constant: dict[str, str] = {}
    names = param_names(rows)
    cells: dict[str, Cell] = {"op": lambda row: ascii_line(row.op)}
    cells |= {ascii_line(name): _param_cell(name) for name in names}
    for name, cell in cells.items():
        values = {cell(row) for row in rows}
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


def pipe_table(columns: Mapping[str, Sequence[str]]) -> str:
    """A Markdown table of columns by name, padded so that it reads well as text."""
    padded = [_padded(name, cells) for name, cells in columns.items()]
    return "\n".join("|" + "|".join(line) + "|" for line in zip(*padded, strict=True))


def _padded(name: str, cells: Sequence[str]) -> list[str]:
    """One column: name, rule, cells, all of one width; numbers stand to the right."""
    escaped = [TAG.sub(r"\<", cell.replace("|", "\\|")) for cell in (name, *cells)]
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
