"""The pass `kernels`: which kernels serve each width, named by what the device offers for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from ggmlprobe.dispatch import cpu_kernels, cuda_kernels, vulkan_kernels
from ggmlprobe.dispatch.symbols import require_symbols
from ggmlprobe.ggml import vulkan_labels
from ggmlprobe.ggml.device import BETWEEN
from ggmlprobe.ggml.native import native_library
from ggmlprobe.ggml.sampler import Sampler
from ggmlprobe.ops.base import Evaluator, Op, Session

Fields = Iterator[tuple[int, dict[str, Any]]]
Way = Callable[[Session, Evaluator, Sequence[int]], Fields]

UNTOLD = {"RPC": "kernels run on the server, where they are not seen"}


def check(objects: Sequence[str], backends: Collection[str]) -> None:
    """Refuse before a run what the pass could not name during it.

    Args:
        objects: the library's files, as they are mapped.
        backends: names of the backends that will run.

    Raises:
        UsageError: a stripped library. LibraryNotFound: native/ is not built.
    """
    named = {each for name in backends for each in name.split(BETWEEN)}
    if "CPU" in named:
        require_symbols(objects)
        native_library("sampler")
    if "Vulkan" in named:
        vulkan_labels.require()


def measure(session: Session, op: Op, evaluator: Evaluator, widths: Sequence[int]) -> Fields:
    """Fields `kernels` and `kernels_note` of each width's result.

    Raises:
        UsageError: a library without symbols. LibraryNotFound: native/ is not built.
    """
    ways: dict[str, Way] = {
        "CPU": on_cpu, "CUDA": cuda_kernels.measure, "Vulkan": vulkan_kernels.measure
    }  # fmt: skip
    for (name, *others), group in groupby(widths, partial(_tellers, evaluator)):
        way = ways.get(name, partial(_untold, name))
        for width, fields in way(session, evaluator, list(group)):
            notes = [f"{other} ran nodes, too" for other in others]
            yield width, _noted(fields, notes)


def _tellers(evaluator: Evaluator, width: int) -> list[str]:
    """Backends that ran a width's nodes, the one that names kernels first.

    A GPU's before the CPU's; a BLAS computes in threads of the CPU and is sampled with it.
    """
    ran = {device.backend for device in evaluator.blocks[width].placed.devices}
    own = sorted(ran - {"CPU", "BLAS"})
    return [*own, "CPU"] if not own or ran - set(own) else own


def _untold(name: str, session: Session, evaluator: Evaluator, widths: Sequence[int]) -> Fields:
    why = UNTOLD.get(name, f"{name} tells no kernel names")
    yield from ((width, {"kernels_note": why}) for width in widths)


def _noted(fields: dict[str, Any], more: Sequence[str]) -> dict[str, Any]:
    """The fields with more notes."""
    notes = [*filter(None, [fields.get("kernels_note")]), *more]
    return fields | ({"kernels_note": "; ".join(notes)} if notes else {})


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
