"""Taking a run's rows until they end, Ctrl-C ends them, or an error does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import click

from ggmlprobe import report
from ggmlprobe.cli.progress import Progress
from ggmlprobe.errors import NothingRan, ProbeError
from ggmlprobe.record import Record
from ggmlprobe.verdict import FINDINGS, Verdict

T = TypeVar("T")
Formats = Mapping[str, Callable[[Record], str]]


class Ending(NamedTuple):
    """How the rows ended: before the last one, and the error that did it, if one did."""

    interrupted: bool
    error: ProbeError | None


class Judged(Protocol):
    """A row as far as an exit status needs it."""

    @property
    def verdict(self) -> str:
        """Its verdict."""

    @property
    def detail(self) -> str | None:
        """Why there is no comparison."""


def take_all(rows: Iterable[T], take: Callable[[T], None], progress: Progress) -> Ending:
    """Hand each row to `take` as it comes.

    Raises:
        ProbeError: before there was a row; a later one is returned, with the rows kept.
    """
    taken = False
    try:
        for row in rows:
            take(row)
            taken = True
    except KeyboardInterrupt:
        return Ending(True, None)
    except ProbeError as error:
        if not taken:
            raise
        return Ending(True, error)
    finally:
        progress.end()
    return Ending(False, None)


def check_exports(options: Any) -> dict[str, Path]:
    """Formats and files of the --export options; refused before the run rather than after it."""
    named = {kind: getattr(options, f"export_{kind}", None) for kind in report.EXPORTS}
    files = {kind: path for kind, path in named.items() if path is not None}
    for path in files.values():
        report.check(path, options.force)
    return files


def publish(
    record: Record, options: Any, files: dict[str, Path], formats: Formats = report.FORMATS
) -> None:
    """Write the exports, which no closed pipe may cost, and print in the chosen format."""
    renderers = {**report.EXPORTS, **formats}
    for kind, path in files.items():
        report.write(path, renderers[kind](record), options.force)
    click.echo(formats[options.output](record), nl=False)


def exit_status(rows: Sequence[Judged], what: str = "cases ran") -> int:
    """1 where a row is a finding, else 0.

    Raises:
        NothingRan: 0 of `what` is a failure, never a pass.
    """
    if all(row.verdict == Verdict.UNSUPPORTED for row in rows):
        why = next((row.detail for row in rows if row.detail), "no rows")
        raise NothingRan(f"0 {what}: {why}")
    return int(any(row.verdict in FINDINGS for row in rows))
