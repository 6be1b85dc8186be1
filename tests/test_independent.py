"""Verdicts and hashes against a C program that shares no code with the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from invariance_check import SEED, WIDTHS, by_check, by_probe, compiled

from ggmlprobe.classes import width_classes
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker


@pytest.fixture(scope="session")
def invariance_check(lib_path: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/c/invariance_check.c, linked with the library under test."""
    directory = Path(lib_path)
    missing = [n for n in ("libggml.so", "libggml-base.so") if not (directory / n).exists()]
    if missing:
        pytest.skip(f"{directory} has no {missing[0]} to link with")
    return compiled(directory, tmp_path_factory.mktemp("c"))


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
def test_mul_mat(
    invariance_check: Path, lib_path: str, type_a: str, m: int, k: int, threads: int
) -> None:
    expected = by_check(invariance_check, "mul_mat", type_a, m, k, SEED, threads)
    seen = by_probe(lib_path, threads, "mul_mat", "--type", type_a, "--m", m, "--k", k)
    assert seen == expected


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("hsk", "hsv", "heads", "kv_heads", "cells", "type_k", "type_v"),
    [
        (128, 128, 16, 4, 512, "f16", "f16"),
        (128, 128, 16, 4, 512, "q8_0", "q8_0"),
        (128, 128, 16, 4, 1024, "f16", "f16"),
        (128, 128, 16, 4, 1024, "q8_0", "q8_0"),
        (64, 64, 8, 8, 700, "f32", "f32"),
        (192, 128, 6, 1, 300, "q8_0", "f16"),
    ],
)
def test_flash_attn(
    invariance_check: Path, lib_path: str, hsk: int, hsv: int, heads: int, kv_heads: int,
    cells: int, type_k: str, type_v: str, threads: int,
) -> None:  # fmt: skip
    shape = (hsk, hsv, heads, kv_heads, cells, type_k, type_v)
    expected = by_check(invariance_check, "flash_attn", *shape, SEED, threads)
    seen = by_probe(
        lib_path, threads, "flash_attn", "--hsk", hsk, "--hsv", hsv, "--heads", heads,
        "--kv-heads", kv_heads, "--kv", cells, "--type-k", type_k, "--type-v", type_v,
    )  # fmt: skip
    assert seen == expected


@pytest.mark.parametrize("tiled", ["", "0"])
def test_dispatch_switch(invariance_check: Path, lib_path: str, tiled: str) -> None:
    # ggml-cpu/tiled takes over at 8 columns unless this is 0.
    env = {name: value for name, value in os.environ.items() if name != "GGML_CPU_TILED_MM"}
    if tiled:
        env["GGML_CPU_TILED_MM"] = tiled
    expected = by_check(invariance_check, "mul_mat", "q4_K", 64, 512, SEED, 1, env=env)
    seen = by_probe(lib_path, 1, "mul_mat", "--type", "q4_K", "--m", 64, "--k", 512, env=env)
    assert seen == expected


@pytest.fixture(scope="session")
def repacks(lib_path: str) -> None:
    """Skip where the CPU device has no CPU_REPACK."""
    worker = Worker(Spec(lib_path), 60.0)
    try:
        bufts = [name for device in worker.ready()["devices"] for name in device["bufts"]]
    finally:
        worker.stop()
    if "CPU_REPACK" not in bufts:
        pytest.skip("no buffer type CPU_REPACK in this library")


@pytest.mark.usefixtures("repacks")
@pytest.mark.parametrize("type_a", ["q4_K", "q4_0", "q2_K"])
def test_repacked_weights(
    invariance_check: Path, lib_path: str, tmp_path: Path, type_a: str
) -> None:
    # Groups of 4 columns go one way and the remainder another.
    out = tmp_path / "out.json"
    probe = ("mul_mat", "--type", type_a, "--m", 512, "--k", 1024, "--buft", "CPU_REPACK")
    if not supported(lib_path, *probe):
        pytest.skip(f"this CPU does not repack {type_a}")
    seen = by_probe(lib_path, 1, *probe, "--export-json", out)
    expected = by_check(invariance_check, "mul_mat", f"{type_a}@CPU_REPACK", 512, 1024, SEED, 1)
    assert seen == expected
    (classes,) = json.loads(out.read_text())["classes"]
    groups = width_classes({w: [tokens] for w, tokens in expected.hashes.items()})
    assert classes["groups"] == groups.groups
    assert [tuple(pair) for pair in classes["pairs"]] == groups.pairs
    if expected.columns[5] == [0, 1, 2, 3] and expected.columns[8] == list(range(8)):
        assert not classes["transitive"]
        assert [4, 8] in classes["pairs"]


def supported(lib: str, *arguments: object) -> bool:
    """Whether the device runs the case at all."""
    command = [sys.executable, "-m", "ggmlprobe", "op", *map(str, arguments), "--widths", "1"]
    run = subprocess.run(
        [*command, "--seeds", "1", "--lib", lib], capture_output=True, text=True, check=False
    )
    assert run.returncode in (0, 1) or "CPU does not support this op" in run.stderr, run.stderr
    return run.returncode != 2


def test_check_tells_tokens_and_seeds_apart(invariance_check: Path) -> None:
    seen = by_check(invariance_check, "mul_mat", "f32", 8, 32, SEED, 1)
    other = by_check(invariance_check, "mul_mat", "f32", 8, 32, SEED + 1, 1)
    assert list(seen.columns) == list(WIDTHS)
    assert len({*seen.hashes[1], *other.hashes[1]}) == 2 * max(WIDTHS)
