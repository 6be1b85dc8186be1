"""Which functions of a library a CPU spends an op's time in, by sampling its threads."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ggmlprobe.dispatch.symbols import Objects, require_symbols
from ggmlprobe.ggml import blas
from ggmlprobe.ggml.demangle import demangle
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.maps import files_of, mapped_here
from ggmlprobe.ggml.sampler import Sampler

WANTED = 400
"""Samples inside the library after which a width has enough: a share of 5 % is then within 1 %."""
ENOUGH = 100
SECONDS = 3.0
"""A width that has `ENOUGH` is not repeated for longer."""
LONGEST_SECONDS = 8.0
"""Nor is any other: threads that wait for each other on a busy machine hardly work."""
# Threads wait here for others, as in libgomp: no work, and as long as the slowest thread takes.
WAITING = ("ggml_barrier", "ggml_graph_compute_poll_for_work", "ggml_graph_compute_check_for_work")
# Idle threads, and what drives the evaluations, lie here; other files work for the op.
_AROUND = re.compile(
    r"^(\[|ld-|python|_cffi|libpython|libggmlprobe_|lib(c|m|gomp|omp|iomp5|pthread)\.so)"
)


@dataclass
class Tally:
    """Samples of one width.

    Attributes:
        kernels: samples by function of the library.
        dropped: samples elsewhere, by file or by function that only waits.
        threads: threads with a sample in the library.
        late: threads that came after the timers were set.
        lost: samples there was no room for.
    """

    kernels: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    threads: set[int] = field(default_factory=set)
    late: int = 0
    lost: int = 0

    @property
    def kept(self) -> int:
        """Samples in functions of the library."""
        return self.kernels.total()


def open_objects(library: Library) -> Objects:
    """What is mapped into this process now, and which of it is the library, its BLAS included.

    Raises:
        UsageError: a stripped library, whose kernels have no names.
    """
    mappings = mapped_here()
    own = files_of(library, [each.path for each in mappings])
    require_symbols(own)
    product = blas.address(library)
    theirs = [each.path for each in mappings if product in range(each.start, each.end)]
    return Objects(mappings, [*own, *theirs])


def tally(objects: Objects, samples: Iterable[tuple[int, int]], into: Tally) -> None:
    """Add (program counter, thread id) samples to a tally."""
    for (pc, tid), count in Counter(samples).items():
        where, name = objects.locate(pc)
        if name is None or name in WAITING:
            into.dropped[name or where] += count
        else:
            into.kernels[name] += count
            into.threads.add(tid)


def sample(sampler: Sampler, objects: Objects, evaluate: Callable[[], Any]) -> Tally:
    """Evaluate until there are enough samples; the first evaluation, a warm-up, is not sampled.

    Args:
        evaluate: computes with `sampler.armed` around it.
    """
    seen = Tally()
    evaluate()
    sampler.take()
    began, lost = time.perf_counter(), sampler.lost
    while _wanting(seen.kept, time.perf_counter() - began):
        evaluate()
        tally(objects, sampler.take(), seen)
        seen.late = max(seen.late, sampler.late)
    seen.lost = sampler.lost - lost
    return seen


def _wanting(samples: int, seconds: float) -> bool:
    """Whether to evaluate once more."""
    if samples < ENOUGH:
        return seconds < LONGEST_SECONDS
    return samples < WANTED and seconds < SECONDS


def described(seen: Tally, threads: int) -> dict[str, Any]:
    """A tally as fields of record.Result.

    Args:
        threads: what ggml was told to use.
    """
    kernels = [
        {"name": demangle(name), "share": count / seen.kept, "samples": count}
        for name, count in seen.kernels.most_common()
    ]
    fields: dict[str, Any] = {"kernels": kernels, "samples_dropped": dict(seen.dropped)}
    if notes := list(_notes(seen, threads)):
        fields["kernels_note"] = "; ".join(notes)
    return fields


def _notes(seen: Tally, threads: int) -> Iterable[str]:
    """What is uncertain about a tally."""
    if seen.kept < ENOUGH:
        yield f"fewer than {ENOUGH} samples in the library"
    if len(seen.threads) < threads and seen.kept:
        yield f"{len(seen.threads)} of {threads} threads seen in the library"
    if seen.late:
        yield f"{seen.late} threads came too late to be sampled"
    if seen.lost:
        yield f"{seen.lost} samples lost"
    for where, count in seen.dropped.items():
        if count > seen.kept and where not in WAITING and not _AROUND.match(where):
            yield f"most of the work was done in {where}, which is not the library"
