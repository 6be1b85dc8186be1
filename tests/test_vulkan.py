"""Vulkan on lavapipe, in somebody else's build: verdicts and hashes against the C program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from invariance_check import SEED, by_check, by_probe, compiled

WIDTHS = (1, 2, 3, 9)


@pytest.fixture(scope="module")
def lib(foreign_libs: dict[str, Path]) -> Path:
    """npm's Vulkan build."""
    return foreign_libs["vulkan"]


@pytest.fixture(scope="module")
def env(vulkan_env: dict[str, str]) -> dict[str, str]:
    """This process's environment with lavapipe in it."""
    return dict(os.environ) | vulkan_env


@pytest.fixture(scope="module")
def check(lib: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/c/invariance_check.c, linked with it."""
    return compiled(lib, tmp_path_factory.mktemp("c"))


@pytest.mark.parametrize("type_a", ["f32", "q4_0"])
def test_mul_mat(check: Path, lib: Path, env: dict[str, str], type_a: str) -> None:
    expected = by_check(
        check, "mul_mat", type_a, 64, 256, SEED, 1,
        device="Vulkan0", widths=WIDTHS, env=env, lib=lib,
    )  # fmt: skip
    seen = by_probe(
        lib, 1, "mul_mat", "--type", type_a, "--m", 64, "--k", 256,
        device="Vulkan0", widths=WIDTHS, env=env,
    )  # fmt: skip
    assert seen == expected
    # ggml-vulkan.cpp, mul_mat_vec_max_cols: above 8 columns a tiled shader takes over
    assert expected.columns == {1: [], 2: [], 3: [], 9: list(range(9))}


def test_flash_attn(check: Path, lib: Path, env: dict[str, str]) -> None:
    expected = by_check(
        check, "flash_attn", 64, 64, 4, 2, 512, "f16", "f16", SEED, 1,
        device="Vulkan0", widths=WIDTHS, env=env, lib=lib,
    )  # fmt: skip
    seen = by_probe(
        lib, 1, "flash_attn", "--hs", 64, "--heads", 4, "--kv-heads", 2, "--kv", 512,
        device="Vulkan0", widths=WIDTHS, env=env,
    )  # fmt: skip
    assert seen == expected
