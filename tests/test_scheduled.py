"""Ops through a scheduler: BLAS+CPU, Vulkan0+CPU on lavapipe, against plain C and plain devices.

The bounds are upstream's code, not the machine's: BLAS takes products from 32 on in every dimension
(min_batch in ggml-blas.cpp), Vulkan takes weights in host memory from 32 columns on
(GGML_OP_OFFLOAD_MIN_BATCH).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggmlprobe import compare, inputs, selftest
from ggmlprobe.configs import configs_of
from ggmlprobe.errors import UnknownDevice
from ggmlprobe.ops import OPS
from ggmlprobe.record import CaseClasses, Config, Result
from ggmlprobe.runner import Case, Runner
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

C = Path(__file__).parent / "c"
M, K, SEED, SEEDS = 64, 96, 7, (7, 8)
WIDTHS = (1, 2, 31, 32, 33)
SMALL: dict[str, dict[str, Any]] = {
    "mul_mat": {"type_a": "f32", "m": M, "k": K},
    "mul_mat_id": {"type_a": "f32", "m": M, "k": K, "n_mats": 4, "n_used": 2},
    "flash_attn": {"hsk": 64, "hsv": 64, "nh": 2, "nr2": 2, "cells": 64},
    "attn_nofa": {"hsk": 64, "hsv": 64, "nh": 2, "nr2": 2, "cells": 64},
}


class Machine:
    """A library in a child, and what a case gives on a device of it."""

    def __init__(self, spec: Spec) -> None:
        self.worker = Worker(spec, 300.0)
        self.ready = self.worker.ready()

    def config(
        self, device: str, buft: str | None = None, threads: tuple[int, int] = (1, 1)
    ) -> Config:
        return configs_of(self.ready, device, (buft,), (threads[0],), (threads[1],), {})[0]

    def run(
        self, config: Config, name: str = "mul_mat", widths: Sequence[int] = WIDTHS,
        fault: str | None = None, passes: tuple[str, ...] = (), **changes: Any,
    ) -> dict[int, Result]:  # fmt: skip
        """Rows by width."""
        case = Case(name, OPS[name](**(SMALL[name] | changes)), tuple(widths))
        runner = Runner({config.id: self.worker}, SEEDS, fault=fault, passes=passes)
        made = list(runner.run([config], [case]))
        assert all(isinstance(row, (Result, CaseClasses)) for row in made)
        return {row.width: row for row in made if isinstance(row, Result)}


def hashes(row: Result) -> list[list[str]]:
    return [seed.hashes for seed in row.seeds]


def backends(rows: dict[int, Result]) -> dict[int, list[str]]:
    return {width: row.backends for width, row in rows.items()}


@pytest.fixture(scope="module")
def blas(blas_lib: Path) -> Iterator[Machine]:
    """The packaged library with OpenBLAS."""
    machine = Machine(Spec(str(blas_lib)))
    yield machine
    machine.worker.stop()


@pytest.fixture(scope="module")
def vulkan(foreign_libs: dict[str, Path], vulkan_env: dict[str, str]) -> Iterator[Machine]:
    """Npm's Vulkan build on lavapipe."""
    machine = Machine(Spec(str(foreign_libs["vulkan"]), dict(vulkan_env)))
    yield machine
    machine.worker.stop()


def in_c(
    lib: Path, folder: Path, devices: str, width: int, env: dict[str, str] | None = None
) -> tuple[str, list[str]]:
    """The backend and the hashes of a float32 product in tests/c/sched_check.c."""
    program, file = folder / "sched_check", folder / "product"
    if not program.exists():
        flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", str(C / "sched_check.c")]
        link = [next(lib.glob(name)) for name in ("libggml.*so", "libggml-base.so")]
        command = ["cc", *flags, "-o", str(program), *map(str, link), f"-Wl,-rpath,{lib}"]
        subprocess.run(command, check=True)
    weights = inputs.normal(SEED, "weights", M * K)
    columns = inputs.normal(SEED, "activations", max(WIDTHS) * K)[: width * K]
    file.write_bytes(weights.tobytes() + columns.tobytes())
    numbers = [str(number) for number in (M, K, width, 1)]
    arguments = [str(lib), str(file), "f32", *numbers, *devices.split("+")]
    run = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False,
        env=os.environ | (env or {}),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    out = np.fromfile(f"{file}.out", np.float32).reshape(width, M)
    return run.stdout.splitlines()[-1], [compare.hash_token(row) for row in out]


def test_blas_takes_products_from_32_columns_on(blas: Machine) -> None:
    rows = blas.run(blas.config("BLAS+CPU", "CPU"))
    assert backends(rows) == {w: ["BLAS"] if w >= 32 else ["CPU"] for w in WIDTHS}
    assert {row.weights_buft for row in rows.values()} == {"CPU"}
    plain = blas.run(blas.config("CPU", "CPU"))
    for width in (1, 2, 31):
        assert hashes(rows[width]) == hashes(plain[width])
    # a device alone chose nothing
    assert [(r.backends, r.weights_buft, r.openblas_threads) for r in plain.values()] == [
        ([], None, None)
    ] * len(WIDTHS)


