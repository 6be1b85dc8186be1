"""The pass `kernels`: which kernels serve each width, named by what the device offers for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from ggmlprobe.dispatch import cpu_kernels, cuda_kernels, vulkan_kernels
from ggmlprobe.dispatch.symbols import require_symbols
from ggmlprobe.ggml.native import native_library
from ggmlprobe.ggml.sampler import Sampler
from ggmlprobe.ops.base import Evaluator, Op, Session

Fields = Iterator[tuple[int, dict[str, Any]]]


def check(objects: Sequence[str], backends: Collection[str]) -> None:
    """Refuse before a run what the pass could not name during it.

    Args:
        objects: the library's files, as they are mapped.
        backends: names of the backends that will run.

    Raises:
        UsageError: a stripped library. LibraryNotFound: native/ is not built.
    """
    if "CPU" in backends:
        require_symbols(objects)
        native_library("sampler")


def measure(session: Session, op: Op, evaluator: Evaluator, widths: Sequence[int]) -> Fields:
    """Fields `kernels` and `kernels_note` of each width's result.

    Raises:
        UsageError: a library without symbols. LibraryNotFound: native/ is not built.
    """
    ways = {"CPU": on_cpu, "CUDA": cuda_kernels.measure, "Vulkan": vulkan_kernels.measure}
    way = ways.get(session.backend.info.backend)
    if way is None:
        name = session.backend.info.backend
        yield from ((width, {"kernels_note": f"{name} tells no kernel names"}) for width in widths)
        return
    yield from way(session, evaluator, widths)


def on_cpu(session: Session, evaluator: Evaluator, widths: Sequence[int]) -> Fields:
    """Kernels of the CPU by sampling, with `session.backend.around` set meanwhile."""
    objects = cpu_kernels.open_objects(session.library)
    sampler = Sampler()
    around, session.backend.around = session.backend.around, sampler.armed
    try:
        for width in widths:
            seen = cpu_kernels.sample(sampler, objects, partial(evaluator.evaluate, 0, width))
            threads = session.threads if width == 1 else session.threads_batch
            yield width, cpu_kernels.described(seen, threads)
    finally:
        session.backend.around = around
        sampler.close()
