"""Many evaluations in one graph: each computes what one alone does, on memory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.sched import start
from ggmlprobe.ggml.tensor import Tensor
from ggmlprobe.ops import OPS
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.mul_mat_id import rotate
from ggmlprobe.pool import PoolStore

CASES: dict[str, dict[str, Any]] = {
    "mul_mat": {"type_a": "q4_0", "m": 8, "k": 64, "bs": (2, 1), "nr": (2, 1)},
    "mul_mat_id": {"type_a": "q4_0", "m": 8, "k": 64, "n_mats": 8, "n_used": 2},
    "flash_attn": {"hsk": 64, "hsv": 64, "nh": 2, "nr2": 2, "cells": 10, "sinks": True},
    "attn_nofa": {"hsk": 64, "hsv": 64, "nh": 2, "nr2": 2, "cells": 10, "logit_softcap": 30.0},
}


@pytest.fixture(params=["CPU", "CPU+CPU"])
def session(
    request: pytest.FixtureRequest, library: Library, pools: PoolStore
) -> Iterator[Session]:
    """Return the CPU alone, and a scheduler, whose allocator uses memory again."""
    backend = start(library, request.param)
    yield Session(library, backend, pools)
    backend.free()


def data(session: Session, tensor: Tensor) -> int:
    ffi = session.library.ffi
    return int(ffi.cast("uintptr_t", session.library.c.ggml_get_data(tensor.ptr)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [1, 3])
def test_every_copy_computes_what_one_alone_does(name: str, count: int, session: Session) -> None:
    evaluator = OPS[name](**CASES[name]).prepare(session, 1, 3)
    evaluator.load(1)
    sets = [evaluator.weights, evaluator.copy_weights(), evaluator.copy_weights()]
    graph = evaluator.timed(count, 3, sets)
    assert graph.run() > 0
    wanted = evaluator.evaluate(0, count)
    out = evaluator.blocks[count]
    for tensor in graph.outs:
        made = tensor.get(np.float32).reshape(out.streams, count, -1).transpose(1, 0, 2)
        assert made.reshape(count, -1).tobytes() == wanted.tobytes()
    for each in [graph, *sets[1:], evaluator]:
        each.close()


@pytest.mark.parametrize("name", CASES)
def test_copies_have_memory_of_their_own(name: str, session: Session) -> None:
    evaluator = OPS[name](**CASES[name]).prepare(session, 1, 2)
    evaluator.load(1)
    sets = [evaluator.weights, evaluator.copy_weights()]
    key = "tensor" if name.startswith("mul_mat") else "k"
    first, second = (getattr(each, key) for each in sets)
    assert abs(data(session, first) - data(session, second)) >= first.nbytes
    assert sets[0].size == sets[1].size >= first.nbytes
    graph = evaluator.timed(2, 5, sets)
    assert len({data(session, out) for out in graph.outs}) == 5
    assert graph.placed.size >= 5 * evaluator.blocks[2].out.nbytes
    # writing to a copy changes its own evaluations, and no other
    graph.run()
    before = [out.get(np.float32) for out in graph.outs]
    second.set(np.zeros(second.nbytes, np.uint8))
    graph.run()
    after = [out.get(np.float32) for out in graph.outs]
    same = [a.tobytes() == b.tobytes() for a, b in zip(before, after, strict=True)]
    assert same == [True, False, True, False, True]
    for each in [graph, sets[1], evaluator]:
        each.close()


def test_experts_take_turns(session: Session) -> None:
    evaluator = OPS["mul_mat_id"](**CASES["mul_mat_id"], routing="shared").prepare(session, 1, 2)
    evaluator.load(1)
    assert evaluator.weights_read(2) == 2 * 8 * session.library.row_size("q4_0", 64)
    graph = evaluator.timed(2, 4, [evaluator.weights])
    graph.run()
    assert len({out.get(np.float32).tobytes() for out in graph.outs}) == 4
    graph.close()
    evaluator.close()


def test_rotated_routing_goes_to_other_experts() -> None:
    ids = np.array([[5, 1, 0, 0, 0, 0, 0], [1, 6, 0, 0, 0, 0, 0]], np.int32)
    assert (rotate(ids, 2, 0) == ids).all()
    turned = rotate(ids, 2, 1)
    assert set(turned[:, :2].ravel()).isdisjoint({1, 5, 6})
    # who shares an expert with whom stays as it was
    assert turned[0, 1] == turned[1, 0]
    assert len(set(turned[:, :2].ravel())) == 3
    assert (turned[:, 2:] == 0).all()
    assert turned.dtype == np.int32


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("mul_mat", 2 * 8 * 3 * 64 * 4), ("mul_mat_id", 2 * 8 * 64 * 3 * 2),
        ("flash_attn", 2 * 4 * 3 * 128 * 256), ("attn_nofa", 2 * 4 * 3 * 128 * 256),
    ],
)  # fmt: skip
def test_operations_are_counted_as_upstream_does(name: str, flops: int) -> None:
    assert OPS[name](**CASES[name]).flops(3) == flops
