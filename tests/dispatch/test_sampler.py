"""The sampler on a library made for it: what it sees, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import cffi
import pytest

from ggmlprobe.dispatch.symbols import Objects
from ggmlprobe.errors import Unsupported
from ggmlprobe.ggml.maps import mapped_here
from ggmlprobe.ggml.sampler import SHORTEST_NS, Sampler

pytestmark = pytest.mark.usefixtures("sampler_built")

TURNS = 40_000_000
"""Some 50 ms."""
Burn = Callable[[int], int]


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    made = Sampler()
    yield made
    made.close()


@pytest.fixture
def run(burn: Path) -> Burn:
    """Return tests/c/burn.c's function; other threads run while it does."""
    ffi = cffi.FFI()
    ffi.cdef("uint64_t burn(long turns);")
    library = ffi.dlopen(str(burn))
    return lambda turns: int(library.burn(turns))


def names(samples: list[tuple[int, int]], burn: Path) -> Counter[str]:
    """Samples by function of the library."""
    objects = Objects(mapped_here(), {str(burn)})
    found = (objects.locate(pc)[1] for pc, _ in samples)
    return Counter(name for name in found if name)


def caught() -> bool:
    """Whether this process handles SIGPROF, as the kernel tells it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    mask = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask.split()[1], 16) >> (signal.SIGPROF - 1) & 1)


def test_local_functions_are_named_in_the_shares_of_their_time(
    sampler: Sampler, run: Burn, burn: Path
) -> None:
    with sampler.armed():
        run(TURNS * 4)
    seen = names(sampler.take(), burn)
    first, second = seen["local_first"], seen["local_second"]
    assert first + second >= 100
    assert set(seen) == {"local_first", "local_second"}
    # both loops take one multiplication and two more operations a turn, one after the other
    assert 0.5 < first / (first + second) < 0.9


def test_nothing_is_sampled_unless_armed(sampler: Sampler, run: Burn) -> None:
    run(TURNS)
    assert sampler.take() == []
    with sampler.armed():
        pass
    sampler.take()
    run(TURNS)
    assert sampler.take() == []


def test_every_thread_is_sampled(sampler: Sampler, run: Burn, burn: Path) -> None:
    start, seen = threading.Barrier(3), []

    def work() -> None:
        seen.append(threading.get_native_id())
        start.wait()
        run(TURNS * 2)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    while len(seen) < len(workers):
        time.sleep(0.001)
    with sampler.armed():
        start.wait()
        for worker in workers:
            worker.join()
    assert sampler.threads >= 3
    objects = Objects(mapped_here(), {str(burn)})
    inside = Counter(tid for pc, tid in sampler.take() if objects.locate(pc)[1])
    assert set(inside) == set(seen)
    assert min(inside.values()) >= 20


def test_thread_that_comes_later_is_counted_and_sampled_the_next_time(sampler: Sampler) -> None:
    stop = threading.Event()
    with sampler.armed():
        thread = threading.Thread(target=stop.wait, daemon=True)
        thread.start()
        before = sampler.threads
    assert sampler.late == 1
    with sampler.armed():
        assert sampler.threads == before + 1
    assert sampler.late == 0
    stop.set()
    thread.join()
    with sampler.armed():
        assert sampler.threads == before


def test_interrupted_system_calls_go_on(sampler: Sampler) -> None:
    # by libc's own read: Python's would try again by itself
    ffi = cffi.FFI()
    ffi.cdef("ssize_t read(int file, void * into, size_t count);")
    libc = ffi.dlopen(None)
    read, write = os.pipe()
    got: list[int] = []
    into = ffi.new("char[1]")
    thread = threading.Thread(target=lambda: got.append(libc.read(read, into, 1)), daemon=True)
    thread.start()
    time.sleep(0.05)
    with sampler.armed():
        time.sleep(0.05)
        os.write(write, b"x")
        thread.join(5)
    assert got == [1]


def test_handler_is_there_only_while_open() -> None:
    before = caught()
    sampler = Sampler()
    assert caught()
    with sampler.armed():
        pass
    sampler.close()
    assert caught() == before
    sampler.close()


def test_one_at_a_time(sampler: Sampler) -> None:
    with pytest.raises(Unsupported, match="busy"):
        Sampler()


def test_interval_is_the_shortest_unless_a_sample_costs_too_much(sampler: Sampler) -> None:
    assert sampler.interval_ns >= SHORTEST_NS


def test_samples_without_room_are_counted(sampler: Sampler, run: Burn) -> None:
    room = 10
    sampler._c.ggmlprobe_sampler_close()
    assert sampler._c.ggmlprobe_sampler_open(room) == 0
    with sampler.armed():
        run(TURNS * 2)
    assert len(sampler.take()) == room
    assert sampler.lost > 0
