"""Progress on stderr: rows done, rate and time left; silent where stderr is no terminal."""

from __future__ import annotations

import sys
import time

from ggmlprobe.record import Config, Result
from ggmlprobe.runner import Case

WIDTH = 78


class Progress:
    """One line that is written over.

    Args:
        total: rows of the whole run.
    """

    def __init__(self, total: int) -> None:
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

    def _show(self) -> None:
        if not self._shown:
            return
        spent = time.monotonic() - self._began
        left = ""
        if self.done:
            seconds = spent / self.done * (self.total - self.done)
            left = f" {self.done / spent:.1f}/s, {seconds:.0f} s left"
        line = f"[{self.done}/{self.total}{left}] {self.what}"
        sys.stderr.write(f"\r\x1b[K{line[:WIDTH]}")
        sys.stderr.flush()
