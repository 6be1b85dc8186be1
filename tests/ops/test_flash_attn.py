"""FLASH_ATTN_EXT on the library under test against attention of what lies in its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ggmlprobe.compare import UNWRITTEN
from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.library import Library
from ggmlprobe.ops.attention import AttentionInputs
from ggmlprobe.ops.base import Session
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.pool import PoolStore

TOKENS = 5
# upstream's own bound
BOUND = 5e-4

Check = Callable[[Any, np.ndarray, float], None]
Attend = Callable[..., np.ndarray]


def caches(evaluator: Any, read: Callable[..., np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """K and V as [streams, n_kv, heads, hs] from memory."""
    op = evaluator.op
    inside = op.layout == "cache"
    order = (op.n_kv, op.nh) if inside else (op.nh, op.n_kv)

    def cells(cache: Any, hs: int) -> np.ndarray:
        data = read(cache, op.streams, *order, hs)
        return data if inside else data.swapaxes(1, 2)

    k = cells(evaluator.k, op.hsk)
    return k, k[..., : op.hsv] if op.v_is_view_of_k else cells(evaluator.v, op.hsv)


BASE = FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300)
CASES = {
    "plain": BASE,
    "padded tail": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=257),
    "no padding": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, exact=True),
    "no mask": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, exact=True, mask=False),
    "gqa": FlashAttn(hsk=64, hsv=64, nh=2, nr2=4, cells=300),
    "window": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, window=100),
    "window of one": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, window=1),
    "sinks": FlashAttn(hsk=64, hsv=64, nh=2, nr2=2, cells=20, sinks=True),
    "alibi": FlashAttn(hsk=64, hsv=64, nh=2, nr2=2, cells=300, max_bias=8.0),
    "alibi, 6 heads": FlashAttn(hsk=64, hsv=64, nh=2, nr2=3, cells=300, max_bias=8.0),
    "softcap": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, logit_softcap=0.5),
    "streams": FlashAttn(hsk=64, hsv=64, nh=2, nr2=2, cells=100, streams=3),
    "view": FlashAttn(
        hsk=96, hsv=64, nh=1, nr2=4, cells=300, v_is_view_of_k=True, type_K="q8_0", type_V="q8_0"
    ),
    "view, f16": FlashAttn(hsk=96, hsv=64, nh=2, nr2=2, cells=300, v_is_view_of_k=True),
    "hsv": FlashAttn(hsk=96, hsv=64, nh=2, nr2=1, cells=300),
    "q8_0": FlashAttn(hsk=64, hsv=64, nh=2, nr2=4, cells=300, type_K="q8_0", type_V="q8_0"),
    "q4_0": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, type_K="q4_0", type_V="q4_0"),
    "bf16": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, type_K="bf16", type_V="bf16"),
    "f32": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, type_K="f32", type_V="f32"),
    "mixed": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, type_K="q8_0", type_V="f16"),
    "precision": FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=300, prec="default"),
    "contiguous": FlashAttn(
        hsk=64, hsv=64, nh=2, nr2=2, cells=300, streams=2, type_K="q8_0", type_V="q8_0",
        layout="contiguous",
    ),
    "contiguous view": FlashAttn(
        hsk=96, hsv=64, nh=2, nr2=2, cells=300, v_is_view_of_k=True, layout="contiguous"
    ),
    "all": FlashAttn(
        hsk=64, hsv=32, nh=2, nr2=2, cells=300, window=64, sinks=True, max_bias=4.0,
        logit_softcap=2.0, streams=2, type_K="q8_0", type_V="q8_0",
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


@pytest.mark.parametrize(
    "change", [{"window": 10}, {"sinks": True}, {"max_bias": 8.0}, {"logit_softcap": 0.5}]
)
def test_each_parameter_matters(change: dict[str, Any], session: Session) -> None:
    """Else a reference and a graph that both forget it would agree."""
    outs = []
    for changes in ({}, change):
        op = FlashAttn(hsk=64, hsv=64, nh=2, nr2=1, cells=20, **changes)
        evaluator = op.prepare(session, 1, 2)
        evaluator.load(4)
        outs.append(evaluator.evaluate(0, 2))
        evaluator.close()
    assert np.abs(outs[0] - outs[1]).max() > 1e-2 * np.abs(outs[0]).max()


def test_the_masked_tail_is_not_seen(session: Session) -> None:
    op = FlashAttn(hsk=64, hsv=64, nh=2, nr2=2, cells=260)
    evaluator = op.prepare(session, 1, 3)
    evaluator.load(4)
    before = evaluator.evaluate(0, 3)
    tail = np.full((op.n_kv - op.cells) * op.nh * op.hsk, 1000, np.float16)
    for cache in (evaluator.k, evaluator.v):
        cache.set(tail, cache.nbytes - tail.nbytes)
    assert evaluator.evaluate(0, 3).tobytes() == before.tobytes()
    # the last used cell is seen by the last token only
    evaluator.v.set(tail[: op.nh * op.hsk], (op.cells - 1) * op.nh * op.hsk * 2)
    differs = (evaluator.evaluate(0, 3) != before).any(axis=1)
    assert differs.tolist() == [False, False, True]
    evaluator.close()


def test_unused_cells_are_zero(session: Session) -> None:
    op = FlashAttn(hsk=64, hsv=64, nh=2, nr2=2, cells=260, extra=256)
    assert op.n_kv == 768
    evaluator = op.prepare(session, 1, 3)
    evaluator.load(4)
    cells = evaluator.k.get(np.float16).reshape(op.n_kv, -1)
    evaluator.close()
    assert cells[: op.cells].any(axis=1).all()
    assert not cells[op.cells :].any()


def test_layouts_have_their_own_upstream_string() -> None:
    with pytest.raises(UsageError, match="--layout"):
        FlashAttn(layout="rows")
    assert "permute=[0,2,1,3]" in FlashAttn().upstream_case(2)
    assert "permute=[0,1,2,3]" in FlashAttn(layout="contiguous").upstream_case(2)
    assert FlashAttn().case() != FlashAttn(layout="contiguous").case()


@pytest.mark.parametrize(
    ("cells", "exact", "extra", "n_kv"),
    [(1, False, 0, 256), (256, False, 0, 256), (257, False, 0, 512), (300, True, 0, 300),
     (512, False, 256, 768), (300, True, 256, 556)],
)  # fmt: skip
def test_n_kv_is_padded_to_256(cells: int, exact: bool, extra: int, n_kv: int) -> None:
    op = FlashAttn(cells=cells, exact=exact, extra=extra)
    assert op.n_kv == n_kv
    assert f"kv={n_kv}," in op.case()
    assert (op.params()["kv"], op.params()["cells"]) == (n_kv, cells)


def test_an_output_is_filled_with_the_pattern_before_each_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = CASES["streams"].prepare(session, 1, 3)
    evaluator.load(1)
    monkeypatch.setattr(session, "compute", lambda graph, width: None)
    assert (evaluator.evaluate(0, 3).view(np.uint32) == UNWRITTEN).all()
    evaluator.close()


def test_seeds_can_be_loaded_one_after_another(session: Session) -> None:
    evaluator = BASE.prepare(session, 1, 3)
    seen = []
    for seed in (1, 2, 1):
        evaluator.load(seed)
        seen.append((evaluator.evaluate(0, 3).tobytes(), evaluator.reference(1)[0].tobytes()))
    evaluator.close()
    assert seen[0] == seen[2] != seen[1]


@pytest.mark.parametrize("type_name", ["f16", "q8_0"])
def test_the_truth_does_not_depend_on_how_many_threads_make_it(
    library: Library, session: Session, type_name: str
) -> None:
    op = FlashAttn(hsk=64, hsv=64, nh=3, nr2=2, cells=2000, type_K=type_name, type_V=type_name)
    made = []
    for threads in (1, 4):
        pools = PoolStore(library, None, threads)
        truth = AttentionInputs(op, replace(session, pools=pools), 1, 3).reference()
        made.append([each.tobytes() for each in truth])
    assert made[0] == made[1]
    assert any(made[0][0])


def test_more_tokens_than_cells_are_refused(session: Session) -> None:
    evaluator = FlashAttn(hsk=64, hsv=64, nh=1, nr2=1, cells=4).prepare(session, 1, 5)
    with pytest.raises(UsageError, match="--kv 4 is less than the widest width 5"):
        evaluator.load(1)
    evaluator.close()


@pytest.mark.parametrize(
    "bad",
    [
        {"hsk": 0}, {"nh": 0}, {"nr2": 0}, {"cells": 0}, {"streams": 0},
        {"v_is_view_of_k": True, "type_K": "q8_0"}, {"v_is_view_of_k": True, "hsv": 256},
        {"mask": False}, {"mask": False, "exact": True, "window": 8},
        {"mask": False, "exact": True, "max_bias": 8.0},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as raised:
        FlashAttn(**bad)
    assert "\n" not in str(raised.value)


TAIL = "permute=[0,2,1,3],kv_view=0,v_is_view_of_k=0,n_kv_max=0)"
# Lines of `test-backend-ops support -b CPU -o FLASH_ATTN_EXT` (ggml 0.25.3).
UPSTREAM = {
    "FLASH_ATTN_EXT(hsk=64,hsv=64,nh=4,nr23=[4,1],kv=512,nb=75,mask=1,sinks=0,max_bias=0.000000,"
    "logit_softcap=0.000000,prec=f32,type_K=q8_0,type_V=q8_0," + TAIL:
        (FlashAttn(hsk=64, hsv=64, nh=4, cells=512, type_K="q8_0", type_V="q8_0"), 75),
    "FLASH_ATTN_EXT(hsk=40,hsv=40,nh=4,nr23=[4,3],kv=512,nb=1,mask=1,sinks=1,max_bias=0.000000,"
    "logit_softcap=0.000000,prec=f32,type_K=f16,type_V=f16,permute=[0,2,1,3],kv_view=1,"
    "v_is_view_of_k=0,n_kv_max=0)":
        (FlashAttn(hsk=40, hsv=40, nh=4, cells=512, streams=3, sinks=True), 1),
    "FLASH_ATTN_EXT(hsk=128,hsv=128,nh=4,nr23=[1,1],kv=113,nb=1,mask=1,sinks=1,max_bias=8.000000,"
    "logit_softcap=10.000000,prec=def,type_K=f16,type_V=f16,permute=[0,1,2,3],kv_view=1,"
    "v_is_view_of_k=0,n_kv_max=0)":
        (FlashAttn(nh=4, nr2=1, cells=113, exact=True, sinks=True, max_bias=8.0,
                   logit_softcap=10.0, prec="default"), 1),
    "FLASH_ATTN_EXT(hsk=576,hsv=512,nh=1,nr23=[8,1],kv=1024,nb=1,mask=1,sinks=0,max_bias=0.000000,"
    "logit_softcap=0.000000,prec=f32,type_K=q8_0,type_V=q8_0,permute=[0,1,2,3],kv_view=1,"
    "v_is_view_of_k=1,n_kv_max=0)":
        (FlashAttn(hsk=576, hsv=512, nh=1, nr2=8, cells=1024, type_K="q8_0", type_V="q8_0",
                   v_is_view_of_k=True), 1),
    "FLASH_ATTN_EXT(hsk=40,hsv=40,nh=4,nr23=[1,1],kv=113,nb=3,mask=0,sinks=1,max_bias=0.000000,"
    "logit_softcap=0.000000,prec=f32,type_K=f16,type_V=f16,permute=[0,1,2,3],kv_view=1,"
    "v_is_view_of_k=0,n_kv_max=0)":
        (FlashAttn(hsk=40, hsv=40, nh=4, nr2=1, cells=113, exact=True, mask=False, sinks=True), 3),
}  # fmt: skip


@pytest.mark.parametrize("text", UPSTREAM)
def test_upstream_prints_the_same(text: str) -> None:
    op, width = UPSTREAM[text]
    # the layout is llama.cpp's always: heads beside each other in a cell, no wider buffer around
    ours = text.replace("permute=[0,1,2,3]", "permute=[0,2,1,3]").replace("kv_view=1", "kv_view=0")
    assert op.upstream_case(width) == ours


def test_a_case_tells_apart_what_upstream_does_not() -> None:
    ops = [
        FlashAttn(), FlashAttn(window=100), FlashAttn(cells=4095), FlashAttn(window=101),
        FlashAttn(cells=4096, extra=256),
    ]  # fmt: skip
    assert len({op.case() for op in ops}) == len(ops)


def test_bytes_needed_are_those_of_the_tensors(session: Session, library: Library) -> None:
    op = FlashAttn(hsk=64, hsv=32, nh=2, nr2=2, cells=100, type_K="q8_0", type_V="q8_0")
    evaluator = op.prepare(session, 1, 3)
    evaluator.load(1)
    evaluator.evaluate(0, 3)
    graph = evaluator.blocks[3]
    tensors = [evaluator.k, evaluator.v, *graph.inputs.values(), graph.out]
    assert op.bytes_needed(library, 3) == sum(tensor.nbytes for tensor in tensors)
    evaluator.close()
