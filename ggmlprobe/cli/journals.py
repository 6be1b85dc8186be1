"""A run's journal: the file that --resume names, else one in the user's state folder."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from ggmlprobe.errors import ProbeError, UsageError
from ggmlprobe.journal import Entry, Journal, Partial
from ggmlprobe.record import Header

INTERRUPTED = 130


def state_file() -> Path:
    """A new journal under the user's state folder, for runs that name none."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(base) / "ggmlprobe" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"


class OwnJournal:
    """A journal that nobody asked for: kept as long as the state folder can be written.

    Attributes:
        path: the file, None where there is none. partial: nothing, as it is new.
    """

    def __init__(self, header: Header) -> None:
        """Start it, or say on stderr why not."""
        self.path: Path | None = None
        self.partial = Partial(header)
        self._journal: Journal | None = None
        self._rows = 0
        with self._unless_unwritable():
            path = state_file()
            self._journal = Journal.open(path, header)
            self.path = path

    def append(self, row: Entry) -> None:
        """Write one finished row, if it still can be."""
        if self._journal is not None:
            with self._unless_unwritable():
                self._journal.append(row)
                self._rows += 1

    @contextlib.contextmanager
    def _unless_unwritable(self) -> Iterator[None]:
        try:
            yield
        # RuntimeError: a user without a home directory
        except (OSError, RuntimeError, UsageError) as error:
            self._close()
            said = " ".join(str(error).split())
            click.echo(f"ggmlprobe: no journal of this run is kept: {said}", err=True)

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def remove(self) -> None:
        """Delete the file."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> OwnJournal:
        """The journal itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        """Close; what failed before its first row leaves no file."""
        self._close()
        if kind is not None and not self._rows:
            self.remove()


AnyJournal = Journal | OwnJournal


def opened(resume: Path | None, header: Header) -> AnyJournal:
    """The journal of --resume, else one of the run's own."""
    if resume is None:
        return OwnJournal(header)
    return Journal.open(resume, header, resume=True)


@contextlib.contextmanager
def kept(journal: AnyJournal) -> Iterator[None]:
    """Where the block cannot write its output, note how to have it from the journal."""
    try:
        yield
    except OSError as error:
        if journal.path:
            error.add_note(f"the rows are kept: --resume {journal.path}")
        raise


def settle(journal: AnyJournal, interrupted: bool, error: ProbeError | None) -> None:
    """Once the record is out: exit if rows are missing, saying how to go on.

    A journal that nobody asked for goes with a run that came to its end.

    Raises:
        ProbeError: `error`, which ended the run.
    """
    how = f"; go on with: --resume {journal.path}" if journal.path else ""
    if error is not None:
        error.args = (f"{error}; rows are missing{how}",)
        raise error
    if interrupted:
        click.echo(f"interrupted{how}", err=True)
        sys.exit(INTERRUPTED)
    if isinstance(journal, OwnJournal):
        journal.remove()
