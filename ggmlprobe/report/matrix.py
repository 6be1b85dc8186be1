"""The compact matrix of a sweep: rows are cases, columns widths, cells class letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ggmlprobe.record import Record, Result
from ggmlprobe.report import by_device
from ggmlprobe.report.footer import footer
from ggmlprobe.report.kernels import kernel_lines, short
from ggmlprobe.report.marks import ALONE, BESIDE
from ggmlprobe.report.notes import whole
from ggmlprobe.report.rows import class_letters
from ggmlprobe.report.settings import setting_lines
from ggmlprobe.report.table import Layout, command_line, constant_line, layout_of, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, ranges
from ggmlprobe.verdict import FINDINGS, Verdict

NO_LETTER = "x"

Rows = Mapping[int, Result]


def table(record: Record) -> str:
    """Markdown: command, a matrix for each op, legend, why rows are missing, footer."""
    blocks = [command_line(record.command), tables(record), by_device.table(record)]
    blocks += ["\n".join(setting_lines(record))]
    blocks += ["\n".join([*kernel_lines(record), *footer(record)])]
    return "\n\n".join(filter(None, blocks)) + "\n"


def tables(record: Record) -> str:
    """A matrix for each op, legend, and why rows are missing."""
    blocks = list[str]()
    for op in dict.fromkeys(row.op for row in record.results):
        rows = [row for row in record.results if row.op == op]
        layout = layout_of(record, rows)
        blocks += [constant_line(layout), _matrix(record, rows, layout)]
    blocks.append("\n".join([*_legend(record), *_reasons(record)]))
    return "\n\n".join(filter(None, blocks))


def _matrix(record: Record, rows: Sequence[Result], layout: Layout) -> str:
    letters = class_letters(record)
    dispatch = {(entry.config, entry.case): entry.dispatch for entry in record.classes}
    cases = {case: i for i, case in enumerate(dict.fromkeys(row.case for row in rows))}
    lines: dict[tuple[str, str], dict[int, Result]] = {}
    for row in sorted(rows, key=lambda row: cases[row.case]):
        lines.setdefault((row.config, row.case), {})[row.width] = row
    widths = sorted({row.width for row in rows})
    firsts = [next(iter(line.values())) for line in lines.values()]
    columns = {name: [cell(row) for row in firsts] for name, cell in layout.varying.items()}
    for width in widths:
        columns[str(width)] = [_cell(line.get(width), letters) for line in lines.values()]
    columns["first"] = [_first(line) for line in lines.values()]
    kernels = [_kernels(line, dispatch.get(place, [])) for place, line in lines.items()]
    if any(kernels):
        columns["kernels"] = kernels
    return pipe_table(columns)


def _cell(row: Result | None, letters: Mapping[tuple[str, str, int], str]) -> str:
    """Class letter with the mark of its verdict; blank for a width that was not run."""
    if row is None:
        return ""
    verdict = Verdict(row.verdict)
    if verdict in ALONE:
        return ALONE[verdict]
    plain = NO_LETTER if verdict in FINDINGS else NONE
    return letters.get(row.key, plain) + BESIDE.get(verdict, "")


def _kernels(line: Rows, dispatch: Sequence[Sequence[int]]) -> str:
    """The largest kernel of each dispatch class, with its widths."""
    named = [(group, line[group[0]].kernels[:1]) for group in dispatch]
    return " / ".join(
        f"{ranges(group)} {ascii_line(short(k.name))}" for group, ks in named for k in ks
    )


def _first(line: Rows) -> str:
    """The narrowest width with a finding."""
    found = [width for width, row in line.items() if row.verdict in FINDINGS]
    return str(min(found)) if found else NONE


def _legend(record: Record) -> list[str]:
    """What the cells mean, as far as they occur."""
    seen = {Verdict(row.verdict) for row in record.results}
    marks = {**ALONE, **{verdict: f"letter and {mark}" for verdict, mark in BESIDE.items()}}
    lines = ["- cells: width class, A holds the serial runs; first: narrowest width with a finding"]
    said = [f"{mark} {verdict}" for verdict, mark in marks.items() if verdict in seen]
    if said:
        lines.append(f"- {', '.join(said)}")
    if any(not entry.transitive for entry in record.classes):
        lines.append("- in some rows widths of different classes agree all the same")
    return lines


def _reasons(record: Record) -> list[str]:
    """Why rows have no comparison, each reason once."""
    missing = [row for row in record.results if Verdict(row.verdict) in ALONE]
    texts = dict.fromkeys(f"{row.verdict}: {whole(row)}" for row in missing)
    return [f"- {text}" for text in texts]
