"""CUDA's kernels from activity records, with a stand-in for cupti-python: no driver is needed.

The stand-in has the calls of cupti.cupti 13.4 that are used, and its records their field names.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ggmlprobe.dispatch import cuda_kernels, kernels, passes
from ggmlprobe.dispatch.classes import dispatch_classes
from ggmlprobe.record import Kernel

MEMCPY, CONCURRENT_KERNEL, KERNEL = 1, 10, 3
WIDE = "_ZN4wideILi8EEEvv"


class CuptiError(Exception):
    """What the binding raises for a status that is not success."""


class Cupti(ModuleType):
    """Keeps records while a kind is enabled and hands them out when flushed."""

    ActivityKind = SimpleNamespace(CONCURRENT_KERNEL=CONCURRENT_KERNEL, KERNEL=KERNEL)
    cuptiError = CuptiError

    def __init__(self) -> None:
        super().__init__("cupti.cupti")
        self.enabled: set[int] = set()
        self.pending: list[Any] = []
        self.fails = False

    def activity_register_callbacks(self, room: Callable[[], Any], done: Any) -> None:
        if self.fails:
            raise CuptiError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")
        size, records = room()
        assert size >= 1 << 16
        assert records == 0
        self.done = done

    def activity_enable(self, kind: int) -> None:
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.remove(kind)

    def activity_flush_all(self, flag: int) -> None:
        pending, self.pending = self.pending, []
        self.done(pending)

    def launch(self, name: str, ns: int, grid: int, kind: int = CONCURRENT_KERNEL) -> None:
        """What a launch on the device leaves behind."""
        if CONCURRENT_KERNEL not in self.enabled:
            return
        self.pending.append(
            SimpleNamespace(
                kind=kind, name=name, start=1000, end=1000 + ns, grid_x=grid, grid_y=2, grid_z=1,
                block_x=32, block_y=4, block_z=1, static_shared_memory=100,
                dynamic_shared_memory=28,
            )
        )  # fmt: skip


@pytest.fixture
def cupti(monkeypatch: pytest.MonkeyPatch) -> Cupti:
    made = Cupti()
    package = ModuleType("cupti")
    monkeypatch.setitem(sys.modules, "cupti", package)
    monkeypatch.setitem(sys.modules, "cupti.cupti", made)
    return made


class Evaluator:
    """Launches a matrix kernel and, above width 4, a combine kernel, inside of a compute."""

    def __init__(self, backend: Any, cupti: Any) -> None:
        self.backend, self.cupti = backend, cupti
        placed = SimpleNamespace(devices=[backend.info])
        self.blocks = defaultdict(lambda: SimpleNamespace(placed=placed))

    def evaluate(self, first: int, count: int) -> np.ndarray:
        self.launch("upload", 99, 1)
        with self.backend.around():
            self.launch("_ZN6narrowEv" if count <= 4 else WIDE, 3000 * count, count)
            self.launch("memory", 50, 1, MEMCPY)
            if count > 4:
                self.launch("combine", 1000 * count, 7)
                self.launch("combine", 1000 * count, 7)
        return np.zeros((count, 1), np.float32)

    def launch(self, *what: Any) -> None:
        if self.cupti is not None:
            self.cupti.launch(*what)


def session() -> Any:
    backend = SimpleNamespace(around="untouched", info=SimpleNamespace(backend="CUDA"))
    return SimpleNamespace(backend=backend)


def measured(cupti: Cupti | None, *widths: int) -> dict[int, dict[str, Any]]:
    here = session()
    evaluator: Any = Evaluator(here.backend, cupti)
    op: Any = None
    out = dict(kernels.measure(here, op, evaluator, widths))
    assert here.backend.around == "untouched"
    return out


def test_names_launches_and_times(cupti: Cupti) -> None:
    rows = measured(cupti, 1, 8)
    (narrow,) = rows[1]["kernels"]
    assert narrow == {
        "name": "narrow()", "share": 1.0, "calls": 1, "grid": [1, 2, 1], "block": [32, 4, 1],
        "shared_bytes": 128, "seconds": pytest.approx(3e-6),
    }  # fmt: skip
    wide, combine = rows[8]["kernels"]
    assert wide["name"] == "void wide<8>()"
    assert wide["share"] == pytest.approx(24 / 40)
    assert (combine["name"], combine["calls"]) == ("combine", 2)
    assert combine["seconds"] == pytest.approx(16e-6)
    assert not cupti.enabled, "nothing is traced afterwards"


def test_of_a_scheduled_width_the_gpu_names_its_kernels(cupti: Cupti) -> None:
    here = session()
    evaluator: Any = Evaluator(here.backend, cupti)
    ran = [SimpleNamespace(backend=name) for name in ("CPU", "CUDA")]
    evaluator.blocks[8] = SimpleNamespace(placed=SimpleNamespace(devices=ran))
    op: Any = None
    rows = dict(kernels.measure(here, op, evaluator, [4, 8]))
    assert [rows[width]["kernels"][0]["name"] for width in (4, 8)] == ["narrow()", "void wide<8>()"]
    assert "kernels_note" not in rows[4]
    assert rows[8]["kernels_note"] == "CPU ran nodes, too"


def test_only_the_compute_is_traced(cupti: Cupti) -> None:
    names = {kernel["name"] for row in measured(cupti, 1, 8).values() for kernel in row["kernels"]}
    assert names == {"narrow()", "void wide<8>()", "combine"}


def test_grids_make_dispatch_classes(cupti: Cupti) -> None:
    rows = measured(cupti, 4, 5, 8)
    made = {width: [Kernel(**each) for each in row["kernels"]] for width, row in rows.items()}
    assert dispatch_classes(made) == [[4], [5], [8]]


def test_no_records_says_what_to_try(cupti: Cupti) -> None:
    cupti.launch = lambda *_: None  # type: ignore[method-assign]
    assert measured(cupti, 1) == {1: {"kernels_note": cuda_kernels.NOTHING}}


def test_launches_that_differ_between_evaluations_are_noted() -> None:
    one = cuda_kernels.Launch("k", (1, 1, 1), (1, 1, 1), 0)
    fields = cuda_kernels.described([(one, 1e-6)] * 6, 5)
    assert fields["kernels_note"] == "launches differ between evaluations"


def test_cupti_that_refuses_says_why(cupti: Cupti) -> None:
    cupti.fails = True
    note = "CUPTI: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
    assert measured(cupti, 1, 2) == {1: {"kernels_note": note}, 2: {"kernels_note": note}}


def test_without_cupti_the_note_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupti", None)
    monkeypatch.setitem(sys.modules, "cupti.cupti", None)
    assert measured(None, 1) == {1: {"kernels_note": passes.NO_CUPTI}}
