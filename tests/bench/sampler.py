"""What sampling costs the op that is sampled: `python tests/bench/sampler.py [LIB]`.

Prints figures, asserts nothing. Evaluations with and without the sampler alternate in one process;
the ratio is that of the medians of their compute times.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

from ggmlprobe.ggml.device import Backend
from ggmlprobe.ggml.find import find
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.sampler import Sampler
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.pool import PoolStore

SECONDS = 4.0
CASES = (
    (MulMat(type_a="q4_K", m=512, k=1024), 1),
    (MulMat(type_a="q4_K", m=512, k=1024), 8),
    (MulMat(type_a="q4_K", m=4096, k=4096), 1),
    (MulMat(type_a="f32", m=4096, k=4096), 9),
)


def ratio(session: Session, op: MulMat, width: int, sampler: Sampler) -> str:
    """Median compute time with and without sampling."""
    backend = session.backend
    plain = backend.around
    evaluator = op.prepare(session, 1, width)
    evaluator.load(1)
    times: dict[bool, list[float]] = {True: [], False: []}
    samples, end = 0, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for sampled in (False, True, True, False):
            backend.around = sampler.armed if sampled else plain
            before = backend.compute_seconds
            evaluator.evaluate(0, width)
            times[sampled].append(backend.compute_seconds - before)
            samples += len(sampler.take())
    backend.around = plain
    evaluator.close()
    with_, without = statistics.median(times[True]), statistics.median(times[False])
    return (
        f"{op.type_a} {op.m}x{op.k} width {width}, {session.threads} threads: "
        f"{without * 1e6:9.1f} us unsampled, {with_ * 1e6:9.1f} us sampled, "
        f"ratio {with_ / without:.3f} ({len(times[True])} pairs, {samples} samples)"
    )


def main() -> None:
    """Every case with one thread and with all cores."""
    library = Library.load(find(sys.argv[1] if len(sys.argv) > 1 else None))
    cores = len(os.sched_getaffinity(0))
    pools = PoolStore(library, None, cores)
    backend = Backend(library, "CPU")
    sampler = Sampler()
    print(f"one sample of each thread every {sampler.interval_ns / 1000:.0f} us")
    for threads in sorted({1, cores}):
        session = Session(library, backend, pools, None, threads, threads)
        for op, width in CASES:
            print(ratio(session, op, width, sampler), flush=True)
    sampler.close()


if __name__ == "__main__":
    main()
