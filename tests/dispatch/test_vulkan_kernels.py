"""Vulkan's pipelines: what labels say, and those of npm's build on lavapipe."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.dispatch.vulkan_kernels import NOT_LABELLED, TOO_MANY, described

Cli = Callable[..., subprocess.CompletedProcess[str]]
# as ggml 0.25.1 labels a product of 9 columns, with a pipeline that is dispatched twice added
LABELS = [
    "submit 0", "MUL_MAT node_0 (view)", "matmul_quant_f32_f16acc_0 (2,9,1)",
    "split_k_reduce (3,1,1)", "split_k_reduce (3,1,1)", "submit 1",
]  # fmt: skip


def test_pipelines_and_groups_are_told_from_nodes() -> None:
    assert described(LABELS)["kernels"] == [
        {"name": "matmul_quant_f32_f16acc_0", "calls": 1, "grid": [2, 9, 1]},
        {"name": "split_k_reduce", "calls": 2, "grid": [3, 1, 1]},
    ]


@pytest.mark.parametrize(
    ("lines", "note"), [(["MUL_MAT node_0"], NOT_LABELLED), ([], NOT_LABELLED), (None, TOO_MANY)]
)
def test_why_there_are_none(lines: list[str] | None, note: str) -> None:
    assert described(lines) == {"kernels_note": note}


def kernels(
    cli: Cli, lib: Path, env: dict[str, str], *case: object
) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """What the rows of a case tell, by type of the weights and width."""
    done = cli("op", *case, "--lib", lib, "--device", "Vulkan0", "--seeds", 1, "--kernels",
               "--timeout", 300, "-o", "json", env=env, timeout=600)  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    results = json.loads(done.stdout)["results"]
    return {(row["params"].get("type_a"), row["width"]): row["kernels"] for row in results}


def test_a_stock_build_names_its_pipelines(
    cli: Cli, foreign_libs: dict[str, Path], vulkan_env: dict[str, str]
) -> None:
    case = ("mul_mat", "--type", "f32,q4_0", "--m", 64, "--k", 256, "--widths", "1,3,9")
    seen = kernels(cli, foreign_libs["vulkan"], vulkan_env, *case)
    # ggml-vulkan.cpp: one work group a row (f32) or two rows (q4_0), tiles of 32 rows
    (alone,) = seen["f32", 1]
    assert alone["name"] == "mul_mat_vec_f32_f32_f32"
    assert (alone["calls"], alone["grid"]) == (1, [64, 1, 1])
    assert seen["f32", 3] == seen["f32", 1]
    (vec,), (tiled,) = seen["q4_0", 3], seen["q4_0", 9]
    assert vec["name"].startswith("mul_mat_vec_q4_0_")
    assert tiled["name"].startswith("matmul_")
    assert tiled["grid"][0] == 2


def test_attention_names_its_pipelines(
    cli: Cli, foreign_libs: dict[str, Path], vulkan_env: dict[str, str]
) -> None:
    case = ("flash_attn", "--hs", 64, "--heads", 4, "--kv-heads", 2, "--kv", 512, "--widths", "1,9")
    seen = kernels(cli, foreign_libs["vulkan"], vulkan_env, *case)
    names = {kernel["name"] for kernel in seen[None, 1]}
    assert any(name.startswith("flash_attn_f32_f16_") for name in names), names


def test_without_native_it_is_said_before_the_run(
    cli: Cli, foreign_libs: dict[str, Path], vulkan_env: dict[str, str], tmp_path: Path
) -> None:
    env = vulkan_env | {"GGMLPROBE_NATIVE_DIR": str(tmp_path)}
    done = cli("op", "mul_mat", "--kernels", "--lib", foreign_libs["vulkan"], env=env)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "no libggmlprobe_vulkan_labels.so" in line
