"""Every preset holds exactly the cases of the report or model it is named after."""

from __future__ import annotations

from typing import Any

import pytest

from ggmlprobe.errors import UsageError
from ggmlprobe.ops.attention import Attention
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.ops.mul_mat_id import MulMatId
from ggmlprobe.presets import PRESETS, SPECULATIVE_WIDTHS, Part, named
from ggmlprobe.verdict import Verdict


def products(name: str) -> list[tuple[Any, ...]]:
    return [(op.type_a, op.m, op.k) for op in ops(name) if isinstance(op, MulMat)]


def experts(name: str) -> list[tuple[Any, ...]]:
    made = [op for op in ops(name) if isinstance(op, MulMatId)]
    return [(op.type_a, op.n_mats, op.n_used, op.m, op.k) for op in made]


def attentions(name: str) -> list[tuple[Any, ...]]:
    """(hsk, hsv, query heads, KV heads) of each case, and what of it is not plain attention."""
    made = [op for op in ops(name) if isinstance(op, Attention)]
    return [
        (op.hsk, op.hsv, op.heads, op.nh, op.type_K, op.type_V, op.window, op.sinks,
         op.v_is_view_of_k)
        for op in made
    ]  # fmt: skip


def both_kv(*shapes: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Each (hsk, hsv, heads, kv heads, window, sinks, view) with f16 and with q8_0 KV."""
    return [(*s[:4], kv, kv, *s[4:]) for s in shapes for kv in ("f16", "q8_0")]


def plain(hs: int, heads: int, kv_heads: int) -> tuple[Any, ...]:
    return (hs, hs, heads, kv_heads, 0, False, False)


def ops(name: str) -> list[Any]:
    return [case.op for case in named(name).cases()]


def test_names() -> None:
    assert list(PRESETS) == [
        "pr-28108", "issue-28111", "qwen3.8-27b", "qwen3.6-35b-a3b", "qwen3-30b-a3b",
        "gpt-oss-20b", "gemma", "mla", "llama-8b",
    ]  # fmt: skip
    assert all(name == preset.name for name, preset in PRESETS.items())


def test_pr_28108() -> None:
    made = ops("pr-28108")
    assert [(op.hsk, op.hsv, op.heads, op.nh, op.cells, op.type_K, op.type_V) for op in made] == [
        (hs, hs, heads, kv_heads, cells, kv, kv)
        for hs, heads, kv_heads in ((128, 32, 8), (256, 24, 4))
        for kv in ("f16", "q8_0", "q4_0")
        for cells in (2048, 7168, 16384)
    ]
    assert {case.widths for case in named("pr-28108").cases()} == {(1, 2, 3, 4)}


def test_issue_28111() -> None:
    cases = named("issue-28111").cases()
    assert products("issue-28111") == [
        ("iq3_s", 17408, 5120), ("iq4_xs", 10240, 5120), ("iq4_xs", 5120, 17408),
    ]  # fmt: skip
    assert {case.widths for case in cases} == {(1, 2, 3, 4, 5, 8)}
    assert sum(len(case.widths) for case in cases) == 18
    assert {case.op_name for case in cases} == {"mul_mat"}


def test_qwen3_8_27b() -> None:
    assert products("qwen3.8-27b") == [
        ("q4_K", m, k)
        for m, k in (
            (17408, 5120), (5120, 17408), (10240, 5120), (5120, 6144), (1024, 5120), (248320, 5120),
        )
    ]  # fmt: skip
    assert attentions("qwen3.8-27b") == both_kv(plain(256, 24, 4))
    assert experts("qwen3.8-27b") == []


def test_qwen3_6_35b_a3b() -> None:
    up, down = ("q4_K", 256, 8, 512, 2048), ("q4_K", 256, 8, 2048, 512)
    assert experts("qwen3.6-35b-a3b") == [up, down]
    assert products("qwen3.6-35b-a3b") == [("f32", 256, 2048)]
    assert attentions("qwen3.6-35b-a3b") == both_kv(plain(256, 16, 2))


def test_qwen3_30b_a3b() -> None:
    up, down = ("q4_K", 128, 8, 768, 2048), ("q4_K", 128, 8, 2048, 768)
    assert experts("qwen3-30b-a3b") == [up, down]
    assert products("qwen3-30b-a3b") == [("f32", 128, 2048)]
    assert attentions("qwen3-30b-a3b") == both_kv(plain(128, 32, 4))


def test_gpt_oss_20b() -> None:
    assert experts("gpt-oss-20b") == [("mxfp4", 32, 4, 2880, 2880)] * 2
    assert products("gpt-oss-20b") == [("f32", 32, 2880)]
    full, window = (64, 64, 64, 8, 0, True, False), (64, 64, 64, 8, 128, True, False)
    assert attentions("gpt-oss-20b") == both_kv(full, window)


def test_experts_come_with_one_activation_for_all_and_with_one_each() -> None:
    for name in ("qwen3.6-35b-a3b", "qwen3-30b-a3b", "gpt-oss-20b"):
        assert [op.b for op in ops(name) if isinstance(op, MulMatId)] == [True, False]


def test_gemma() -> None:
    made = attentions("gemma")
    assert made == both_kv((256, 256, 16, 8, 1024, False, False), plain(512, 16, 2))
    assert len(ops("gemma")) == len(made)


def test_mla() -> None:
    made = attentions("mla")
    assert made == both_kv(*[(576, 512, gqa, 1, 0, False, True) for gqa in (20, 128)])
    assert len(ops("mla")) == len(made)


def test_llama_8b() -> None:
    assert products("llama-8b") == [("q4_K", 4096, 14336), ("q4_K", 14336, 4096)]
    assert attentions("llama-8b") == both_kv(plain(128, 32, 8))


@pytest.mark.parametrize("name", PRESETS)
def test_attention_has_f16_and_q8_0_kv(name: str) -> None:
    kv = {(op.type_K, op.type_V) for op in ops(name) if isinstance(op, Attention)}
    assert not kv or {("f16", "f16"), ("q8_0", "q8_0")} <= kv


@pytest.mark.parametrize("name", PRESETS)
def test_cases_are_distinct_say_their_source_and_expect_nothing(name: str) -> None:
    preset = named(name)
    cases = preset.cases()
    # up and down of square experts differ in b only
    assert len({case.op for case in cases}) == len(cases) > 0
    assert preset.source
    # what was reported is text; no case carries an expected verdict
    assert not any(verdict in preset.reported for verdict in Verdict)
    for case in cases:
        assert vars(case).keys() == {"op_name", "op", "widths", "tokens"}


@pytest.mark.parametrize("name", ["pr-28108", "issue-28111"])
def test_reports_say_what_was_seen(name: str) -> None:
    assert "SM120" in named(name).reported


def test_model_shapes_run_at_speculative_widths_unless_told() -> None:
    assert {case.widths for case in named("llama-8b").cases()} == {SPECULATIVE_WIDTHS}
    assert {case.widths for case in named("llama-8b").cases((1, 3))} == {(1, 3)}


def test_lists_that_go_together_must_be_of_one_length() -> None:
    with pytest.raises(ValueError, match="zip"):
        Part("mul_mat", {"m": (1, 2), "k": (32,)}, ("m", "k")).cases((1,))


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no preset nope: there are pr-28108, issue-28111"):
        named("nope")
