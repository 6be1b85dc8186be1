"""native/sampler.c: where every thread of this process is, up to 10000 times a second."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import cffi

from ggmlprobe.errors import Unsupported
from ggmlprobe.ggml.native import native_library

DECLARATIONS = """
int    ggmlprobe_sampler_open(size_t room);
int    ggmlprobe_sampler_arm(long interval_ns);
int    ggmlprobe_sampler_disarm(void);
long   ggmlprobe_sampler_cost(long interval_ns);
size_t ggmlprobe_sampler_take(uint64_t * pcs, int32_t * tids, size_t n, size_t * lost);
void   ggmlprobe_sampler_close(void);
"""
ROOM = 1 << 18
SHORTEST_NS = 100_000
LONGEST_NS = 5_000_000
COST_LIMIT = 0.03
"""Share of a thread's time that its samples may take."""


@cache
def _opened() -> tuple[Any, Any]:
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    return ffi, ffi.dlopen(str(native_library("sampler")))


class Sampler:
    """Samples the threads of this process while `armed`; one at a time in a process.

    Attributes:
        interval_ns: nanoseconds between two samples of a thread: 100 us, and longer only where a
            sample costs more than 3 % of that.
        threads: how many threads were sampled, the last time.
        late: how many threads came after the timers were set, the last time.
        lost: samples there was no room for.
    """

    def __init__(self) -> None:
        """Install the handler and choose the interval.

        Raises:
            LibraryNotFound: native/ is not built.
            Unsupported: another processor, no memory, or a sampler is open already.
        """
        self.threads = self.late = self.lost = 0
        self._ffi, self._c = _opened()
        self._checked(self._c.ggmlprobe_sampler_open(ROOM))
        cost = self._checked(self._c.ggmlprobe_sampler_cost(SHORTEST_NS))
        self.interval_ns = min(LONGEST_NS, max(SHORTEST_NS, int(cost / COST_LIMIT)))
        self._pcs = self._ffi.new("uint64_t[]", ROOM)
        self._tids = self._ffi.new("int32_t[]", ROOM)
        self._lost = self._ffi.new("size_t *")

    @staticmethod
    def _checked(status: int) -> int:
        if status < 0:
            raise Unsupported(f"kernels cannot be sampled here: {os.strerror(-status)}")
        return status

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Sample every thread there is at the start of the block."""
        self.threads = self._checked(self._c.ggmlprobe_sampler_arm(self.interval_ns))
        try:
            yield
        finally:
            self.late = max(0, self._c.ggmlprobe_sampler_disarm())

    def take(self) -> list[tuple[int, int]]:
        """(program counter, thread id) of every sample since the last take."""
        count = self._c.ggmlprobe_sampler_take(self._pcs, self._tids, ROOM, self._lost)
        self.lost += int(self._lost[0])
        pcs = self._ffi.unpack(self._pcs, count)
        return list(zip(pcs, self._ffi.unpack(self._tids, count), strict=True))

    def close(self) -> None:
        """Give timers, handler and memory back; harmless if done before."""
        self._c.ggmlprobe_sampler_close()
