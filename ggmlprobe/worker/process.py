"""The child's first and last moments: how it starts, whom it dies with, why it says it ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TextIO

from ggmlprobe import system
from ggmlprobe.errors import InternalError, ProbeError

# linux/prctl.h
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have Linux end this process with the thread that started it, even where the library hangs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def quiet_start() -> TextIO:
    """Keep stdout for events: what the library prints there goes to stderr; no core files."""
    events = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    system.no_core_files()
    # upstream's abort handler would start a debugger, for seconds
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    return events


def refuse(out: TextIO, error: ProbeError) -> None:
    """Say why this process ends."""
    refused = {"event": "refused", "message": str(error), "error": type(error).__name__}
    out.write(json.dumps(refused) + "\n")
    out.flush()


def internal(error: Exception) -> InternalError:
    """A defect in here as the error the parent raises: what, and in which line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return InternalError(f"internal error: {type(error).__name__}: {error} at {where} (report it)")
