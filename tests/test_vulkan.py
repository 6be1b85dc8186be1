"""Vulkan on lavapipe, in somebody else's build: verdicts and hashes against the C program."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from invariance_check import SEED, by_check, by_probe, compiled

Cli = Callable[..., subprocess.CompletedProcess[str]]
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


def test_the_check_computes_on_the_device_it_is_given(
    check: Path, lib: Path, env: dict[str, str]
) -> None:
    cpu, vulkan = (
        by_check(check, "mul_mat", "f32", 64, 256, SEED, 1,
                 device=device, widths=[1], env=env, lib=lib).hashes
        for device in ("CPU", "Vulkan0")
    )  # fmt: skip
    assert cpu != vulkan


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


def test_a_setting_that_is_read_once_gets_a_child_of_its_own(
    cli: Cli, lib: Path, vulkan_env: dict[str, str]
) -> None:
    done = cli(
        "op", "mul_mat", "--lib", lib, "--device", "Vulkan0", "--type", "f32", "--m", 64,
        "--k", 256, "--widths", "1,9", "--seeds", 1, "--set-env", "GGML_VK_DISABLE_F16=1",
        "--time", "--hot", "-o", "json", env=vulkan_env,
    )  # fmt: skip
    record = json.loads(done.stdout)
    settings = {config["id"]: config["env"]["GGML_VK_DISABLE_F16"] for config in record["configs"]}
    rows = {(settings[row["config"]], row["width"]): row for row in record["results"]}
    assert list(rows) == [(None, 1), (None, 9), ("1", 1), ("1", 9)]
    # the tiled shader holds its tiles in f16 where it may
    assert rows[None, 9]["verdict"] == "PRECISION"
    assert rows["1", 9]["nmse_width"] < 1e-3 * rows[None, 9]["nmse_width"]
    assert rows["1", 1]["seeds"][0]["hashes"] == rows[None, 1]["seeds"][0]["hashes"]
    assert all(row["time"]["median_seconds"] > 0 for row in rows.values())


def test_a_case_that_does_not_fit_is_a_row(cli: Cli, lib: Path, vulkan_env: dict[str, str]) -> None:
    done = cli(
        "op", "mul_mat", "--lib", lib, "--device", "Vulkan0", "--type", "f32", "--m", 1 << 20,
        "--k", 1 << 16, "--widths", "1", "--seeds", 1, "-o", "json", env=vulkan_env,
    )  # fmt: skip
    (row,) = json.loads(done.stdout)["results"]
    assert (done.returncode, row["verdict"]) == (1, "OOM")
    assert "Vulkan0 has " in row["detail"]


def test_weights_where_the_device_cannot_read_them_are_a_row(
    cli: Cli, lib: Path, vulkan_env: dict[str, str]
) -> None:
    command = ("op", "mul_mat", "--lib", lib, "--type", "f32", "--m", 64, "--k", 256, "--widths",
               1, "--seeds", 1, "--buft", "vulkan_host", "-o", "json")  # fmt: skip
    (row,) = json.loads(cli(*command, "--device", "Vulkan0", env=vulkan_env).stdout)["results"]
    assert row["verdict"] == "UNSUPPORTED"
    assert row["detail"] == "Vulkan0 does not compute on weights in Vulkan_Host"
    # a scheduler copies them, or computes where they are
    (row,) = json.loads(cli(*command, "--device", "Vulkan0+CPU", env=vulkan_env).stdout)["results"]
    assert (row["verdict"], row["weights_buft"]) == ("INVARIANT", "Vulkan_Host")
