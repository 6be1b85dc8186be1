"""Planted faults at the tensor read-back: how `selftest` and the tests prove that faults show.

A block is an evaluation of more than one token; serial runs are left alone unless named.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from ggmlprobe import compare
from ggmlprobe.errors import UsageError

Readback = Callable[[np.ndarray, int, int], np.ndarray]
Change = Callable[[np.ndarray], object]

HANG_SECONDS = 3600.0


def untouched(out: np.ndarray, first: int, count: int) -> np.ndarray:
    """The read-back as it is."""
    return out


def in_blocks(change: Change) -> Readback:
    """Change every block's output in place."""

    def readback(out: np.ndarray, first: int, count: int) -> np.ndarray:
        if count > 1:
            change(out)
        return out

    return readback


def every_other(change: Change, serial: bool) -> Readback:
    """Change the output of every second run only, of serial runs or of blocks."""
    runs = 0

    def readback(out: np.ndarray, first: int, count: int) -> np.ndarray:
        nonlocal runs
        if (count == 1) == serial:
            runs += 1
            if runs % 2 == 0:
                change(out)
        return out

    return readback


def at_width(width: int, act: Callable[[], object]) -> Readback:
    """Do something other than return when a block of exactly this width is read back."""

    def readback(out: np.ndarray, first: int, count: int) -> np.ndarray:
        if count == width:
            act()
        return out

    return readback


def one_ulp_last_column(out: np.ndarray) -> None:
    """Move the first element of the last token by one ULP."""
    out.view(np.uint32)[-1, 0] += 1


def flip_sign(out: np.ndarray) -> None:
    """Flip the sign bit of the first token's last element."""
    out.view(np.uint32)[0, -1] ^= np.uint32(0x8000_0000)


def leave_unwritten(out: np.ndarray) -> None:
    """The first token's first element as if the kernel had not written it."""
    out.view(np.uint32)[0, 0] = compare.UNWRITTEN


def put_nan(out: np.ndarray) -> None:
    """A NaN in the first token."""
    out[0, 0] = np.nan


def round_to_bf16(out: np.ndarray) -> None:
    """Truncate to bfloat16, as a path that computes at lower precision would."""
    out.view(np.uint32)[...] &= np.uint32(0xFFFF_0000)


def scale_up(out: np.ndarray) -> None:
    """A tenth too large: a wrong sum."""
    out *= np.float32(1.1)


def out_of_memory() -> None:
    """What an allocation that fails in Python raises."""
    raise MemoryError("planted")


FAULTS: dict[str, Callable[[], Readback]] = {
    "ulp-last-column": lambda: in_blocks(one_ulp_last_column),
    "sign-bit": lambda: in_blocks(flip_sign),
    "unwritten": lambda: in_blocks(leave_unwritten),
    "nan": lambda: in_blocks(put_nan),
    "bf16": lambda: in_blocks(round_to_bf16),
    "wrong": lambda: in_blocks(scale_up),
    "unrepeatable-serial": lambda: every_other(one_ulp_last_column, serial=True),
    "unrepeatable-width": lambda: every_other(one_ulp_last_column, serial=False),
    "abort": lambda: at_width(3, os.abort),
    "kill": lambda: at_width(3, lambda: os.kill(os.getpid(), 9)),
    "hang": lambda: at_width(3, lambda: time.sleep(HANG_SECONDS)),
    "oom": lambda: at_width(3, out_of_memory),
}


def readback(name: str | None) -> Readback:
    """A fresh read-back with the named fault; None for none.

    Raises:
        UsageError: no such fault.
    """
    if name is None:
        return untouched
    if name not in FAULTS:
        raise UsageError(f"no fault {name}: there are {', '.join(FAULTS)}")
    return FAULTS[name]()
