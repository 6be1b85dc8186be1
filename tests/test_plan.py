"""Options to cases and configs: products, what cannot run at all, devices and buffer types."""

from __future__ import annotations

from typing import Any

import pytest

from ggmlprobe import plan
from ggmlprobe.errors import UnknownDevice, UnknownType, UsageError
from ggmlprobe.ops.mul_mat import MulMat

TYPES = {
    name: {"blck_size": block, "quantized": quantized}
    for name, block, quantized in (
        ("f32", 1, False), ("f16", 1, False), ("q4_0", 32, True), ("q8_1", 32, True),
        ("q4_K", 256, True), ("q8_K", 256, True), ("i32", 1, False), ("bf16", 1, False),
    )
}  # fmt: skip


def device(name: str, kind: str = "CPU", bufts: tuple[str, ...] = ("CPU",)) -> dict[str, Any]:
    return {
        "name": name, "description": name, "type": kind, "backend": name, "memory_free": 1,
        "memory_total": 2, "features": {}, "bufts": list(bufts),
    }  # fmt: skip


CPU = device("CPU", bufts=("CPU", "CPU_REPACK"))
BLAS, CUDA = device("BLAS", "ACCEL"), device("CUDA0", "GPU")
READY = {
    "library": {
        "path": "lib", "version": "0.25.3", "commit": None, "origin": "--lib", "stamp": None,
    },
    "devices": [CPU, BLAS],
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


def test_the_default_device_is_a_gpu_else_the_cpu() -> None:
    assert plan.pick_device([BLAS, CPU, CUDA], None) is CUDA
    assert plan.pick_device([BLAS, CPU], None) is CPU
    with pytest.raises(UnknownDevice, match="BLAS"):
        plan.pick_device([BLAS], None)


def test_a_device_is_found_by_name_in_any_case() -> None:
    assert plan.pick_device([CPU, BLAS, CUDA], "cuda0") is CUDA
    assert plan.pick_device([CPU, BLAS, CUDA], "blas") is BLAS
    with pytest.raises(UnknownDevice, match="no device CUDA1: this library has CPU, BLAS, CUDA0"):
        plan.pick_device([CPU, BLAS, CUDA], "CUDA1")
    with pytest.raises(UnknownDevice):
        plan.pick_device([CPU], "")


def test_a_buffer_type_is_spelled_as_the_device_does() -> None:
    assert plan.pick_buft(CPU, None) is None
    assert plan.pick_buft(CPU, "cpu_repack") == "CPU_REPACK"
    with pytest.raises(UnknownDevice, match="no buffer type AMX: CPU has CPU, CPU_REPACK"):
        plan.pick_buft(CPU, "AMX")


def configs(**changes: Any) -> list[Any]:
    given: dict[str, Any] = {
        "device_name": None, "bufts": (None,), "threads": (1,), "threads_batch": None, "env": {},
    }  # fmt: skip
    return plan.configs(READY, *(given | changes).values())


def test_one_config() -> None:
    (config,) = configs(env={"GGML_X": None})
    assert (config.id, config.buft, config.threads, config.threads_batch) == ("c0", None, 1, 1)
    assert (config.device.name, config.library.version) == ("CPU", "0.25.3")
    assert config.env == {"GGML_X": None}


def test_threads_of_blocks_follow_those_of_width_one_unless_given() -> None:
    pairs = [(c.threads, c.threads_batch) for c in configs(threads=(1, 2))]
    assert pairs == [(1, 1), (2, 2)]
    pairs = [(c.threads, c.threads_batch) for c in configs(threads=(1, 2), threads_batch=(4, 8))]
    assert pairs == [(1, 4), (1, 8), (2, 4), (2, 8)]


def test_every_buffer_type_with_every_thread_count_has_an_id_of_its_own() -> None:
    made = configs(bufts=(None, "cpu_repack"), threads=(1, 2))
    assert [(c.id, c.buft, c.threads) for c in made] == [
        ("c0", None, 1), ("c1", None, 2), ("c2", "CPU_REPACK", 1), ("c3", "CPU_REPACK", 2),
    ]  # fmt: skip
