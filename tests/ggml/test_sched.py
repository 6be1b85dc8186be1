"""A scheduler over devices of the library under test, and devices that are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ggmlprobe.errors import OutOfMemory, UnknownDevice, Unsupported
from ggmlprobe.ggml.computing import WeightPlace
from ggmlprobe.ggml.device import Backend, DeviceInfo, joined
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.sched import Scheduler, check_order, start
from ggmlprobe.ggml.tensor import Context, Tensor


@pytest.fixture
def scheduler(library: Library) -> Iterator[Scheduler]:
    """Return a scheduler over the CPU, twice."""
    made = Scheduler(library, ["cpu", "CPU"])
    yield made
    made.free()


def product(context: Context, k: int = 64, rows: int = 4) -> tuple[dict[str, Tensor], list[Tensor]]:
    a, b = context.new_tensor("f32", (k, rows), "a"), context.new_tensor("f32", (k, 3), "b")
    return {"a": a, "b": b}, [context.op("mul_mat", a, b)]


def test_a_plus_makes_a_scheduler(library: Library) -> None:
    for name, kind in (("CPU", Backend), (None, Backend), ("CPU+CPU", Scheduler)):
        made = start(library, name)
        assert type(made) is kind
        made.free()
        made.free()


def test_an_exact_product_again_and_again(library: Library, scheduler: Scheduler) -> None:
    with Context(library) as context:
        inputs, nodes = product(context)
        placed = scheduler.place(context, [(inputs, nodes)])
        assert placed.backends == ["CPU"]
        assert placed.size >= sum(tensor.nbytes for tensor in [*inputs.values(), *nodes])
        a, b = np.arange(256) % 5, np.arange(192) % 7
        inputs["a"].set(a.astype(np.float32))
        inputs["b"].set(b.astype(np.float32))
        exact = b.reshape(3, 64) @ a.reshape(4, 64).T
        for threads in (1, 2, 1):
            nodes[0].set(np.full(12, np.nan, np.float32))
            scheduler.set_threads(threads)
            placed.compute()
            assert (nodes[0].get(np.float32).reshape(3, 4) == exact).all()
    assert scheduler.computes == 3
    assert scheduler.compute_seconds > 0


def test_nodes_in_between_may_use_memory_again_but_no_input_is_lost(
    library: Library, scheduler: Scheduler
) -> None:
    with Context(library) as context:
        x, y = context.new_tensor("f32", (256,), "x"), context.new_tensor("f32", (256,), "y")
        nodes = [context.op("scale", x, 2.0)]
        for _ in range(4):
            nodes.append(context.op("add", nodes[-1], y))
        placed = scheduler.place(context, [({"x": x, "y": y}, nodes)])
        # five nodes, two inputs: some of them share memory
        assert placed.size < 7 * 1024
        x.set(np.arange(256, dtype=np.float32))
        y.set(np.ones(256, np.float32))
        for _ in range(3):
            nodes[-1].set(np.full(256, np.nan, np.float32))
            placed.compute()
            assert (nodes[-1].get(np.float32) == 2 * np.arange(256) + 4).all()


def test_what_no_device_computes_is_refused_before_the_scheduler_aborts(
    library: Library, scheduler: Scheduler
) -> None:
    with Context(library) as context:
        a, b = context.new_tensor("f32", (64, 4)), context.new_tensor("i64", (64, 3))
        node = context.op("mul_mat", a, b)
        with pytest.raises(Unsupported, match=r"CPU\+CPU does not support this op"):
            scheduler.place(context, [({"b": b}, [node])])


def test_a_graph_that_does_not_fit(
    library: Library, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(library.c.__dict__, "ggml_backend_sched_alloc_graph", lambda *_: False)
    with Context(library) as context, pytest.raises(OutOfMemory, match=r"CPU\+CPU: no memory"):
        scheduler.place(context, [product(context)])


def test_the_cpu_stands_last(library: Library) -> None:
    with pytest.raises(UnknownDevice, match=r"--device CPU\+BLAS: the CPU device must stand last"):
        check_order("CPU+BLAS", ["CPU", "ACCEL"])
    with pytest.raises(UnknownDevice, match="no device GPU7"):
        start(library, "GPU7+CPU")


def test_a_library_without_op_offload_is_not_called(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError

    has = library.has
    monkeypatch.setattr(library, "has", lambda name: name != "ggml_version" and has(name))
    monkeypatch.setitem(library.c.__dict__, "ggml_backend_sched_new", never)
    with pytest.raises(UnknownDevice, match=r"too old for a scheduler.*ggml 0\.9") as error:
        start(library, "CPU+CPU")
    assert "\n" not in str(error.value)


def info(name: str, kind: str, bufts: list[str]) -> DeviceInfo:
    return DeviceInfo(name, f"a {name}", kind, 1, 2, name.rstrip("0"), {name: "1"}, bufts)


def test_devices_as_one() -> None:
    gpu = replace(info("GPU0", "GPU", ["GPU0", "GPU_Host"]), endpoint="host:1")
    cpu = replace(info("CPU", "CPU", ["CPU", "CPU_REPACK"]), memory_free=3, memory_total=4)
    whole = joined([gpu, info("BLAS", "ACCEL", ["CPU"]), cpu])
    assert (whole.name, whole.type, whole.backend) == (
        "GPU0+BLAS+CPU",
        "GPU+ACCEL+CPU",
        "GPU+BLAS+CPU",
    )
    assert whole.bufts == ["CPU", "CPU_REPACK", "GPU0", "GPU_Host"]
    assert (whole.memory_free, whole.memory_total, whole.endpoint) == (3, 4, "host:1")
    assert whole.features == {"GPU0": "1", "BLAS": "1", "CPU": "1"}


def test_weights_have_the_cpus_extra_buffer_types_before_its_own(scheduler: Scheduler) -> None:
    places = scheduler.weight_places(None)
    assert all(isinstance(place, WeightPlace) for place in places)
    cpu = scheduler.backends[-1].info.bufts
    assert [place.buft for place in places] == [*cpu[1:], cpu[0]]
    assert [place.buft for place in scheduler.weight_places("CPU")] == ["CPU"]
    with pytest.raises(UnknownDevice, match=r"device CPU\+CPU has no buffer type VRAM"):
        scheduler.buft("VRAM")
