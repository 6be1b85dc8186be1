"""Finished rows on disk at once: an append-only JSON Lines file that survives a kill.

The first line is a header (schema, command, configs, environment); each line after it is
``{"result": ...}``, ``{"classes": ...}``, ``{"comparison": ...}`` or ``{"speculated": ...}``. A
line counts once its newline is there. Of two lines for the same row the later one holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ggmlprobe import system
from ggmlprobe.errors import FileExists, RecordError, UsageError
from ggmlprobe.record import (
    BlockComparison,
    CaseClasses,
    Header,
    Record,
    Result,
    Speculated,
    Timing,
    check_schema,
    dumps,
    from_dict,
    parse,
    to_dict,
)
from ggmlprobe.resume import match_configs

__all__ = ["Header", "Journal", "Partial", "read"]

Entry = Result | CaseClasses | BlockComparison | Speculated
T = TypeVar("T", bound=Result | CaseClasses | BlockComparison | Speculated)
KINDS: Mapping[str, type[Entry]] = {
    "result": Result, "classes": CaseClasses, "comparison": BlockComparison,
    "speculated": Speculated,
}  # fmt: skip


@dataclass(frozen=True)
class Partial:
    """What a journal holds.

    Attributes:
        header: the first line.
        results: finished rows, each key once, in the order they were first written.
        classes: width classes written so far, each (config, case) once.
        comparisons: finished rows of a model compare, each key once.
        speculated: finished rows of a model speculate, each key once.
        size: bytes of whole lines; what follows in the file is a torn line.
    """

    header: Header
    results: list[Result] = field(default_factory=list)
    classes: list[CaseClasses] = field(default_factory=list)
    comparisons: list[BlockComparison] = field(default_factory=list)
    speculated: list[Speculated] = field(default_factory=list)
    size: int = 0

    def finished(self, repeat: Iterable[str] = ()) -> dict[tuple[str, str, int], Result]:
        """Rows a resumed run need not make again, by (config id, case, width).

        Args:
            repeat: verdicts of rows to run again, such as CRASH.
        """
        again = frozenset(str(verdict) for verdict in repeat)
        return {row.key: row for row in self.results if str(row.verdict) not in again}

    def record(self, timing: Timing | None = None, interrupted: bool = True) -> Record:
        """The rows as a record."""
        head = self.header
        return Record(
            schema=head.schema,
            command=head.command,
            configs=head.configs,
            environment=head.environment,
            results=self.results,
            classes=self.classes,
            timing=timing,
            interrupted=interrupted,
        )


def read(path: Path) -> Partial:
    """Read a journal; a torn last line is left out.

    Raises:
        RecordError: foreign, edited, of a newer schema, or not readable; one line with the path.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    return _parse_journal(path, data)


def _parse_journal(path: Path, data: bytes) -> Partial:
    whole, _, _ = data.rpartition(b"\n")
    if not whole:
        raise RecordError(f"{path}: no whole line: delete it, or write anew with --force")
    lines = whole.split(b"\n")
    header = _header(path, lines[0])
    ids = {config.id for config in header.configs}
    results: dict[tuple[str, str, int], Result] = {}
    classes: dict[tuple[str, str], CaseClasses] = {}
    comparisons: dict[object, BlockComparison] = {}
    speculated: dict[object, Speculated] = {}
    for number, line in enumerate(lines[1:], 2):
        row = _row(f"{path}: line {number}", line, ids)
        if isinstance(row, Result):
            results[row.key] = row
        elif isinstance(row, BlockComparison):
            comparisons[row.key] = row
        elif isinstance(row, Speculated):
            speculated[row.key] = row
        else:
            classes[row.config, row.case] = row
    return Partial(
        header, list(results.values()), list(classes.values()), list(comparisons.values()),
        list(speculated.values()), len(whole) + 1,
    )  # fmt: skip


def _header(path: Path, line: bytes) -> Header:
    try:
        data = parse(line.decode())
        check_schema(data)
        if "results" in data:
            raise RecordError("a finished record, no journal: resume from the .jsonl of the run")
        return from_dict(Header, data)
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: no journal: name a file that ggmlprobe wrote") from error
    except RecordError as error:
        raise RecordError(f"{path}: line 1: {error}") from error


