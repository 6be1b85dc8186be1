"""One Markdown block to paste into an upstream thread or issue: data and commands, no prose."""

from __future__ import annotations

from collections.abc import Iterable

from ggmlprobe.classes import Classes
from ggmlprobe.record import CaseClasses, Record, Result
from ggmlprobe.report import by_device, matrix
from ggmlprobe.report.around import around_lines
from ggmlprobe.report.controls import BLANK, blanks, controls_table
from ggmlprobe.report.footer import findings_line, library_line, seeds_line
from ggmlprobe.report.kernels import dispatch_text, kernel_lines
from ggmlprobe.report.markdown import class_text, columns_of
from ggmlprobe.report.notes import Notes
from ggmlprobe.report.own import is_plain, renderer
from ggmlprobe.report.rows import CONFIG_COLUMNS, varying_config_columns
from ggmlprobe.report.settings import setting_lines
from ggmlprobe.report.table import TAG, command_line, constant_line, layout_of, pipe_table
from ggmlprobe.report.text import ascii_line
from ggmlprobe.report.times import price_table, time_lines
from ggmlprobe.verdict import FINDINGS

ROWS_SHOWN = 40
CASES_SHOWN = 8


def block(record: Record, upstream: bool = False) -> str:
    """The block.

    Args:
        upstream: under the headings of upstream's form for wrong results, what only a person can
            know left as named blanks.
    """
    report = _plain(record) if is_plain(record) else _others(record)
    if upstream:
        return _form(record, report)
    found = any(row.verdict in FINDINGS for row in record.results) or record.cells_differing
    commit = f"- First Bad Commit: {BLANK}" if found else ""
    return _joined([*report, commit, _around(record)])


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(None, blocks)) + "\n"


def _plain(record: Record) -> list[str]:
    """A run of `op` or `preset`: large tables are folded under their matrix."""
    layout, notes = layout_of(record), Notes()
    rows = pipe_table(columns_of(record, layout, notes)) if record.results else ""
    rows = _joined([rows, "\n".join(map(guarded, notes.lines()))]).rstrip()
    large = len(record.results) > ROWS_SHOWN
    if large:
        rows = matrix.tables(record) + "\n\n" + folded(f"{len(record.results)} rows", rows)
    measured = [*setting_lines(record), *kernel_lines(record), *time_lines(record)]
    return [
        command_line(record.command),
        "" if large else constant_line(layout),
        rows,
        by_device.table(record),
        _classes(record),
        controls_table(record),
        "\n".join([*blanks(record), *map(guarded, measured)]),
        price_table(record, layout),
        "\n".join([f"- seeds: {seeds_line(record)}", f"- findings: {findings_line(record)}"]),
    ]


def _others(record: Record) -> list[str]:
    """Any other command as it prints its record, and the controls where there are rows."""
    lines = [
        line if line.startswith(("|", "`")) else guarded(line)
        for line in renderer(record)(record).splitlines()
    ]
    text = "\n".join(lines)
    if not record.results:
        return [text]
    return [text, controls_table(record), "\n".join(blanks(record))]


def _classes(record: Record) -> str:
    """Width classes and first differing width of each case, by upstream's string."""
    rows: dict[tuple[str, str], dict[int, Result]] = {}
    for row in record.results:
        rows.setdefault((row.config, row.case), {})[row.width] = row
    lines = [_case_line(record, e, rows.get((e.config, e.case), {})) for e in record.classes]
    text = "\n".join(lines)
    if len(lines) > CASES_SHOWN:
        return folded(f"width classes of {len(lines)} cases", text)
    return text


def _case_line(record: Record, entry: CaseClasses, rows: dict[int, Result]) -> str:
    first = Classes(entry.groups, entry.transitive, []).first_differing
    row = rows.get(first or max(rows, default=0))
    name = command_line(row.upstream_case if row else entry.case)
    config = next(config for config in record.configs if config.id == entry.config)
    names = varying_config_columns(record.configs)
    settings = [f"{column}={CONFIG_COLUMNS[column](config)}" for column in names]
    parts = [
        f"- {' '.join([name, *settings])}: {class_text(entry)}",
        f"first differing width: {first or 'none'}",
        f"dispatch {guarded(dispatch_text(entry))}" if entry.dispatch else "",
    ]
    return "; ".join(filter(None, parts))


def _around(record: Record) -> str:
    lines = "\n".join(around_lines(record))
    return folded("environment, library, device, driver, compiler and flags", fenced(lines))


def folded(title: str, text: str) -> str:
    """Text behind a summary that opens it."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def fenced(text: str) -> str:
    """Text as it is, in a fence that no line of it can close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def guarded(line: str) -> str:
    """A line in which nothing reads as an HTML tag."""
    return TAG.sub(r"\<", line)


def _form(record: Record, report: list[str]) -> str:
    """The headings of upstream's issue form for wrong results (011-bug-results.yml)."""
    configs, around = record.configs, record.environment
    models = dict.fromkeys(ascii_line(c.model.file) for c in configs if c.model is not None)
    backends = dict.fromkeys(ascii_line(config.device.backend) for config in configs)
    devices = dict.fromkeys(ascii_line(config.device.description) for config in configs)
    hardware = dict.fromkeys([ascii_line(around.cpu), *devices])
    fields = {
        "Name and Version": f"{guarded(library_line(record))}\n\nllama-cli --version: {BLANK}",
        "Operating systems": guarded(ascii_line(f"{around.kernel}, {around.os}")),
        "GGML backends": ", ".join(backends) or BLANK,
        "Hardware": guarded("; ".join(hardware)),
        "Models": guarded("; ".join(models)) or f"Models: {BLANK}",
        "Problem description & steps to reproduce": _joined(
            [f"Problem description: {BLANK}", *report]
        ).rstrip(),
        "First Bad Commit": f"First Bad Commit: {BLANK}",
        "Relevant log output": _around(record),
    }  # fmt: skip
    return _joined(f"### {name}\n\n{text}" for name, text in fields.items())
