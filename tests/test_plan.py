"""Options to cases: products, and what cannot run at all."""

from __future__ import annotations

from typing import Any

import pytest

from ggmlprobe import plan
from ggmlprobe.errors import UnknownType, UsageError
from ggmlprobe.ops.mul_mat import MulMat

TYPES = {
    name: {"blck_size": block, "quantized": quantized}
    for name, block, quantized in (
        ("f32", 1, False), ("f16", 1, False), ("q4_0", 32, True), ("q8_1", 32, True),
        ("q4_K", 256, True), ("q8_K", 256, True), ("i32", 1, False), ("bf16", 1, False),
    )
}  # fmt: skip


def test_weights_have_every_type_but_those_of_activations_and_indices() -> None:
    assert plan.all_types(TYPES) == ["f32", "f16", "bf16", "q4_0", "q4_K"]


def test_a_case_for_every_combination_the_first_list_slowest() -> None:
    lists = {"type_a": ("q4_K", "f16"), "m": (16, 32), "k": (256,)}
    cases = plan.product("mul_mat", lists, (4, 1, 4, 2))
    assert [(c.op_name, c.widths) for c in cases] == [("mul_mat", (1, 2, 4))] * 4
    assert [c.op for c in cases] == [
        MulMat(type_a=t, m=m, k=256) for t in ("q4_K", "f16") for m in (16, 32)
    ]


def test_no_widths_and_bad_parameters_are_refused() -> None:
    with pytest.raises(UsageError, match="0 widths"):
        plan.product("mul_mat", {"m": (16,)}, ())
    with pytest.raises(UsageError, match="at least 1"):
        plan.product("mul_mat", {"m": (16, 0)}, (1,))


def mul_mats(types: tuple[str, ...], k: tuple[int, ...], **more: Any) -> list[Any]:
    return plan.product("mul_mat", {"type_a": types, "k": k, "m": (16,)} | more, (1, 2))


def test_cases_that_fit_pass() -> None:
    plan.check_cases(mul_mats(("f32", "q4_0", "q4_K"), (256, 512)), TYPES)


def test_nothing_to_run_is_refused() -> None:
    with pytest.raises(UsageError, match="0 cases"):
        plan.check_cases([], TYPES)
    with pytest.raises(UsageError, match="0 cases"):
        plan.check_cases(mul_mats((), (256,)), TYPES)


@pytest.mark.parametrize("name", ["type_a", "type_b"])
def test_an_unknown_type_is_named_with_those_there_are(name: str) -> None:
    cases = plan.product("mul_mat", {name: ("f32", "q9_K"), "k": (256,)}, (1,))
    with pytest.raises(UnknownType, match=r"no type q9_K in this library: it has f32, f16, q4_0"):
        plan.check_cases(cases, {**TYPES})


def test_rows_that_fit_no_case_are_refused_and_those_that_fit_some_are_left() -> None:
    with pytest.raises(UsageError, match="rows of 100 do not fit q4_0: give a multiple of 32"):
        plan.check_cases(mul_mats(("q4_0", "q4_K"), (100,)), TYPES)
    plan.check_cases(mul_mats(("f32", "q4_K"), (100,)), TYPES)
    plan.check_cases(mul_mats(("q4_K",), (100, 256)), TYPES)


def test_rows_of_both_sources_count() -> None:
    """One case that misfits twice is still one of two."""
    plan.check_cases(mul_mats(("q4_0",), (100, 32), type_b=("q4_0",)), TYPES)