def test_blas_multiplies_what_the_cpu_quantizes(blas: Machine) -> None:
    rows = blas.run(blas.config("BLAS+CPU", "CPU"), type_a="q8_0")
    assert backends(rows) == {w: ["BLAS"] if w >= 32 else ["CPU"] for w in WIDTHS}
    # the CPU rounds activations to 8 bits, BLAS takes them as they are
    assert {rows[width].verdict for width in (32, 33)} == {"PRECISION"}
    assert rows[32].nmse_serial is not None
    assert rows[32].nmse_width is not None
    assert rows[32].nmse_width < 1e-10 < rows[32].nmse_serial


@pytest.mark.parametrize("width", [31, 32])
def test_blas_against_c(blas: Machine, blas_lib: Path, tmp_path: Path, width: int) -> None:
    row = blas.run(blas.config("BLAS+CPU", "CPU"))[width]
    backend, tokens = in_c(blas_lib, tmp_path, "BLAS+CPU", width)
    assert row.backends == [backend]
    assert row.seeds[0].hashes == tokens


@pytest.mark.parametrize(
    "changes",
    # of upstream's conditions: m, k, contiguous sources, activations in f32
    [{"m": 31}, {"k": 31}, {"per": (0, 2, 1, 3), "bs": (2, 1)}, {"type_a": "f16", "type_b": "f16"}],
)
def test_what_blas_does_not_take(blas: Machine, changes: dict[str, Any]) -> None:
    rows = blas.run(blas.config("BLAS+CPU", "CPU"), widths=(1, 32), **changes)
    assert backends(rows) == {1: ["CPU"], 32: ["CPU"]}


@pytest.mark.parametrize("name", SMALL)
def test_every_op_gives_the_bits_of_its_backend(blas: Machine, name: str) -> None:
    widths = (1, 3, 40)
    rows = blas.run(blas.config("BLAS+CPU", "CPU"), name, widths)
    plain = blas.run(blas.config("CPU", "CPU"), name, widths)
    for width in (1, 3):
        assert hashes(rows[width]) == hashes(plain[width])
        assert rows[width].backends == ["CPU"]
    wide = {"mul_mat": ["BLAS"], "attn_nofa": ["CPU", "BLAS"]}.get(name, ["CPU"])
    assert rows[40].backends == wide
    if wide == ["CPU"]:
        assert hashes(rows[40]) == hashes(plain[40])
    assert {row.verdict for row in rows.values()} <= {"INVARIANT", "MISMATCH", "PRECISION"}


@pytest.mark.parametrize("type_a", ["f32", "q4_0"])
def test_weights_go_where_llama_cpp_puts_them(blas: Machine, type_a: str) -> None:
    k, width = 256, (32,)
    cpu = blas.config("CPU")
    wanted = "CPU"
    bufts = [d["bufts"] for d in blas.ready["devices"] if d["name"] == "CPU"]
    if "CPU_REPACK" in bufts[0]:
        repacked = blas.run(blas.config("CPU", "CPU_REPACK"), widths=width, type_a=type_a, k=k)
        wanted = "CPU" if repacked[32].verdict == "UNSUPPORTED" else "CPU_REPACK"
    row = blas.run(blas.config("BLAS+CPU"), widths=width, type_a=type_a, k=k)[32]
    assert row.weights_buft == wanted
    # BLAS reads no repacked weights
    assert row.backends == (["BLAS"] if wanted == "CPU" else ["CPU"])
    assert (type_a, wanted) != ("f32", "CPU_REPACK")
    if wanted == "CPU_REPACK":
        assert hashes(row) == hashes(repacked[32])
    elif type_a == "q4_0":
        assert hashes(row) != hashes(blas.run(cpu, widths=width, type_a=type_a, k=k)[32])


def test_openblas_tells_the_threads_it_was_given(blas: Machine) -> None:
    rows = blas.run(blas.config("BLAS+CPU", "CPU", (1, 3)), widths=(1, 31, 32))
    assert [rows[w].openblas_threads for w in (1, 31, 32)] == [None, None, 3]
    features = blas.config("BLAS+CPU").device.features
    assert "OpenBLAS" in features["OPENBLAS_CONFIG"]
    assert features["OPENBLAS_CORENAME"]
    assert blas.config("CPU").device.features.items() <= features.items()


def test_kernels_are_those_of_the_backend_that_ran(blas: Machine) -> None:
    rows = blas.run(
        blas.config("BLAS+CPU", "CPU"), widths=(31, 32), passes=("kernels",), m=256, k=256
    )
    names = {width: " ".join(k.name for k in row.kernels) for width, row in rows.items()}
    # not llamafile_sgemm, which is the CPU's
    found = {width: bool(re.search(r"\bsgemm_", text)) for width, text in names.items()}
    assert found == {31: False, 32: True}, (names, rows[32].kernels_note)


