"""Vulkan's pipelines from the messages of a debug build, written here by a stand-in."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ggmlprobe.dispatch import kernels, vulkan_kernels

# ggml-vulkan-common.h: VK_LOG_DEBUG("ggml_vk_dispatch_pipeline(" << name << ", {" ...
DISPATCH = "ggml_vk_dispatch_pipeline({}, {{(0x55d0, 0, 4096), (0x55d8, 64, 128), }}, ({},1,1))\n"


class Evaluator:
    """Says what it dispatches, if the build does."""

    def __init__(self, backend: Any, debug: bool) -> None:
        self.backend, self.debug = backend, debug

    def evaluate(self, first: int, count: int) -> np.ndarray:
        with self.backend.around():
            os.write(2, b"ggml_vk_mul_mat_vec_q_f16(...)\n")
            if self.debug:
                name = "mul_mat_vec_q4_k_f32_f32" if count <= 8 else "matmul_q4_k_f32_l"
                os.write(2, DISPATCH.format(name, 512 * count).encode())
                os.write(2, DISPATCH.format("split_k_reduce", 3).encode() * 2)
        return np.zeros((count, 1), np.float32)


def measured(backend: str, debug: bool, *widths: int) -> dict[int, dict[str, Any]]:
    info = SimpleNamespace(backend=backend)
    session: Any = SimpleNamespace(backend=SimpleNamespace(around="untouched", info=info))
    evaluator: Any = Evaluator(session.backend, debug)
    op: Any = None
    out = dict(kernels.measure(session, op, evaluator, widths))
    assert session.backend.around == "untouched"
    return out


def test_pipelines_and_groups(capfd: pytest.CaptureFixture[str]) -> None:
    rows = measured("Vulkan", True, 8, 9)
    assert [row["kernels"] for row in rows.values()] == [
        [
            {"name": name, "calls": 1, "grid": [512 * width, 1, 1]},
            {"name": "split_k_reduce", "calls": 2, "grid": [3, 1, 1]},
        ]
        for width, name in ((8, "mul_mat_vec_q4_k_f32_f32"), (9, "matmul_q4_k_f32_l"))
    ]
    os.write(2, b"after")
    assert capfd.readouterr().err == "after", "stderr is given back"


def test_stock_build_says_why_there_are_none() -> None:
    assert measured("Vulkan", False, 1) == {1: {"kernels_note": vulkan_kernels.NOT_REPORTED}}


def test_any_other_backend_says_so() -> None:
    op: Any = None
    session: Any = SimpleNamespace(backend=SimpleNamespace(info=SimpleNamespace(backend="RPC")))
    rows = dict(kernels.measure(session, op, op, [1, 2]))
    assert rows == {width: {"kernels_note": "RPC tells no kernel names"} for width in (1, 2)}
