"""Which CUDA kernels an op launches: names, launch shapes and GPU time from NVIDIA's CUPTI.

CUPTI's activity records come through the package cupti-python, which needs the driver's library;
where either is missing, a note says so. Kernels inside a CUDA graph are recorded one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ggmlprobe.dispatch.passes import NO_CUPTI
from ggmlprobe.ggml.demangle import demangle
from ggmlprobe.ops.base import Evaluator, Session

EVALUATIONS = 5
BUFFER_BYTES = 1 << 20
NANOSECOND = 1e-9
NOTHING = "CUPTI reported no kernels: try GGML_CUDA_DISABLE_GRAPHS=1"
Xyz = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """What tells launches of one evaluation apart."""

    name: str
    grid: Xyz
    block: Xyz
    shared_bytes: int


class Trace:
    """Records every kernel launched while `traced`.

    Attributes:
        seconds: GPU time of each record since the last clear, with its launch.
    """

    def __init__(self, cupti: Any) -> None:
        """Register with CUPTI, which keeps one pair of callbacks for a process."""
        self._cupti = cupti
        self.seconds: list[tuple[Launch, float]] = []
        cupti.activity_register_callbacks(self._room, self._take)

    @staticmethod
    def _room() -> tuple[int, int]:
        """Bytes of a buffer for records, and their number (0: what fits)."""
        return BUFFER_BYTES, 0

    def _take(self, activities: Iterable[Any]) -> None:
        """Copy what is wanted of the records, which live no longer than the call."""
        kinds = self._cupti.ActivityKind
        for each in activities:
            if each.kind in (kinds.CONCURRENT_KERNEL, kinds.KERNEL):
                launch = Launch(
                    demangle(each.name),
                    (each.grid_x, each.grid_y, each.grid_z),
                    (each.block_x, each.block_y, each.block_z),
                    each.static_shared_memory + each.dynamic_shared_memory,
                )
                self.seconds.append((launch, (each.end - each.start) * NANOSECOND))

    @contextmanager
    def traced(self) -> Iterator[None]:
        """Record the block, which ends with the device idle."""
        kind = self._cupti.ActivityKind.CONCURRENT_KERNEL
        self._cupti.activity_enable(kind)
        try:
            yield
        finally:
            self._cupti.activity_flush_all(1)
            self._cupti.activity_disable(kind)


def described(seconds: Sequence[tuple[Launch, float]], evaluations: int) -> dict[str, Any]:
    """The launches of some equal evaluations as fields of record.Result."""
    if not seconds:
        return {"kernels_note": NOTHING}
    time: Counter[Launch] = Counter()
    calls = Counter(launch for launch, _ in seconds)
    for launch, taken in seconds:
        time[launch] += taken  # type: ignore[assignment]
    total = sum(time.values())
    kernels = [
        {
            "name": launch.name, "share": taken / total if total else None,
            "calls": round(calls[launch] / evaluations), "grid": list(launch.grid),
            "block": list(launch.block), "shared_bytes": launch.shared_bytes,
            "seconds": taken / evaluations,
        }
        for launch, taken in time.most_common()
    ]  # fmt: skip
    fields: dict[str, Any] = {"kernels": kernels}
    if any(count % evaluations for count in calls.values()):
        fields["kernels_note"] = "launches differ between evaluations"
    return fields


def measure(
    session: Session, evaluator: Evaluator, widths: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Fields `kernels` and `kernels_note` of each width's result."""
    try:
        cupti = import_module("cupti.cupti")
    except ImportError:
        yield from ((width, {"kernels_note": NO_CUPTI}) for width in widths)
        return
    try:
        yield from traced_widths(session, evaluator, widths, Trace(cupti))
    except (cupti.cuptiError, RuntimeError) as error:
        yield from ((width, {"kernels_note": f"CUPTI: {error}"}) for width in widths)


def traced_widths(
    session: Session, evaluator: Evaluator, widths: Sequence[int], trace: Trace
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each width's launches, after a warm-up that is recorded but not counted."""
    around, session.backend.around = session.backend.around, trace.traced
    try:
        for width in widths:
            evaluator.evaluate(0, width)
            trace.seconds.clear()
            for _ in range(EVALUATIONS):
                evaluator.evaluate(0, width)
            yield width, described(trace.seconds, EVALUATIONS)
    finally:
        session.backend.around = around
