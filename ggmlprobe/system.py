"""What not every system has: cores, memory and time used, locks; each with what stands in for it.

Linux is what the tests run on. Elsewhere every module can be imported all the same.
"""

from __future__ import annotations

import importlib
import os
import platform
from typing import Any


def _module(name: str) -> Any:
    """Return a module of Python's library, None on a system that lacks it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_resource = _module("resource")
_fcntl = _module("fcntl")


def cores() -> set[int]:
    """Logical cores this process may use; all there are where the system does not limit them."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def peak_rss_bytes() -> int:
    """Most memory this process has held, in bytes; 0 where the system does not tell."""
    if _resource is None:
        return 0
    peak: int = _resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss
    # kilobytes but on macOS
    return peak if platform.system() == "Darwin" else peak * 1024


def cpu_seconds() -> float | None:
    """User and system time of this process and its children that have ended; None if not told."""
    if _resource is None:
        return None
    used = [_resource.getrusage(who) for who in (_resource.RUSAGE_SELF, _resource.RUSAGE_CHILDREN)]
    return float(sum(each.ru_utime + each.ru_stime for each in used))


def no_core_files() -> None:
    """Leave no core file when this process crashes; where there are none, nothing to do."""
    if _resource is not None:
        _resource.setrlimit(_resource.RLIMIT_CORE, (0, 0))


def lock(fd: int) -> bool:
    """Lock an open file against other processes until it is closed; False if one has it locked.

    Where the system has no flock(), nothing is locked and the answer is True.
    """
    if _fcntl is None:
        return True
    try:
        _fcntl.flock(fd, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
