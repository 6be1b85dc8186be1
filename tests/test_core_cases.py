"""Core cases on builds of other origin and age, each through --lib alone, against the C program."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from invariance_check import SEED, Seen, by_check, compiled

from ggmlprobe.ops.mul_mat_id import route

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux",
    reason="the packages are Linux x86-64",
)

WIDTHS = (1, 2, 3, 5, 9)
TYPES = ("f32", "f16", "q4_0", "q8_0", "q4_K", "iq4_xs")
M, K, EXPERTS, USED = 64, 512, 8, 2
HEADS = (64, 64, 4, 2, 512)
# ggml.h until late 2025, and until early in that year
PADDED, EARLY = "-DMASK_ROWS=64", "-DPREC_F32=1"
BUILDS = {
    "wheel": (), "hashed": (), "plugins": (), "static": ("-Wl,--unresolved-symbols=ignore-all",),
    "plugins-0.9": (PADDED,), "hashed-2025": (PADDED, EARLY), "plugins-2025": (PADDED, EARLY),
}  # fmt: skip

Cli = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Build:
    """A build, and the C program linked with it."""

    lib: Path
    program: Path

    def by_check(self, *arguments: object) -> Seen:
        """What the C program sees."""
        folder = self.lib if self.lib.is_dir() else None
        return by_check(self.program, *arguments, SEED, 2, widths=WIDTHS, lib=folder)


@pytest.fixture(scope="module", params=["packaged", *BUILDS])
def build(
    request: pytest.FixtureRequest, lib_path: str, foreign_libs: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Build:  # fmt: skip
    """One build after the other."""
    kind: str = request.param
    lib = Path(lib_path) if kind == "packaged" else foreign_libs[kind]
    return Build(lib, compiled(lib, tmp_path_factory.mktemp(kind), *BUILDS.get(kind, ())))


def by_probe(cli: Cli, build: Build, *arguments: object) -> list[dict[str, Any]]:
    """The rows of `ggmlprobe op`."""
    done = cli(
        "op", *arguments, "--widths", ",".join(map(str, WIDTHS)), "--threads", 2,
        "--seeds", SEED, "--device", "CPU", "-o", "json", "--lib", build.lib,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    for row in rows:
        assert row["verdict"] in (
            ("MISMATCH", "PRECISION") if row["columns_differing"] else ("INVARIANT",)
        )
    return rows


def of(rows: list[dict[str, Any]], parameter: str, value: str) -> Seen:
    """Some of the rows, as the C program tells them."""
    mine = [row for row in rows if row["params"][parameter] == value]
    return Seen(
        {row["width"]: row["columns_differing"] for row in mine},
        {row["width"]: row["seeds"][0]["hashes"] for row in mine},
    )


def test_mul_mat(cli: Cli, build: Build) -> None:
    rows = by_probe(cli, build, "mul_mat", "--type", ",".join(TYPES), "--m", M, "--k", K)
    for type_a in TYPES:
        assert of(rows, "type_a", type_a) == build.by_check("mul_mat", type_a, M, K), type_a


def test_mul_mat_id(cli: Cli, build: Build) -> None:
    rows = by_probe(
        cli, build, "mul_mat_id", "--type", "q4_K,f16", "--m", M, "--k", K,
        "--experts", EXPERTS, "--used", USED, "--routing", "random",
    )  # fmt: skip
    experts = route("random", SEED, max(WIDTHS), EXPERTS, USED)
    ids = ",".join(map(str, experts.ravel().tolist()))
    for type_a in ("q4_K", "f16"):
        expected = build.by_check("mul_mat_id", type_a, M, K, EXPERTS, USED, ids)
        assert of(rows, "type_a", type_a) == expected, type_a


def test_attention(cli: Cli, build: Build) -> None:
    hs, _, heads, kv_heads, cells = HEADS
    shape = ("--hs", hs, "--heads", heads, "--kv-heads", kv_heads, "--kv", cells)
    rows = by_probe(cli, build, "flash_attn", *shape, "--type-k", "f16,q8_0")
    for type_k in ("f16", "q8_0"):
        expected = build.by_check("flash_attn", *HEADS, type_k, type_k)
        assert of(rows, "type_K", type_k) == expected, type_k
    rows = by_probe(cli, build, "attn_nofa", *shape)
    assert of(rows, "type_K", "f16") == build.by_check("attn_nofa", *HEADS, "f16", "f16")


def test_bisect(cli: Cli, build: Build) -> None:
    expected = build.by_check("mul_mat", "f16", M, K).columns
    first = next((width for width in WIDTHS if expected[width]), None)
    done = cli(
        "bisect", "mul_mat", "--type", "f16", "--m", M, "--k", K, "--axis", "width", "--from", 1,
        "--to", max(WIDTHS), "--threads", 2, "--seeds", SEED, "--exhaustive", "-o", "json",
        "--lib", build.lib,
    )  # fmt: skip
    assert done.returncode == (1 if first else 0), done.stderr
    (bisection,) = json.loads(done.stdout)["bisections"]
    found = bisection["first_differing"]
    # the C program was not asked for every width
    assert (found is None) is (first is None)
    if first is not None:
        assert max(width for width in WIDTHS if width < first) < found <= first


def test_devices(cli: Cli, build: Build) -> None:
    done = cli("devices", "--lib", build.lib)
    assert done.returncode == 0, done.stderr
    (types,) = (line.split()[1:] for line in done.stdout.splitlines() if line.startswith("types:"))
    assert set(TYPES) <= set(types)
    # ops' names lie behind the types' in builds of 2025
    assert all(name == name.lower().replace("_k", "_K") for name in types)
    (cpu,) = (line for line in done.stdout.splitlines() if line.startswith("CPU: "))
    assert cpu.count("libggml-cpu") <= 1
    assert " of 0.0 GiB" not in cpu


def test_selftest(cli: Cli, build: Build) -> None:
    done = cli("selftest", "--lib", build.lib)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of " in done.stdout
