"""Progress on stderr: rows done, rate and time left; silent where stderr is no terminal."""

from __future__ import annotations

import os
import sys
import time

from ggmlprobe.record import Config, Result
from ggmlprobe.runner import Case

# of a terminal that does not tell its own
WIDTH = 80


def columns() -> int:
    """Columns of the terminal behind stderr now; stdout may be a file."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except OSError:
        return WIDTH


class Progress:
    """One line that is written over.

    Args:
        total: rows of the whole run, None where nobody knows yet.
    """

    def __init__(self, total: int | None) -> None:
        self.total, self.done, self.what = total, 0, ""
        self._began = time.monotonic()
        self._shown = sys.stderr.isatty()

    def case(self, config: Config, case: Case) -> None:
        """A case begins."""
        self.what = case.op.case()
        self._show()

    def row(self, row: Result) -> None:
        """A row is finished."""
        self.done += 1
        self._show()

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _done(self, spent: float) -> str:
        """Rows done, of how many, rate and time left, as far as they are known."""
        total = "" if self.total is None else f"/{self.total}"
        if not self.done:
            return f"{self.done}{total}"
        rate = f" {self.done / spent:.1f}/s"
        if self.total is None:
            return f"{self.done}{rate}"
        seconds = spent / self.done * (self.total - self.done)
        return f"{self.done}{total}{rate}, {seconds:.0f} s left"

    def _show(self) -> None:
        if not self._shown:
            return
        spent = time.monotonic() - self._began
        line = f"[{self._done(spent)}] {self.what}"
        sys.stderr.write(f"\r\x1b[K{line[: columns() - 1]}")
        sys.stderr.flush()