def test_time_of_both_backends(blas: Machine) -> None:
    rows = blas.run(blas.config("BLAS+CPU", "CPU"), widths=(31, 32), passes=("time",))
    assert all(row.time and row.time.median_seconds > 0 for row in rows.values())


def test_faults_are_caught_through_a_scheduler(blas: Machine) -> None:
    config = blas.config("BLAS+CPU", "CPU")
    found = {expected.fault: caught for expected, caught in selftest.run(blas.worker, config)}
    assert set(found.values()) == {True}, found


def planted(blas_lib: Path, folder: Path, kind: str) -> dict[int, Result]:
    """Rows of a product whose BLAS is tests/c/planted_blas.c."""
    library = folder / "planted_blas.so"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command = ["cc", *flags, "-shared", "-fPIC", str(C / "planted_blas.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    machine = Machine(Spec(str(blas_lib), {"PLANTED_BLAS": kind}, interpose=[str(library)]))
    try:
        return machine.run(machine.config("BLAS+CPU", "CPU"), widths=(1, 31, 32))
    finally:
        machine.worker.stop()


def test_a_plain_sum_as_the_blas(blas: Machine, blas_lib: Path, tmp_path: Path) -> None:
    rows = planted(blas_lib, tmp_path, "none")
    weights = inputs.normal(SEED, "weights", M * K).reshape(M, K)
    columns = inputs.normal(SEED, "activations", 32 * K).reshape(32, K)
    sums = np.zeros((32, M), np.float32)
    for at in range(K):
        sums += columns[:, at : at + 1] * weights[:, at]
    assert rows[32].seeds[0].hashes == [compare.hash_token(row) for row in sums]
    assert hashes(rows[31]) == hashes(blas.run(blas.config("CPU", "CPU"))[31])


def test_what_the_blas_leaves_unwritten_shows(blas_lib: Path, tmp_path: Path) -> None:
    rows = planted(blas_lib, tmp_path, "unwritten")
    assert rows[32].verdict == "NAN"
    assert rows[32].unwritten == 32 * len(SEEDS)
    assert [rows[width].unwritten for width in (1, 31)] == [0, 0]


@pytest.mark.parametrize(("minimum", "bound"), [(None, 32), ("16", 16)])
def test_vulkan_takes_weights_in_host_memory_from_a_width_on(
    foreign_libs: dict[str, Path], vulkan_env: dict[str, str], tmp_path: Path,
    minimum: str | None, bound: int,
) -> None:  # fmt: skip
    env = vulkan_env | ({"GGML_OP_OFFLOAD_MIN_BATCH": minimum} if minimum else {})
    machine = Machine(Spec(str(foreign_libs["vulkan"]), dict(env)))
    widths = (1, bound - 1, bound)
    try:
        rows = machine.run(machine.config("Vulkan0+CPU"), widths=widths)
        plain = machine.run(machine.config("CPU"), widths=widths)
        alone = machine.run(machine.config("Vulkan0"), widths=widths)
    finally:
        machine.worker.stop()
    assert backends(rows) == {1: ["CPU"], bound - 1: ["CPU"], bound: ["Vulkan0"]}
    assert {row.weights_buft for row in rows.values()} == {"Vulkan_Host"}
    for width in widths:
        assert hashes(rows[width]) == hashes((alone if width == bound else plain)[width])
    backend, tokens = in_c(foreign_libs["vulkan"], tmp_path, "Vulkan0+CPU", bound, env)
    assert (rows[bound].backends, rows[bound].seeds[0].hashes) == ([backend], tokens)


def test_experts_are_offloaded(vulkan: Machine) -> None:
    rows = vulkan.run(vulkan.config("Vulkan0+CPU"), "mul_mat_id", (1, 31, 32))
    assert backends(rows) == {1: ["CPU"], 31: ["CPU"], 32: ["Vulkan0"]}
    assert "WRONG" not in {row.verdict for row in rows.values()}


@pytest.mark.parametrize("kind", ["plugins-0.9", "static", "hashed-2025"])
def test_builds_old_and_new(foreign_libs: dict[str, Path], kind: str) -> None:
    machine = Machine(Spec(str(foreign_libs[kind])))
    plain = machine.config("CPU", "CPU")
    # the command line refuses it, but these builds have no second device
    twice = replace(plain, device=replace(plain.device, name="CPU+CPU"))
    product = {"widths": (1, 3), "type_a": "q8_0", "m": 8, "k": 64}
    try:
        # ggml_backend_sched_new has had op_offload since May 2025; this pywhispercpp is of January
        if kind == "hashed-2025":
            with pytest.raises(UnknownDevice, match=r"from ggml 0\.9 on, or one device"):
                machine.run(twice, **product)
            return
        scheduled = machine.run(twice, **product)
        assert [row.backends for row in scheduled.values()] == [["CPU"], ["CPU"]]
        alone = machine.run(plain, **product)
        assert [row.seeds for row in scheduled.values()] == [row.seeds for row in alone.values()]
    finally:
        machine.worker.stop()
