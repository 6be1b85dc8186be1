"""Tensors, buffers, graphs: what would make ggml abort is refused before, and nothing leaks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from ggmlprobe.errors import (
    ComputeFailed,
    OutOfMemory,
    SymbolMissing,
    UnknownType,
    Unsupported,
    UsageError,
)
from ggmlprobe.ggml import precision
from ggmlprobe.ggml.device import Backend
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.tensor import Context


@pytest.fixture
def backend(library: Library) -> Iterator[Backend]:
    """Return the CPU with one thread."""
    made = Backend(library, "CPU")
    made.set_threads(1)
    yield made
    made.free()


@pytest.fixture
def ctx(library: Library) -> Iterator[Context]:
    """Return an empty context."""
    with Context(library) as made:
        yield made


def test_set_and_get_at_an_offset(ctx: Context, backend: Backend) -> None:
    t = ctx.new_tensor("f32", (4, 3), "t")
    ctx.allocate(backend)
    assert (t.type, t.name, t.nbytes, t.nelements) == ("f32", "t", 48, 12)
    t.set(np.arange(12, dtype=np.float32).reshape(3, 4))
    t.set(np.array([100, 200], np.float32), offset=16)
    assert t.get(np.float32).tolist() == [0, 1, 2, 3, 100, 200, 6, 7, 8, 9, 10, 11]
    assert t.get(np.float32, count=2, offset=40).tolist() == [10, 11]
    assert t.get(np.uint8).size == 48
    t.set(np.array(7, np.float32))
    assert t.get(np.float32, 1).tolist() == [7]


def test_out_of_bounds_is_refused(ctx: Context, backend: Backend) -> None:
    t = ctx.new_tensor("f32", (4,))
    with pytest.raises(ValueError, match="no memory"):
        t.set(np.zeros(4, np.float32))
    ctx.allocate(backend)
    for array, offset in ((np.zeros(5, np.float32), 0), (np.zeros(4, np.float32), 4)):
        with pytest.raises(ValueError, match="do not fit"):
            t.set(array, offset)
    with pytest.raises(ValueError, match="do not fit"):
        t.set(np.zeros(1, np.float32), -4)
    with pytest.raises(ValueError, match="do not fit"):
        t.get(np.float32, 5)
    with pytest.raises(ValueError, match="negative"):
        t.get(np.float32, -1)
    with pytest.raises(ValueError, match="C-contiguous"):
        t.set(np.zeros((2, 2), np.float32).T)


def test_bad_sizes_are_refused(ctx: Context) -> None:
    for ne in ((), (1, 2, 3, 4, 5), (-1,)):
        with pytest.raises(UsageError):
            ctx.new_tensor("f32", ne)
    with pytest.raises(UsageError, match="block size"):
        ctx.new_tensor("q4_K", (100,))
    with pytest.raises(UnknownType):
        ctx.new_tensor("q9_Z", (256,))


def test_full_context_is_refused(library: Library) -> None:
    with Context(library, 3) as ctx:
        a = [ctx.new_tensor("f32", (4, 4)) for _ in range(2)]
        ctx.op("mul_mat", *a)
        with pytest.raises(ValueError, match="n_tensors=3"):
            ctx.new_tensor("f32", (1,))
        with pytest.raises(ValueError, match="n_tensors=3"):
            ctx.op("mul_mat", *a)


def test_views_and_permutations(ctx: Context, backend: Backend) -> None:
    base = ctx.new_tensor("f32", (4, 3, 2, 1))
    view = ctx.view_4d(base, (2, 3, 2, 1), (16, 48, 96), 8, "right half")
    moved = ctx.permute(base, (0, 2, 1, 3))
    flat = ctx.op("cont", moved)
    half = ctx.op("cont", view)
    ctx.allocate(backend)
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    base.set(values)
    backend.compute(ctx.graph(flat, half))
    assert (flat.get(np.float32).reshape(3, 2, 4) == values.transpose(1, 0, 2)).all()
    assert (half.get(np.float32).reshape(2, 3, 2) == values[:, :, 2:]).all()


def test_result_types(ctx: Context) -> None:
    a, b = ctx.new_tensor("f16", (8, 4)), ctx.new_tensor("f32", (8, 4))
    assert ctx.op("mul_mat", a, b).type == "f32"
    assert ctx.view_4d(a, (4, 4, 1, 1), (16, 64, 64), 0).type == "f16"
    assert ctx.op("cpy", b, a).type == "f16"
    assert ctx.op("cast", b, "bf16").type == "bf16"
    assert ctx.op("scale", b, 2.0).type == "f32"


def test_weights_in_a_context_of_their_own(library: Library, backend: Backend) -> None:
    with Context(library) as weights, Context(library) as ctx:
        a = weights.new_tensor("f32", (2, 2))
        weights.allocate(backend, usage="weights")
        b = ctx.new_tensor("f32", (2, 1))
        out = ctx.op("mul_mat", a, b)
        ctx.allocate(backend, usage="compute")
        a.set(np.array([[1, 2], [3, 4]], np.float32))
        b.set(np.array([10, 100], np.float32))
        graph = ctx.graph(out)
        assert graph.n_nodes == 1
        backend.compute(graph)
        assert out.get(np.float32).tolist() == [210, 430]


def test_allocating_twice_gives_memory_to_what_is_new(ctx: Context, backend: Backend) -> None:
    a = ctx.new_tensor("f32", (256,))
    first = ctx.allocate(backend)
    a.set(np.ones(256, np.float32))
    b = ctx.new_tensor("f32", (256,))
    assert ctx.allocate(backend).size >= 1024
    assert first.size >= 1024
    b.set(np.zeros(256, np.float32))
    assert a.get(np.float32).sum() == 256
    assert ctx.allocate(backend).size == 0


def test_too_large_says_the_bytes(ctx: Context, backend: Backend) -> None:
    ctx.new_tensor("f32", (1 << 30, 1 << 16))
    with pytest.raises(OutOfMemory, match=str(1 << 48)):
        ctx.allocate(backend)


def test_buffer_clear(ctx: Context, backend: Backend) -> None:
    t = ctx.new_tensor("i8", (16,))
    ctx.allocate(backend).clear(7)
    assert t.get(np.int8).tolist() == [7] * 16


def test_no_such_op(ctx: Context) -> None:
    with pytest.raises(SymbolMissing, match="ggml_no_such_op"):
        ctx.op("no_such_op")


@pytest.mark.parametrize(
    ("there", "number"),
    [(set(), 1), ({"ggml_is_contiguous_channels", "ggml_gelu_erf"}, 10)],
)
def test_number_of_precision_f32(there: set[str], number: int) -> None:
    # stands in for symbols of releases
    assert precision.number_of_f32(SimpleNamespace(has=there.__contains__)) == number


def test_number_of_precision_f32_between_two_known_releases() -> None:
    between = {"ggml_is_contiguous_channels"}
    with pytest.raises(Unsupported, match="April or May 2025"):
        precision.number_of_f32(SimpleNamespace(has=between.__contains__))


def test_precision_of_each_op(ctx: Context) -> None:
    q = ctx.new_tensor("f32", (64, 4, 2, 1))
    k = ctx.new_tensor("f16", (64, 256, 2, 1))
    mask = ctx.new_tensor("f16", (256, 64))
    attention = ctx.op("flash_attn_ext", q, k, k, mask, 0.125, 0.0, 0.0)
    product = ctx.op("mul_mat", k, q)
    for t in (attention, product):
        ctx.set_prec(t, "f32")
        ctx.set_prec(t, "default")
    with pytest.raises(UsageError, match="use default or f32"):
        ctx.set_prec(product, "f64")


def test_call_without_context(ctx: Context) -> None:
    t = ctx.new_tensor("f32", (5, 3))
    assert ctx.call("nelements", t) == 15


def run_small(library: Library, backend: Backend) -> list[float]:
    with Context(library) as ctx:
        a, b = ctx.new_tensor("f32", (3, 2)), ctx.new_tensor("f32", (3, 1))
        out = ctx.op("mul_mat", a, b)
        ctx.allocate(backend)
        a.set(np.arange(6, dtype=np.float32))
        b.set(np.ones(3, np.float32))
        backend.compute(ctx.graph(out))
        values: list[float] = out.get(np.float32).tolist()
        return values


def test_two_backends_in_one_process(library: Library, backend: Backend) -> None:
    other = Backend(library, "CPU")
    other.set_threads(2)
    assert run_small(library, other) == run_small(library, backend) == [3, 12]
    other.free()
    other.free()
    assert run_small(library, backend) == [3, 12]


def test_compute_is_timed_and_counted(library: Library, backend: Backend) -> None:
    run_small(library, backend)
    once = backend.compute_seconds
    run_small(library, backend)
    assert backend.computes == 2
    assert 0 < once < backend.compute_seconds < 1


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (-1, ComputeFailed, "FAILED"),
        (1, ComputeFailed, "ABORTED"),
        (-2, OutOfMemory, "ALLOC_FAILED"),
    ],
)
def test_a_bad_status_is_an_error(
    status: int,
    error: type[Exception],
    text: str,
    library: Library,
    backend: Backend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library.c, "ggml_backend_graph_compute", lambda *_: status)
    with pytest.raises(error, match=text):
        run_small(library, backend)


LEAK = """
import sys
import numpy as np
from ggmlprobe.ggml.device import Backend
from ggmlprobe.ggml.find import find
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.tensor import Context

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

lib = Library.load(find(sys.argv[1], {}))
backend = Backend(lib, "CPU")
backend.set_threads(1)
data = np.ones(1024, np.float32)
for number in range(10000):
    if number == 1000:
        before = resident()
    with Context(lib) as ctx:
        a, b = ctx.new_tensor("f32", (32, 32)), ctx.new_tensor("f32", (32, 32))
        out = ctx.op("mul_mat", a, b)
        ctx.allocate(backend)
        a.set(data)
        b.set(data)
        backend.compute(ctx.graph(out))
        assert out.get(np.float32, 1)[0] == 32
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_thousand_contexts_leak_nothing(lib_path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAK, lib_path], capture_output=True, text=True, check=True
    )
    # one leaked buffer each would be 110 MB, one leaked graph each 60 MB
    assert int(done.stdout) < 4 << 20
