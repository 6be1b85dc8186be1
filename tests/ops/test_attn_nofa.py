"""ATTN_NOFA on the library under test against attention of what lies in its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ggmlprobe.compare import UNWRITTEN
from ggmlprobe.errors import UsageError
from ggmlprobe.ops.attn_nofa import AttnNofa
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.flash_attn import FlashAttn

TOKENS = 5
BOUND = 5e-4

Check = Callable[[Any, np.ndarray, float], None]
Attend = Callable[..., np.ndarray]


def caches(evaluator: Any, read: Callable[..., np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """K and V as [streams, n_kv, heads, hs] from memory; V lies there transposed."""
    op = evaluator.op
    k = read(evaluator.k, op.streams, op.n_kv, op.nh, op.hsk)
    v = read(evaluator.v, op.streams, op.nh, op.hsv, op.n_kv)
    return k, v.transpose(0, 3, 1, 2)


CASES = {
    "plain": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=300),
    "no padding": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=304, exact=True),
    "no mask": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=304, exact=True, mask=False),
    "gqa": AttnNofa(hsk=64, hsv=64, nh=2, nr2=4, cells=300),
    "window": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=300, window=100),
    "sinks": AttnNofa(hsk=64, hsv=64, nh=2, nr2=2, cells=20, sinks=True),
    "alibi": AttnNofa(hsk=64, hsv=64, nh=2, nr2=2, cells=300, max_bias=8.0),
    "alibi, 6 heads": AttnNofa(hsk=64, hsv=64, nh=2, nr2=3, cells=300, max_bias=8.0),
    "softcap": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=300, logit_softcap=0.5),
    "streams": AttnNofa(hsk=64, hsv=64, nh=2, nr2=2, cells=100, streams=3),
    "hsv": AttnNofa(hsk=96, hsv=64, nh=2, nr2=1, cells=300),
    "q8_0 K": AttnNofa(hsk=64, hsv=64, nh=2, nr2=4, cells=300, type_K="q8_0"),
    "f32": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=300, type_K="f32", type_V="f32"),
    "bf16": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=300, type_K="bf16", type_V="bf16"),
    "precision": AttnNofa(hsk=64, hsv=64, nh=2, nr2=1, cells=300, prec="default"),
    "all": AttnNofa(
        hsk=64, hsv=32, nh=2, nr2=2, cells=300, window=64, sinks=True, max_bias=4.0,
        logit_softcap=2.0, streams=2, type_K="q8_0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_attention(
    name: str, session: Session, read: Callable[..., np.ndarray], attend: Attend, check: Check
) -> None:
    evaluator = CASES[name].prepare(session, 1, TOKENS)
    evaluator.load(4)
    check(evaluator, attend(evaluator, *caches(evaluator, read), TOKENS), BOUND)
    evaluator.close()


def test_it_is_the_attention_that_flash_attn_computes(session: Session) -> None:
    """Same seed, same inputs: the two ops differ in rounding only."""
    references = []
    for kind in (AttnNofa, FlashAttn):
        op = kind(hsk=64, hsv=32, nh=2, nr2=2, cells=300, window=64, sinks=True)
        evaluator: Any = op.prepare(session, 1, 3)
        evaluator.load(4)
        references.append([evaluator.reference(token) for token in range(3)])
        evaluator.close()
    assert (np.array(references[0]) == np.array(references[1])).all()


def test_an_output_is_filled_with_the_pattern_before_each_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = CASES["streams"].prepare(session, 1, 3)
    evaluator.load(1)
    monkeypatch.setattr(session, "compute", lambda graph, width: None)
    assert (evaluator.evaluate(0, 3).view(np.uint32) == UNWRITTEN).all()
    evaluator.close()


@pytest.mark.parametrize(
    "bad", [{"type_V": "q8_0", "type_K": "q8_0"}, {"v_is_view_of_k": True}, {"mask": False}]
)
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        AttnNofa(**bad)
    assert "\n" not in str(raised.value)


def test_rows_of_v_are_channels() -> None:
    op = AttnNofa(hsk=96, hsv=64, cells=300, type_K="q8_0")
    assert op.rows() == (("q8_0", 96), ("f16", 512))


# The variables of test_mul_mat and test_soft_max, as `test-backend-ops support` prints them
# (ggml 0.25.3): MUL_MAT(type_a=f16,type_b=f32,m=1056,n=1,k=128,bs=[1,1],nr=[4,1],per=[0,2,1,3],
# k_v=0,o=1,src_overlap=0,m_v=0,pad=0) is a line of it, and so is SOFT_MAX(type=f32,ne=[16,16,1,3],
# mask=1,sinks=0,m_prec=f32,nr23=[3,1],scale=1.000000,max_bias=0.000000,inplace=0).
PRODUCT_END = ",k_v=0,o=1,src_overlap=0,m_v=0,pad=0)"


def test_upstream_case_names_the_three_ops_in_full() -> None:
    op = AttnNofa(hsk=128, hsv=64, nh=8, nr2=4, cells=300, streams=2, sinks=True, max_bias=8.0)
    assert op.upstream_case(3).split(" ") == [
        "MUL_MAT(type_a=f16,type_b=f32,m=512,n=3,k=128,bs=[8,2],nr=[4,1],per=[0,2,1,3]"
        + PRODUCT_END,
        "SOFT_MAX(type=f32,ne=[512,3,1,2],mask=1,sinks=1,m_prec=f32,nr23=[32,1],scale=0.088388,"
        "max_bias=8.000000,inplace=0)",
        "MUL_MAT(type_a=f16,type_b=f32,m=64,n=3,k=512,bs=[8,2],nr=[4,1],per=[0,1,2,3]"
        + PRODUCT_END,
    ]


def test_with_a_softcap_the_scale_is_applied_before() -> None:
    assert ",scale=1.000000," in AttnNofa(logit_softcap=30.0).upstream_case(1)
