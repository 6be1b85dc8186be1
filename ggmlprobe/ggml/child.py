"""Run a few calls that may crash in a forked child, and keep what it said before it died."""

from __future__ import annotations

import faulthandler
import os
import warnings
from collections.abc import Callable
from functools import partial

from ggmlprobe import system

CAN_FORK = hasattr(os, "fork")


def _silence() -> None:
    """Keep the expected crash from stderr, and from leaving a core file or a backtrace."""
    faulthandler.disable()
    os.environ["GGML_NO_BACKTRACE"] = "1"
    # a libggml of early 2025 starts a debugger all the same
    os.environ["PATH"] = ""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    system.no_core_files()


def _say(descriptor: int, line: str) -> None:
    """Write a line at once, so that a later crash does not lose it."""
    os.write(descriptor, f"{line}\n".encode())


def in_child(work: Callable[[Callable[[str], None]], None]) -> list[str]:
    """Call work(say) in a forked child.

    Args:
        work: must not start threads; hands each line of its result to say at once.

    Returns:
        The lines said before the child ended, however it ended.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        # The child only reads tables and writes to the pipe, so other threads' locks do not matter.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            _silence()
            work(partial(_say, write))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    os.waitpid(pid, 0)
    return lines
