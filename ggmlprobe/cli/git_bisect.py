"""Exit statuses that `git bisect run` understands, for --git-bisect."""

from __future__ import annotations

from collections.abc import Sequence

from ggmlprobe.errors import (
    ComputeFailed,
    LibraryBroken,
    LibraryNotFound,
    NothingRan,
    OutOfMemory,
    ProbeError,
    SymbolMissing,
    UnknownDevice,
    UnknownType,
    Unsupported,
)
from ggmlprobe.record import Record
from ggmlprobe.verdict import Verdict

OPTION = "--git-bisect"
GOOD, BAD, SKIP = 0, 1, 125
# git bisect run stops on any status above 127; a mistyped command must not read as a bad commit
STOP = 128

NO_COMPARISON = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.OOM, Verdict.UNSUPPORTED)

# what a commit can be the cause of
OF_THE_COMMIT = (
    LibraryNotFound,
    LibraryBroken,
    SymbolMissing,
    UnknownType,
    UnknownDevice,
    Unsupported,
    OutOfMemory,
    ComputeFailed,
    NothingRan,
)


def row_status(record: Record) -> int:
    """Bad where a comparison is a finding; else skip where a row has none; else good.

    A commit whose library dies tells nothing about the bits it would have given.
    """
    verdicts = {Verdict(row.verdict) for row in record.results}
    if verdicts - {*NO_COMPARISON, Verdict.INVARIANT}:
        return BAD
    return SKIP if verdicts & set(NO_COMPARISON) else GOOD


def error_status(error: ProbeError | None, arguments: Sequence[str]) -> int:
    """Exit status of a command that ended in an error: 2 without --git-bisect.

    Args:
        error: None for a command line that cannot be parsed.
    """
    if OPTION not in arguments:
        return 2
    return SKIP if isinstance(error, OF_THE_COMMIT) else STOP
