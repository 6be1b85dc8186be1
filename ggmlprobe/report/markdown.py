"""The table a person attaches to an upstream issue; it reads well in a terminal, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ggmlprobe.classes import Classes
from ggmlprobe.record import CaseClasses, Record, Result
from ggmlprobe.report import by_device
from ggmlprobe.report.ab import table as ab_table
from ggmlprobe.report.bisection import Bisections
from ggmlprobe.report.footer import footer
from ggmlprobe.report.kernels import dispatch_text, kernel_cells, kernel_lines
from ggmlprobe.report.notes import Notes
from ggmlprobe.report.rows import backends_of, class_letters
from ggmlprobe.report.settings import setting_lines
from ggmlprobe.report.table import Cell, Layout, command_line, constant_line, layout_of, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number, ranges
from ggmlprobe.report.times import price_table, time_cells, time_lines

PAIRS_SHOWN = 8
WIDTH_CLASSES = "width classes"


def table(record: Record) -> str:
    """Markdown: command, fixed parameters, table, notes, width classes, footer.

    A column is there only if it varies, or if it holds something; ``width``, ``class`` and
    ``verdict`` always are. ASCII only; lines are not wrapped. Of `ab` its own table.
    """
    if record.ab is not None:
        return ab_table(record)
    layout = layout_of(record)
    notes = Notes()
    blocks = [command_line(record.command)]
    if record.bisections:
        found = Bisections(record)
        blocks += [constant_line(found.constant), found.table(), "\n".join(found.notes())]
    elif record.results:
        blocks.append(constant_line(layout))
        blocks += [pipe_table(columns_of(record, layout, notes)), by_device.table(record)]
    blocks.append("\n".join(notes.lines()))
    if not record.bisections:
        blocks.append("\n".join(_class_lines(record, layout)))
    blocks.append("\n".join(setting_lines(record)))
    blocks.append(price_table(record, layout))
    blocks.append("\n".join([*kernel_lines(record), *time_lines(record), *footer(record)]))
    return "\n\n".join(filter(None, blocks)) + "\n"


def columns_of(record: Record, layout: Layout, notes: Notes) -> dict[str, list[str]]:
    """The cells of every result by column; notes are numbered as they come."""
    rows = record.results
    letters = class_letters(record)
    cells = dict(layout.varying)
    cells["width"] = lambda row: str(row.width)
    cells["class"] = lambda row: letters.get(row.key, NONE)
    cells["verdict"] = lambda row: ascii_line(row.verdict)
    cells |= scheduled_cells(rows)
    if any(row.elements_differing for row in rows):
        cells["columns"] = _differing
        cells["max_ulp"] = lambda row: number(row.max_ulp)
        cells["max_err_scaled"] = lambda row: number(row.max_err_scaled)
    if any(row.verdict != "INVARIANT" and row.nmse_width is not None for row in rows):
        cells["nmse_serial"] = lambda row: number(row.nmse_serial)
        cells["nmse_width"] = lambda row: number(row.nmse_width)
    cells |= kernel_cells(record) | time_cells(record)
    if any(row.nan for row in rows):
        cells["nan"] = lambda row: number(row.nan)
    if any(row.unwritten for row in rows):
        cells["unwritten"] = lambda row: number(row.unwritten)
    if any(row.signal or row.detail for row in rows):
        cells["note"] = notes.cell
    return {name: [cell(row) for row in rows] for name, cell in cells.items()}


def scheduled_cells(rows: Sequence[Result]) -> dict[str, Cell]:
    """What a scheduler chose, if there was one: the backend of the nodes, the weights' buffer."""
    if not any(row.backends for row in rows):
        return {}
    return {
        "backend": backends_of,
        "weights_buft": lambda row: ascii_line(row.weights_buft or NONE),
    }


def _differing(row: Result) -> str:
    if len(row.columns_differing) == row.width > 1:
        return "all"
    return ranges(row.columns_differing) or NONE


def _case_lines(
    record: Record, layout: Layout, title: str, text: Callable[[CaseClasses], str]
) -> list[str]:
    """A line for each case, or one for all of them where they say the same.

    Width classes go by the case alone, all others by their title too.
    """
    prefix = "" if title == WIDTH_CLASSES else f"{title} "
    first = {(row.config, row.case): row for row in reversed(record.results)}
    lines = []
    for entry in record.classes:
        row = first.get((entry.config, entry.case))
        label = ascii_line(entry.case)
        if row is not None:
            label = " ".join(f"{name}={cell(row)}" for name, cell in layout.varying.items())
        if said := text(entry):
            lines.append((f"{prefix}{label}".strip() or title, said))
    texts = {text for _, text in lines}
    if len(lines) == len(record.classes) > 1 and len(texts) == 1:
        return [f"- {title} of all {len(lines)} cases: {texts.pop()}"]
    return [f"- {label}: {text}" for label, text in lines]


def _class_lines(record: Record, layout: Layout) -> list[str]:
    lines = _case_lines(record, layout, WIDTH_CLASSES, class_text)
    if any(entry.dispatch for entry in record.classes):
        lines += _case_lines(record, layout, "dispatch classes", dispatch_text)
    return lines


def class_text(entry: CaseClasses) -> str:
    """Width classes of a case in one line."""
    letters = Classes(entry.groups, entry.transitive, [])
    text = " | ".join(f"{letters.letter(g[0])}: {ranges(g)}" for g in entry.groups if g)
    if entry.transitive:
        return text
    # in backticks, or GitHub reads a pair of tildes as struck-out text
    pairs = ", ".join("~".join(map(str, pair)) for pair in entry.pairs[:PAIRS_SHOWN])
    more = len(entry.pairs) - PAIRS_SHOWN
    return f"{text} (not transitive: `{pairs}`{f' and {more} more' if more > 0 else ''})"
