"""What a report of a mismatch is dismissed without: repeats, a plain row, errors that mean it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ggmlprobe.record import Record, Result
from ggmlprobe.report.beside import command_beside
from ggmlprobe.report.table import command_line, layout_of, pipe_table
from ggmlprobe.report.text import ascii_line, number, ranges
from ggmlprobe.verdict import FINDINGS

BLANK = "____"
TYPE_PARAMS = ("type_a", "type_K", "type_V")
PLAIN = ("f16", "bf16")
UNQUANTIZED = (*PLAIN, "f32", "f64", "-")
COMMANDS_SHOWN = 3


def controls_table(record: Record) -> str:
    """The controls as a table; a blank names the command that would fill it."""
    rows = [row for row in record.results if row.seeds]
    controls = {
        "same-width repeat": _repeats(rows),
        "f16 or bf16 row": _plain_rows(record, rows),
        "NMSE against float64": _nmse(rows),
        "max_err_scaled": _scaled(record, rows),
    }
    return pipe_table({"control": list(controls), "result": list(controls.values())})


def blanks(record: Record) -> list[str]:
    """A list item for each command that adds the plain rows that are not there."""
    commands = list(dict.fromkeys(command_beside(record, row) for row in _without(record)))
    shown = [
        f"- to add an f16 row: {command_line(line)}" for line in commands[:COMMANDS_SHOWN] if line
    ]
    more = len(commands) - COMMANDS_SHOWN
    return shown + ([f"- to add an f16 row: {more} more shapes alike"] if more > 0 else [])


def _repeats(rows: Sequence[Result]) -> str:
    if not rows:
        return BLANK
    good = sum(all(part.repeats for part in row.seeds) for row in rows)
    seeds = ranges(part.seed for row in rows for part in row.seeds)
    return f"same bits twice in {good} of {len(rows)} rows, seeds {seeds}"


class Shape(NamedTuple):
    """What two rows share that differ in their types alone."""

    op: str
    width: int
    params: tuple[tuple[str, str], ...]


def _shape(row: Result) -> Shape:
    rest = {name: str(value) for name, value in row.params.items() if name not in TYPE_PARAMS}
    return Shape(row.op, row.width, tuple(sorted(rest.items())))


def types_of(row: Result) -> list[str]:
    """Types of the weights, or of K and V."""
    return [str(row.params[name]) for name in TYPE_PARAMS if row.params.get(name) is not None]


def _quantized(row: Result) -> bool:
    return any(name not in UNQUANTIZED for name in types_of(row))


def _plain(row: Result) -> bool:
    return bool(types_of(row)) and all(name in PLAIN for name in types_of(row))


def _without(record: Record) -> list[Result]:
    """The first row of each shape that has a quantized row, and no plain one at its width."""
    rows = [row for row in record.results if row.seeds]
    there = {_shape(row) for row in rows if _plain(row)}
    missing = [row for row in rows if _quantized(row) and _shape(row) not in there]
    return list({_shape(row)._replace(width=0): row for row in reversed(missing)}.values())[::-1]


def _plain_rows(record: Record, rows: Sequence[Result]) -> str:
    if not rows:
        return BLANK
    if not any(map(_quantized, rows)):
        return "no row is quantized"
    missing = len(_without(record))
    if missing == len({_shape(row)._replace(width=0) for row in rows if _quantized(row)}):
        return f"{BLANK} (none in this run)"
    texts = dict.fromkeys("/".join(dict.fromkeys(types_of(r))) for r in rows if _plain(r))
    found = [f"{name}: {_findings(rows, name)}" for name in texts]
    return "; ".join(found) + (f"; {BLANK} (none of {missing} shapes)" if missing else "")


def _findings(rows: Iterable[Result], types: str) -> str:
    """How many of the rows with these types have each verdict, and at which widths."""
    widths: dict[str, list[int]] = {}
    for row in rows:
        if "/".join(dict.fromkeys(types_of(row))) == types:
            widths.setdefault(row.verdict, []).append(row.width)
    return ", ".join(f"{len(at)} {verdict} at {ranges(at)}" for verdict, at in widths.items())


def _nmse(rows: Sequence[Result]) -> str:
    texts = []
    for name, values in _errors(rows).items():
        if values:
            low, high = number(min(values)), number(max(values))
            texts.append(f"{name} {low}" + (f" to {high}" if high != low else ""))
    return ", ".join(texts) or BLANK


def _errors(rows: Sequence[Result]) -> Mapping[str, list[float]]:
    return {
        "serial": [row.nmse_serial for row in rows if row.nmse_serial is not None],
        "width": [row.nmse_width for row in rows if row.nmse_width is not None],
    }


def _scaled(record: Record, rows: Sequence[Result]) -> str:
    """The largest, and where it is."""
    known = [(row.max_err_scaled, row) for row in rows if row.max_err_scaled is not None]
    if not known:
        return BLANK
    value, row = max(known, key=lambda pair: pair[0])
    if not any(row.verdict in FINDINGS for row in rows):
        return f"at most {number(value)}"
    cells = layout_of(record).varying.items()
    place = ", ".join([f"width {row.width}", *(f"{name} {cell(row)}" for name, cell in cells)])
    return f"at most {number(value)} ({ascii_line(place)})"
