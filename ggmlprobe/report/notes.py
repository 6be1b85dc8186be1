"""The note column: a signal or a shortened detail in the row, the whole of it below the table."""

from __future__ import annotations

import re

from ggmlprobe.record import Result
from ggmlprobe.report.text import NONE, ascii_line, shortened

TELLING = re.compile(r"GGML_ASSERT|error|abort|fatal|fault", re.IGNORECASE)
STDERR_LINES = 3


class Notes:
    """Numbers the details of rows as their cells are written; equal ones share a number."""

    def __init__(self) -> None:
        """Start without any."""
        self._numbers: dict[str, int] = {}

    def cell(self, row: Result) -> str:
        """The row's cell, with the number of a footnote where it does not hold everything."""
        short = row.signal or shortened(row.detail or "")
        text = whole(row)
        if text == short:
            return short or NONE
        count = self._numbers.setdefault(text, len(self._numbers) + 1)
        return f"{short} [{count}]".strip()

    def lines(self) -> list[str]:
        """The footnotes, one line each."""
        return [f"- [{count}] {text}" for text, count in self._numbers.items()]


def whole(row: Result) -> str:
    """Everything a row says of why it has no comparison, in one line."""
    return " / ".join(filter(None, [ascii_line(row.detail or row.signal or ""), *tail(row)]))


def tail(row: Result) -> list[str]:
    """Up to three lines of what a dead child wrote last: those that tell why, else the last."""
    lines = [ascii_line(line) for line in row.stderr_tail if line.strip()]
    telling = [line for line in lines if TELLING.search(line)]
    return telling[:STDERR_LINES] or lines[-STDERR_LINES:]
