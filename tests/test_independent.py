"""The verdicts against a C program that shares no code with the package: memcmp, width by width."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "c" / "invariance_check.c"
WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16]
SEED = 28111

Columns = dict[int, list[int]]


@pytest.fixture(scope="session")
def invariance_check(lib_path: str | Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/c/invariance_check.c, linked with the library under test."""
    directory = Path(lib_path)
    missing = [n for n in ("libggml.so", "libggml-base.so") if not (directory / n).exists()]
    if missing:
        pytest.skip(f"{directory} has no {missing[0]} to link with")
    program = tmp_path_factory.mktemp("c") / "invariance_check"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
    link = [f"-L{directory}", "-lggml", "-lggml-base", f"-Wl,-rpath,{directory}", "-lm"]
    subprocess.run(["cc", *flags, str(SOURCE), "-o", str(program), *link], check=True)
    return program


def columns_by_check(
    program: Path, *arguments: object, env: dict[str, str] | None = None
) -> Columns:
    """Differing columns per width as the C program prints them."""
    command = [str(program), *map(str, arguments), *map(str, WIDTHS)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    lines = [line.split(":") for line in run.stdout.splitlines()]
    return {int(width): [int(t) for t in columns.split()] for width, columns in lines}


def columns_by_probe(
    lib: str | Path, threads: int, *arguments: str, env: dict[str, str] | None = None
) -> Columns:
    """Differing columns per width as `ggmlprobe op` reports them."""
    command = [
        sys.executable, "-m", "ggmlprobe", "op", *arguments,
        "--widths", ",".join(map(str, WIDTHS)), "--threads", str(threads),
        "--threads-batch", str(threads), "--seeds", str(SEED), "--device", "CPU",
        "-o", "json", "--lib", str(lib),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert run.returncode in (0, 1), run.stderr
    results = json.loads(run.stdout)["results"]
    for result in results:
        assert [seed["seed"] for seed in result["seeds"]] == [SEED]
        assert result["verdict"] in ("INVARIANT", "MISMATCH", "PRECISION"), result["verdict"]
    return {result["width"]: result["columns_differing"] for result in results}


def shapes(command: str, values: Sequence[tuple[str, object]]) -> list[str]:
    return [command, *(part for option, value in values for part in (option, str(value)))]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("type_a", "m", "k"),
    [
        *[(t, 512, 1024) for t in ("q4_K", "iq3_s", "iq4_xs", "iq4_nl", "q8_0", "bf16", "f16")],
        ("f32", 512, 1024),
        ("f32", 67, 1023),
        ("q4_0", 300, 5120),
        ("q6_K", 1031, 2048),
    ],
)
def test_mul_mat_columns(
    invariance_check: Path, lib_path: str, type_a: str, m: int, k: int, threads: int
) -> None:
    expected = columns_by_check(invariance_check, "mul_mat", type_a, m, k, SEED, threads)
    arguments = shapes("mul_mat", [("--type", type_a), ("--m", m), ("--k", k)])
    assert columns_by_probe(lib_path, threads, *arguments) == expected


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("hs", "heads", "kv_heads", "cells", "type_kv"),
    [
        (128, 16, 4, 512, "f16"),
        (128, 16, 4, 512, "q8_0"),
        (128, 16, 4, 1024, "f16"),
        (128, 16, 4, 1024, "q8_0"),
        (64, 8, 8, 700, "f32"),
        (256, 6, 1, 300, "q4_0"),
    ],
)
def test_flash_attn_columns(
    invariance_check: Path, lib_path: str, hs: int, heads: int, kv_heads: int, cells: int,
    type_kv: str, threads: int,
) -> None:  # fmt: skip
    expected = columns_by_check(
        invariance_check, "flash_attn", hs, hs, heads, kv_heads, cells, type_kv, type_kv, SEED,
        threads,
    )  # fmt: skip
    arguments = shapes(
        "flash_attn",
        [
            ("--hs", hs), ("--heads", heads), ("--kv-heads", kv_heads), ("--kv", cells),
            ("--type-k", type_kv), ("--type-v", type_kv),
        ],
    )  # fmt: skip
    assert columns_by_probe(lib_path, threads, *arguments) == expected


@pytest.mark.parametrize("tiled", ["", "0"])
def test_both_see_what_a_dispatch_switch_does(
    invariance_check: Path, lib_path: str, tiled: str
) -> None:
    # ggml-cpu/tiled takes over at 8 columns unless this is 0.
    env = {k: v for k, v in os.environ.items() if k != "GGML_CPU_TILED_MM"}
    if tiled:
        env["GGML_CPU_TILED_MM"] = tiled
    expected = columns_by_check(invariance_check, "mul_mat", "q4_K", 64, 512, SEED, 1, env=env)
    arguments = shapes("mul_mat", [("--type", "q4_K"), ("--m", 64), ("--k", 512)])
    assert columns_by_probe(lib_path, 1, *arguments, env=env) == expected


def test_check_reports_the_widths_it_was_asked_for(invariance_check: Path) -> None:
    columns = columns_by_check(invariance_check, "mul_mat", "f32", 8, 32, SEED, 1)
    assert list(columns) == WIDTHS
    assert columns[1] == []
