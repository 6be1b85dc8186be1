"""`model ops` as a table: a row for each kind of node, and where its widths part."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ggmlprobe.classes import Classes
from ggmlprobe.model.located import GraphOp
from ggmlprobe.record import CaseClasses, Record, Result
from ggmlprobe.report import csv, json, jsonl
from ggmlprobe.report.footer import footer
from ggmlprobe.report.table import command_line, pipe_table
from ggmlprobe.report.text import NONE, ascii_line, number, ranges
from ggmlprobe.verdict import Verdict, worst


def table(record: Record) -> str:
    """Markdown: command, a row per kind, notes, footer."""
    found = Found(record)
    cells: dict[str, Callable[[GraphOp], str]] = {
        "op": lambda kind: kind.op,
        "type": lambda kind: kind.type,
        "sources": lambda kind: ascii_line(kind.shape),
        "nodes": lambda kind: str(kind.nodes),
        "first": lambda kind: ascii_line(kind.first),
        "weights of": lambda kind: ascii_line(kind.weight or NONE),
        "file's weights": lambda kind: found.verdict(kind.case_real),
        "random": lambda kind: found.verdict(kind.case),
        "own values": lambda kind: found.verdict(kind.case_values),
        "classes": found.all_classes,
        "max_err_scaled": found.severity,
    }
    rows = record.graph_ops
    unprobed = ", ".join(dict.fromkeys(kind.op for kind in rows if not _cases(kind)))
    blocks = [
        command_line(record.command),
        pipe_table({name: [cell(kind) for kind in rows] for name, cell in cells.items()}),
        f"- not probed, they move values or have states: {unprobed}" if unprobed else "",
        "\n".join(footer(record)),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


class Found:
    """What the probe says of a case."""

    def __init__(self, record: Record) -> None:
        """Group results and classes by case."""
        self._rows: dict[str, list[Result]] = {}
        for row in record.results:
            self._rows.setdefault(row.case, []).append(row)
        self._classes: dict[str, list[CaseClasses]] = {}
        for entry in record.classes:
            self._classes.setdefault(entry.case, []).append(entry)

    def verdict(self, case: str | None) -> str:
        """The worst verdict of its widths."""
        rows = self._rows.get(case or "", [])
        return str(worst([Verdict(row.verdict) for row in rows])) if rows else NONE

    def classes(self, case: str | None) -> str:
        """Its width classes."""
        texts = []
        for entry in self._classes.get(case or "", []):
            letters = Classes(entry.groups, entry.transitive, [])
            text = " / ".join(f"{letters.letter(g[0])}: {ranges(g)}" for g in entry.groups if g)
            texts.append(text + ("" if entry.transitive else " (not transitive)"))
        return "; ".join(dict.fromkeys(texts)) or NONE

    def all_classes(self, kind: GraphOp) -> str:
        """Classes of all its cases, once where they are the same."""
        named = {
            name: self.classes(case)
            for name, case in (("file's", kind.case_real), ("random", kind.case),
                               ("own", kind.case_values))
            if case is not None
        }  # fmt: skip
        if len(set(named.values())) <= 1:
            return next(iter(named.values()), NONE)
        return "; ".join(f"{name} {text}" for name, text in named.items())

    def severity(self, kind: GraphOp) -> str:
        """The largest max_err_scaled of its cases and widths."""
        rows = [row for case in _cases(kind) for row in self._rows.get(case, [])]
        known = [row.max_err_scaled for row in rows if row.max_err_scaled is not None]
        return number(max(known)) if known else NONE


def _cases(kind: GraphOp) -> list[str]:
    return [case for case in (kind.case_real, kind.case, kind.case_values) if case is not None]


FORMATS: Mapping[str, Callable[[Record], str]] = {
    "md": table, "csv": csv.render, "json": json.render, "jsonl": jsonl.render,
}  # fmt: skip
"""As report.FORMATS."""
