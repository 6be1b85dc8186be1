"""MUL_MAT_ID on the library under test, and what each routing promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.library import Library
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.mul_mat_id import ROUTINGS, MulMatId, route

TOKENS = 7
QUANTIZED, FLOATS = 5e-4, 1e-6

Read = Callable[..., np.ndarray]
Check = Callable[[Any, np.ndarray, float], None]


def products(evaluator: Any, read: Read, tokens: int) -> np.ndarray:
    """dst [tokens, n_used * m] by the definition of MUL_MAT_ID, from what lies in memory."""
    op, made = evaluator.op, evaluator.blocks[tokens].inputs
    evaluator.evaluate(0, tokens)
    experts = read(evaluator.weights.tensor, op.n_mats, op.m, op.k)
    ids = made["ids"].get(np.int32).reshape(tokens, op.n_mats)
    b = read(made["b"], tokens, 1 if op.b else op.n_used, op.k)
    out = np.empty((tokens, op.n_used, op.m))
    for token in range(tokens):
        for slot in range(op.n_used):
            out[token, slot] = experts[ids[token, slot]] @ b[token, 0 if op.b else slot]
    return out.reshape(tokens, -1)


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("b", [True, False])
@pytest.mark.parametrize(("type_a", "bound"), [("f32", FLOATS), ("q4_K", QUANTIZED)])
def test_products(
    routing: str, b: bool, type_a: str, bound: float, session: Session, read: Read, check: Check
) -> None:
    op = MulMatId(type_a=type_a, n_mats=8, n_used=3, b=b, m=20, k=256, routing=routing)
    evaluator = op.prepare(session, 3, TOKENS)
    evaluator.load(4)
    check(evaluator, products(evaluator, read, TOKENS), bound)
    evaluator.close()


@pytest.mark.parametrize(
    ("op", "bound"),
    [
        (MulMatId(type_a="mxfp4", n_mats=4, n_used=4, m=32, k=96, b=False), QUANTIZED),
        (MulMatId(type_a="f16", n_mats=1, n_used=1, m=5, k=64), FLOATS),
        (MulMatId(type_a="q8_0", n_mats=8, n_used=2, m=70, k=64, activations="outliers"), 5e-4),
    ],
    ids=["all experts", "one expert", "outliers"],
)
def test_corners(op: MulMatId, bound: float, session: Session, read: Read, check: Check) -> None:
    evaluator = op.prepare(session, 3, TOKENS)
    evaluator.load(4)
    check(evaluator, products(evaluator, read, TOKENS), bound)
    evaluator.close()


def test_ids_in_memory_are_those_of_the_route(session: Session) -> None:
    op = MulMatId(type_a="f16", n_mats=8, n_used=3, m=5, k=64, routing="random")
    evaluator = op.prepare(session, 3, TOKENS)
    evaluator.load(4)
    evaluator.evaluate(2, 3)
    ids = evaluator.blocks[3].inputs["ids"].get(np.int32).reshape(3, 8)
    evaluator.close()
    assert (ids[:, :3] == route("random", 4, TOKENS, 8, 3)[2:5]).all()


sizes = st.tuples(st.integers(1, 40), st.integers(1, 24), st.integers(1, 24), st.integers(0, 99))


@pytest.mark.parametrize("routing", ROUTINGS)
@given(sizes)
@settings(max_examples=40)
def test_experts_exist_and_are_distinct_within_a_token(
    routing: str, size: tuple[int, int, int, int]
) -> None:
    tokens, a, b, seed = size
    used, experts = min(a, b), max(a, b)
    ids = route(routing, seed, tokens, experts, used)
    assert (ids.shape, ids.dtype) == ((tokens, used), np.int32)
    assert ((ids >= 0) & (ids < experts)).all()
    assert all(len(set(row)) == used for row in ids.tolist())
    assert (ids == route(routing, seed, tokens, experts, used)).all()
    # a token keeps its experts whatever the widest width
    assert (ids[: tokens // 2 + 1] == route(routing, seed, tokens // 2 + 1, experts, used)).all()


@given(sizes)
@settings(max_examples=40)
def test_shared_is_one_set_for_all_tokens(size: tuple[int, int, int, int]) -> None:
    tokens, a, b, seed = size
    ids = route("shared", seed, tokens, max(a, b), min(a, b))
    assert (ids == ids[0]).all()


@given(sizes)
@settings(max_examples=40)
def test_disjoint_uses_every_expert_once_before_any_twice(size: tuple[int, int, int, int]) -> None:
    tokens, a, b, seed = size
    experts = max(a, b)
    flat = route("disjoint", seed, tokens, experts, min(a, b)).ravel().tolist()
    for start in range(0, len(flat), experts):
        part = flat[start : start + experts]
        assert len(set(part)) == len(part)


def test_skewed_stays_in_the_first_quarter() -> None:
    ids = route("skewed", 1, 100, 128, 8)
    assert ids.max() == 31
    assert len(set(ids.ravel().tolist())) == 32
    # fewer than `used` would not do
    assert sorted(route("skewed", 1, 1, 8, 4)[0].tolist()) == [0, 1, 2, 3]


def test_random_tokens_draw_independently_and_use_all_experts() -> None:
    ids = route("random", 1, 400, 16, 4)
    assert len({tuple(row) for row in ids.tolist()}) > 390
    counts = Counter(ids.ravel().tolist())
    # binomial(400, 1/4): mean 100, standard deviation 8.7
    assert len(counts) == 16
    assert all(60 < count < 140 for count in counts.values())


@pytest.mark.parametrize("routing", ROUTINGS)
def test_another_seed_is_another_route(routing: str) -> None:
    assert (route(routing, 1, 6, 64, 4) != route(routing, 2, 6, 64, 4)).any()


@pytest.mark.parametrize(
    "bad",
    [{"m": 0}, {"k": 0}, {"n_used": 0}, {"n_used": 9}, {"routing": "even"}, {"activations": "x"}],
)
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        MulMatId(**({"n_mats": 8, "n_used": 2} | bad))
    assert "\n" not in str(raised.value)


# Lines of `test-backend-ops support -b CPU -o MUL_MAT_ID` (ggml 0.25.3).
UPSTREAM = {
    "MUL_MAT_ID(type_a=q4_K,type_b=f32,n_mats=4,n_used=4,b=0,m=512,n=15,k=256,amax=1.000000,m_v=0)":
        (MulMatId(type_a="q4_K", n_mats=4, n_used=4, b=False, m=512, k=256), 15),
    "MUL_MAT_ID(type_a=mxfp4,type_b=f32,n_mats=32,n_used=2,b=0,m=2880,n=32,k=2880,amax=1.000000,"
    "m_v=0)": (MulMatId(type_a="mxfp4", n_mats=32, n_used=2, b=False, m=2880, k=2880), 32),
    "MUL_MAT_ID(type_a=f16,type_b=f32,n_mats=16,n_used=16,b=1,m=32,n=1024,k=16,amax=1.000000,"
    "m_v=0)": (MulMatId(type_a="f16", n_mats=16, n_used=16, m=32, k=16), 1024),
}  # fmt: skip


@pytest.mark.parametrize("text", UPSTREAM)
def test_upstream_prints_the_same(text: str) -> None:
    op, width = UPSTREAM[text]
    assert op.upstream_case(width) == text
    assert op.case() == text.replace(f"n={width},", "")[:-1] + ",routing=random)"


def test_bound_is_upstreams() -> None:
    native = {"BLACKWELL_NATIVE_FP4": "1"}
    assert (MulMatId(type_a="mxfp4").bound({}), MulMatId(type_a="mxfp4").bound(native)) == (
        5e-4, 2e-2,
    )  # fmt: skip


def test_bytes_needed_are_those_of_the_tensors(session: Session, library: Library) -> None:
    op = MulMatId(type_a="q4_0", n_mats=6, n_used=2, b=False, m=5, k=64)
    evaluator = op.prepare(session, 1, 4)
    evaluator.load(1)
    evaluator.evaluate(0, 4)
    graph = evaluator.blocks[4]
    assert evaluator.weights is not None
    tensors = [evaluator.weights.tensor, *graph.inputs.values(), graph.out]
    assert op.bytes_needed(library, 4) == sum(tensor.nbytes for tensor in tensors)
    evaluator.close()
