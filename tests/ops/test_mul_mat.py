"""MUL_MAT on the library under test against a product of what lies in its tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ggmlprobe import inputs
from ggmlprobe.compare import UNWRITTEN
from ggmlprobe.errors import Unsupported, UsageError
from ggmlprobe.ggml.library import Library
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.mul_mat import MulMat

TOKENS = 9
# upstream's own bound where activations are quantized too, and one for products of floats
QUANTIZED, FLOATS = 5e-4, 1e-6

Read = Callable[..., np.ndarray]
Check = Callable[[Any, np.ndarray, float], None]


def unpermuted(stored: np.ndarray, per: tuple[int, ...]) -> np.ndarray:
    """ggml_permute by numpy: dimension i of memory becomes dimension per[i]; slowest first."""
    return stored.transpose([3 - per.index(3 - axis) for axis in range(4)])


def logical(read: Read, tensor: Any, op: MulMat, ne: tuple[int, ...]) -> np.ndarray:
    """A source as the op must see it, [ne3, ne2, ne1, ne0], from its memory."""
    if op.k_v:
        whole = read(tensor, *ne[::-1][:3], op.k_v)
        assert not whole[..., op.k :].any()
        return whole[..., : op.k]
    stored = [ne[axis] for axis in op.per]
    return unpermuted(read(tensor, *stored[::-1]), op.per)


def product(evaluator: Any, read: Read, tokens: int) -> np.ndarray:
    """dst [tokens, batch * m] by the definition of MUL_MAT with broadcast."""
    op = evaluator.op
    evaluator.evaluate(0, tokens)
    ne_b = (op.k, tokens, op.bs[0] * op.nr[0], op.bs[1] * op.nr[1])
    a = logical(read, evaluator.weights.tensor, op, (op.k, op.m, *op.bs))
    b = logical(read, evaluator.blocks[tokens].inputs["b"], op, ne_b)
    out = np.empty((ne_b[3], ne_b[2], tokens, op.m))
    for i3 in range(ne_b[3]):
        for i2 in range(ne_b[2]):
            out[i3, i2] = b[i3, i2] @ a[i3 // op.nr[1], i2 // op.nr[0]].T
    return out.transpose(2, 0, 1, 3).reshape(tokens, -1)


CASES = [
    (MulMat(type_a="f32", m=37, k=64), FLOATS),
    (MulMat(type_a="f16", m=37, k=64), FLOATS),
    (MulMat(type_a="bf16", m=37, k=64), 1e-4),
    (MulMat(type_a="q4_K", m=100, k=512), QUANTIZED),
    (MulMat(type_a="q8_0", m=100, k=512), QUANTIZED),
    (MulMat(type_a="iq4_nl", m=100, k=96), QUANTIZED),
    (MulMat(type_a="mxfp4", m=100, k=96), QUANTIZED),
    (MulMat(type_a="f16", type_b="f16", m=37, k=64), FLOATS),
    (MulMat(type_a="f32", m=5, k=64, bs=(2, 3)), FLOATS),
    (MulMat(type_a="f32", m=5, k=64, bs=(2, 3), nr=(2, 1)), FLOATS),
    (MulMat(type_a="f32", m=5, k=64, bs=(2, 3), nr=(1, 2)), FLOATS),
    (MulMat(type_a="q4_K", m=33, k=256, bs=(3, 2), nr=(2, 2)), QUANTIZED),
    (MulMat(type_a="f32", m=5, k=64, bs=(2, 3), per=(0, 2, 1, 3)), FLOATS),
    (MulMat(type_a="f16", m=5, k=64, bs=(2, 3), nr=(2, 1), per=(0, 2, 1, 3)), FLOATS),
    (MulMat(type_a="q4_K", m=33, k=256, bs=(2, 3), per=(0, 2, 1, 3)), QUANTIZED),
    (MulMat(type_a="f32", m=5, k=64, bs=(2, 3), per=(0, 1, 3, 2)), FLOATS),
    (MulMat(type_a="q4_0", m=5, k=64, bs=(2, 3), per=(0, 3, 2, 1)), QUANTIZED),
    (MulMat(type_a="f16", m=37, k=64, k_v=128), FLOATS),
    (MulMat(type_a="f32", m=37, k=65, k_v=99, bs=(2, 1)), FLOATS),
    (MulMat(type_a="q4_0", m=37, k=64, k_v=96), QUANTIZED),
    (MulMat(type_a="q8_0", m=37, k=256, prec="f32"), QUANTIZED),
    (MulMat(type_a="q8_0", m=100, k=512, activations="outliers"), QUANTIZED),
]


@pytest.mark.parametrize(("op", "bound"), CASES, ids=[op.case() for op, _ in CASES])
def test_products(op: MulMat, bound: float, session: Session, read: Read, check: Check) -> None:
    evaluator = op.prepare(session, 3, TOKENS)
    evaluator.load(4)
    check(evaluator, product(evaluator, read, TOKENS), bound)
    evaluator.close()


def test_every_type_of_the_library_makes_a_product_or_says_why_not(
    library: Library, session: Session, read: Read, check: Check
) -> None:
    ran = []
    for name, info in library.types.items():
        # the first use of iq1 and iq2 builds tables for many seconds
        if not info.quantized or name.startswith(("iq1", "iq2")):
            continue
        op = MulMat(type_a=name, m=16, k=256)
        try:
            evaluator = op.prepare(session, 3, 3)
        except Unsupported:
            continue
        evaluator.load(4)
        check(evaluator, product(evaluator, read, 3), QUANTIZED)
        evaluator.close()
        ran.append(name)
    assert {"q4_0", "q5_1", "q8_0", "q2_K", "q6_K", "iq4_xs"} <= set(ran)


def test_weights_follow_their_seed_and_activations_theirs(session: Session) -> None:
    op = MulMat(type_a="f16", m=8, k=64)
    outs = {}
    for weights_seed, seed in ((1, 1), (1, 2), (2, 1)):
        evaluator = op.prepare(session, weights_seed, 3)
        evaluator.load(seed)
        outs[weights_seed, seed] = evaluator.evaluate(0, 3).tobytes()
        evaluator.close()
    assert len(set(outs.values())) == 3


def test_a_token_is_the_same_whatever_the_widest_width(session: Session) -> None:
    op = MulMat(type_a="f16", m=8, k=64, bs=(2, 1))
    seen = []
    for widest in (3, 7):
        evaluator = op.prepare(session, 1, widest)
        evaluator.load(1)
        seen.append(evaluator.evaluate(2, 1).tobytes())
        evaluator.close()
    assert seen[0] == seen[1]


def test_seeds_can_be_loaded_one_after_another(session: Session) -> None:
    evaluator = MulMat(type_a="f16", m=8, k=64).prepare(session, 1, 3)
    seen = []
    for seed in (1, 2, 1):
        evaluator.load(seed)
        seen.append((evaluator.evaluate(0, 3).tobytes(), evaluator.reference(1)[0].tobytes()))
    evaluator.close()
    assert seen[0] == seen[2] != seen[1]


def test_outliers_are_a_few_channels_32_times_as_large(session: Session, read: Read) -> None:
    made = {}
    for kind in ("normal", "outliers"):
        op = MulMat(type_a="f16", m=4, k=1024, activations=kind)
        evaluator = op.prepare(session, 1, 2)
        evaluator.load(6)
        evaluator.evaluate(0, 2)
        made[kind] = read(evaluator.blocks[2].inputs["b"], 2, 1024)
        evaluator.close()
    gain = made["outliers"] / made["normal"]
    assert set(np.unique(gain)) == {1.0, 32.0}
    assert (gain == gain[0]).all()
    assert 2 <= (gain[0] == 32).sum() <= 64


def test_an_output_is_filled_with_the_pattern_before_each_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = MulMat(type_a="f16", m=8, k=64, bs=(2, 1)).prepare(session, 1, 3)
    evaluator.load(1)
    assert not (evaluator.evaluate(0, 3).view(np.uint32) == UNWRITTEN).any()
    monkeypatch.setattr(session, "compute", lambda graph, width: None)
    assert (evaluator.evaluate(0, 3).view(np.uint32) == UNWRITTEN).all()
    evaluator.close()


def test_width_one_has_threads_of_its_own(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.threads, session.threads_batch = 1, 2
    seen: list[int] = []
    monkeypatch.setattr(session.backend, "set_threads", seen.append)
    evaluator = MulMat(type_a="f16", m=8, k=64).prepare(session, 1, 3)
    evaluator.load(1)
    for first, count in ((0, 1), (0, 2), (2, 1), (0, 3)):
        evaluator.evaluate(first, count)
    evaluator.close()
    assert seen == [1, 2, 1, 2]


def test_the_read_back_is_told_which_tokens_it_holds(session: Session) -> None:
    seen: list[tuple[tuple[int, ...], int, int]] = []

    def note(out: np.ndarray, first: int, count: int) -> np.ndarray:
        seen.append((out.shape, first, count))
        return -out

    plain = MulMat(type_a="f16", m=8, k=64, bs=(2, 1)).prepare(session, 1, 3)
    plain.load(1)
    expected = plain.evaluate(1, 2)
    session.readback = note
    assert (plain.evaluate(1, 2) == -expected).all()
    plain.close()
    assert seen == [((2, 16), 1, 2)]


def test_weights_in_a_buffer_type_that_repacks(session: Session, read: Read, check: Check) -> None:
    if "CPU_REPACK" not in session.backend.info.bufts:
        pytest.skip("this build has no CPU_REPACK")
    op = MulMat(type_a="q4_0", m=64, k=256)
    evaluator = op.prepare(session, 3, TOKENS)
    evaluator.load(4)
    exact = product(evaluator, read, TOKENS)
    evaluator.close()
    session.buft = "CPU_REPACK"
    evaluator = op.prepare(session, 3, TOKENS)
    evaluator.load(4)
    check(evaluator, exact, QUANTIZED)
    evaluator.close()


def test_what_the_device_does_not_run_is_unsupported(session: Session) -> None:
    with pytest.raises(Unsupported, match="CPU does not support this op"):
        MulMat(type_a="f32", type_b="f16", m=8, k=64).prepare(session, 1, 2)


@pytest.mark.parametrize(
    "bad",
    [
        {"m": 0}, {"k": 0}, {"bs": (0, 1)}, {"nr": (1, 0)}, {"per": (0, 1, 2, 2)},
        {"k_v": 64}, {"k_v": 128, "per": (0, 2, 1, 3)}, {"activations": "uniform"},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        MulMat(**({"m": 8, "k": 64} | bad))
    assert "\n" not in str(raised.value)


# Lines of `test-backend-ops support -b CPU -o MUL_MAT` (ggml 0.25.3).
UPSTREAM = {
    "MUL_MAT(type_a=q4_K,type_b=f32,m=16,n=8,k=256,bs=[1,1],nr=[1,1],per=[0,1,2,3],k_v=0,o=1,"
    "src_overlap=0,m_v=0,pad=0)": (MulMat(type_a="q4_K", m=16, k=256), 8),
    "MUL_MAT(type_a=q4_K,type_b=f32,m=16,n=1,k=256,bs=[3,2],nr=[2,1],per=[0,1,2,3],k_v=0,o=1,"
    "src_overlap=0,m_v=0,pad=0)": (MulMat(type_a="q4_K", m=16, k=256, bs=(3, 2), nr=(2, 1)), 1),
    "MUL_MAT(type_a=f32,type_b=f32,m=16,n=16,k=256,bs=[2,3],nr=[1,1],per=[0,2,1,3],k_v=0,o=1,"
    "src_overlap=0,m_v=0,pad=0)": (
        MulMat(type_a="f32", m=16, k=256, bs=(2, 3), per=(0, 2, 1, 3)), 16,
    ),
    "MUL_MAT(type_a=bf16,type_b=f32,m=128,n=1,k=1056,bs=[1,1],nr=[1,1],per=[0,1,2,3],k_v=2112,o=1,"
    "src_overlap=0,m_v=0,pad=0)": (MulMat(type_a="bf16", m=128, k=1056, k_v=2112), 1),
    "MUL_MAT(type_a=f16,type_b=f16,m=1,n=512,k=2048,bs=[1,1],nr=[1,1],per=[0,1,2,3],k_v=0,o=1,"
    "src_overlap=0,m_v=0,pad=0)": (MulMat(type_a="f16", type_b="f16", m=1, k=2048), 512),
}  # fmt: skip


@pytest.mark.parametrize("text", UPSTREAM)
def test_upstream_prints_the_same(text: str) -> None:
    op, width = UPSTREAM[text]
    assert op.upstream_case(width) == text
    assert op.case() == text.replace(f"n={width},", "")


def test_a_case_tells_apart_what_upstream_does_not() -> None:
    ops = [
        MulMat(), MulMat(prec="f32"), MulMat(activations="outliers"), MulMat(nr=(2, 1)),
        MulMat(k_v=14848), MulMat(type_b="f16"),
    ]  # fmt: skip
    assert len({op.case() for op in ops}) == len(ops)
    # every parameter is in the record
    for op in ops:
        fields = {f.name for f in dataclasses.fields(op)}
        assert op.params().keys() == fields - {"source"}
    real = MulMat(source="m.gguf#blk.0.ffn_up.weight")
    assert real.params() == MulMat().params() | {"weights": "blk.0.ffn_up.weight"}
    assert real.case() == MulMat().case()[:-1] + ",weights=blk.0.ffn_up.weight)"


def test_bound_is_upstreams() -> None:
    native = {"BLACKWELL_NATIVE_FP4": "1"}
    assert MulMat(type_a="mxfp4").bound({}) == 5e-4
    assert MulMat(type_a="mxfp4").bound({"BLACKWELL_NATIVE_FP4": "0"}) == 5e-4
    assert MulMat(type_a="mxfp4").bound(native) == MulMat(type_a="nvfp4").bound(native) == 2e-2
    assert MulMat(type_a="q4_K").bound(native) == 5e-4


def test_bytes_needed_are_those_of_the_tensors(session: Session, library: Library) -> None:
    op = MulMat(type_a="q4_0", m=16, k=64, k_v=96, bs=(2, 1), nr=(3, 1))
    evaluator = op.prepare(session, 1, 5)
    evaluator.load(1)
    evaluator.evaluate(0, 5)
    graph = evaluator.blocks[5]
    assert evaluator.weights is not None
    tensors = [evaluator.weights.tensor, graph.inputs["b"], graph.out]
    assert op.bytes_needed(library, 5) == sum(tensor.nbytes for tensor in tensors)
    evaluator.close()


def test_the_weights_are_the_pool_of_the_seed(session: Session, read: Read) -> None:
    evaluator = MulMat(type_a="f16", m=5, k=64, bs=(2, 1)).prepare(session, 9, 1)
    assert evaluator.weights is not None
    rows = read(evaluator.weights.tensor, 10, 64)
    drawn = inputs.normal(9, "weights", 640).astype(np.float16).reshape(10, 64)
    assert (rows == drawn).all()
    evaluator.close()