def _row(where: str, line: bytes, ids: set[str]) -> Entry:
    try:
        data = parse(line.decode())
        row = _decode_row(data)
    except UnicodeDecodeError as error:
        raise RecordError(f"{where}: no text: delete that line") from error
    except RecordError as error:
        raise RecordError(f"{where}: {error}: delete that line to run it again") from error
    if row.config not in ids:
        raise RecordError(f"{where}: no config {row.config!a}: delete that line")
    return row


def _decode_row(data: Any) -> Entry:
    for kind, cls in KINDS.items():
        if isinstance(data, dict) and data.keys() == {kind}:
            return from_dict(cls, data[kind], kind)
    raise RecordError("neither a result nor classes nor a comparison")


class Journal:
    """A journal open for appending, locked against a second writer. Made by :meth:`open`.

    Attributes:
        path: the file.
        partial: what the file held when it was opened, in the ids of the header it was opened
            with; empty for a new file.
    """

    def __init__(self, path: Path, fd: int, partial: Partial, ids: Mapping[str, str]) -> None:
        """Take over an open, locked descriptor; ``ids`` maps config ids to those in the file."""
        self.path = path
        self.partial = partial
        self._fd = fd
        self._ids = ids

    @classmethod
    def open(
        cls, path: Path, header: Header, *, resume: bool = False, force: bool = False
    ) -> Journal:
        """Start a journal, or go on with one.

        Args:
            path: the file; made if it is not there.
            header: of the run that begins now.
            resume: go on with an existing file. Its command may be another, its configs must be
                the same by content; their ids are translated in both directions.
            force: write over an existing file (``resume`` goes before it).

        Raises:
            FileExists: the file is there, and neither resume nor force was given.
            UsageError: the file cannot be made or written, or another process writes it.
            RecordError: the file is no journal, or one of another library, device or setting.
        """
        path = Path(path)
        fd = _open_locked(path, resume or force)
        try:
            data = b"" if force and not resume else path.read_bytes()
            partial = _parse_journal(path, data) if data else None
            ids = match_configs(path, header, partial.header) if partial else {}
            os.ftruncate(fd, partial.size if partial else 0)
        except BaseException:
            os.close(fd)
            raise
        if partial is None:
            journal = cls(path, fd, Partial(header), {})
            journal._write(to_dict(header))
            return journal
        return cls(path, fd, _translate(partial, header, ids), ids)

    def append(self, row: Entry) -> None:
        """Write one finished row; it is on disk when this returns.

        Raises:
            UsageError: the disk is full or the like.
        """
        row = _in_config(row, self._ids.get(row.config, row.config))
        kind = next(kind for kind, cls in KINDS.items() if isinstance(row, cls))
        self._write({kind: to_dict(row)})

    def _write(self, data: dict[str, Any]) -> None:
        line = memoryview((dumps(data) + "\n").encode("ascii"))
        before = os.fstat(self._fd).st_size
        try:
            while line:
                line = line[os.write(self._fd, line) :]
            os.fsync(self._fd)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}: free space") from error
        finally:
            # an interrupt between two writes must not leave half a line before the next one
            if line:
                os.ftruncate(self._fd, before)

    def close(self) -> None:
        """Close the file and let go of its lock; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        """The journal itself."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Close."""
        self.close()


def _open_locked(path: Path, existing: bool) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | (0 if existing else os.O_EXCL)
    try:
        # a device may never end, and a pipe never answer
        if existing and path.exists() and not path.is_file():
            raise UsageError(f"{path} is no regular file: name a file ending in .jsonl")
        fd = os.open(path, flags, 0o666)
    except FileExistsError as error:
        raise FileExists(f"{path} exists: --resume goes on with it, --force replaces it") from error
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}: name another file") from error
    if not system.lock(fd):
        os.close(fd)
        raise UsageError(f"{path} is being written by another run: name another file")
    return fd


def _translate(partial: Partial, header: Header, ids: Mapping[str, str]) -> Partial:
    """The partial run in the config ids of ``header``."""
    back = {old: new for new, old in ids.items()}
    return Partial(
        header,
        [_in_config(row, back[row.config]) for row in partial.results],
        [_in_config(row, back[row.config]) for row in partial.classes],
        [_in_config(row, back[row.config]) for row in partial.comparisons],
        [_in_config(row, back[row.config]) for row in partial.speculated],
        partial.size,
    )


def _in_config(row: T, config: str) -> T:
    """The row with another config id, in the flips of a comparison too."""
    if isinstance(row, BlockComparison):
        flips = [replace(flip, config=config) for flip in row.flip_list]
        return replace(row, config=config, flip_list=flips)
    return replace(row, config=config)
