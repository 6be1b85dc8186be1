"""Attribution on a real libggml: its own kernels, and planted functions named exactly.

No name here depends on the CPU: types are in the names of their kernels on every one.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.configs import configs_of
from ggmlprobe.dispatch.classes import FRAME
from ggmlprobe.ggml.find import part_of
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.record import CaseClasses, Config, Result
from ggmlprobe.runner import Case, Runner
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

from .conftest import ROOT, compiled

pytestmark = pytest.mark.usefixtures("sampler_built")

PRODUCT = MulMat(type_a="f32", m=512, k=1024)
KERNEL, TWIN = "planted_kernel", "planted_twin"


@dataclass
class Seen:
    """Rows by width, and the classes of the one case."""

    rows: dict[int, Result]
    classes: CaseClasses

    def main(self, width: int) -> set[str]:
        """Kernels with a good part of the samples, without the frame around every op."""
        kernels = self.rows[width].kernels
        return {k.name for k in kernels if (k.share or 0) > 0.1 and not FRAME.match(k.name)}

    def names(self, width: int) -> set[str]:
        return {kernel.name for kernel in self.rows[width].kernels}


@contextmanager
def started(spec: Spec, threads: int = 1) -> Iterator[tuple[Worker, Config]]:
    worker = Worker(spec, 60.0)
    try:
        yield worker, configs_of(worker.ready(), "CPU", (None,), (threads,), None, {})[0]
    finally:
        worker.stop()


def run(worker: Worker, config: Config, op: MulMat, widths: Sequence[int], **given: Any) -> Seen:
    runner = Runner({config.id: worker}, (1,), **{"passes": ("kernels",)} | given)
    made = list(runner.run([config], [Case("mul_mat", op, tuple(widths))]))
    (classes,) = (row for row in made if isinstance(row, CaseClasses))
    return Seen({row.width: row for row in made if isinstance(row, Result)}, classes)


@pytest.fixture(scope="module")
def stock(lib_path: str) -> Iterator[tuple[Worker, Config]]:
    with started(Spec(lib_path)) as both:
        yield both


@pytest.fixture(scope="module")
def plant(
    lib_path: str, planted: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Sequence[int]], Seen]:
    """Run the product with functions planted; `planted` skips where that cannot be."""
    source = ROOT / "tests" / "c" / "planted_kernels.c"
    library = compiled(source, tmp_path_factory.mktemp("kernels") / "planted_kernels.so")

    def planted_run(kind: str, widths: Sequence[int]) -> Seen:
        spec = Spec(lib_path, {"PLANTED_KERNELS": kind}, None, [str(library)])
        with started(spec) as (worker, config):
            return run(worker, config, PRODUCT, widths)

    return planted_run


def test_kernel_of_a_quantized_type(stock: tuple[Worker, Config]) -> None:
    row = run(*stock, MulMat(type_a="q4_K", m=512, k=1024), (1,)).rows[1]
    top = row.kernels[0]
    assert "q4_K" in top.name
    assert top.share is not None
    assert top.share > 0.5
    assert sum(kernel.samples or 0 for kernel in row.kernels) >= 100
    assert row.kernels_note is None
    shares = [kernel.share or 0 for kernel in row.kernels]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)


def test_kernels_of_f32(stock: tuple[Worker, Config]) -> None:
    seen = run(*stock, PRODUCT, (1, 4))
    for width in (1, 4):
        assert any(part in seen.rows[width].kernels[0].name for part in ("tinyBLAS", "vec_dot"))
    assert not any(kernel.name.startswith("_Z") for kernel in seen.rows[4].kernels)


def test_samples_outside_the_library_are_dropped_and_counted(stock: tuple[Worker, Config]) -> None:
    row = run(*stock, PRODUCT, (1,)).rows[1]
    assert row.samples_dropped
    assert any("libc" in name or "ld-" in name for name in row.samples_dropped)
    assert not any("libggml" in name and "sampler" not in name for name in row.samples_dropped)


def test_workers_of_openmp_are_sampled(lib_path: str) -> None:
    with started(Spec(lib_path), threads=2) as (worker, config):
        if config.device.features.get("OPENMP") != "1":
            pytest.skip("threads of this libggml live no longer than a compute")
        row = run(worker, config, MulMat(type_a="q4_K", m=4096, k=4096), (7,)).rows[7]
    # else it says `1 of 2 threads seen in the library`; on a busy machine there can be few samples
    assert "threads" not in (row.kernels_note or "")
    assert "q4_K" in " ".join(kernel.name for kernel in row.kernels[:3])


def test_verdicts_and_bits_are_those_of_a_run_without_the_pass(
    stock: tuple[Worker, Config],
) -> None:
    with_, without = (run(*stock, PRODUCT, (1, 2, 5), passes=p) for p in (("kernels",), ()))
    for width, row in without.rows.items():
        assert not row.kernels
        assert (row.verdict, row.seeds) == (with_.rows[width].verdict, with_.rows[width].seeds)
    assert without.classes.dispatch == []
    assert without.classes.groups == with_.classes.groups


@pytest.mark.parametrize(
    ("kind", "here"),
    [
        ("only:3:99:1", {3, 4, 5, 8}),
        ("only:5:5:1", {5}),
        ("only:2:8:2", {2, 4, 8}),
    ],
)
def test_planted_function_is_named_at_exactly_its_widths(
    plant: Callable[..., Seen], kind: str, here: set[int]
) -> None:
    widths = (1, 2, 3, 4, 5, 8)
    seen = plant(kind, widths)
    assert {w for w in widths if seen.main(w) == {KERNEL}} == here
    assert {w for w in widths if KERNEL in seen.names(w)} == here
    rest = [w for w in widths if w not in here]
    assert seen.classes.groups == seen.classes.dispatch == [rest, sorted(here)]


@pytest.mark.parametrize("boundary", [9, 12, 17, 31])
def test_planted_boundary_far_out(plant: Callable[..., Seen], boundary: int) -> None:
    widths = (1, boundary - 1, boundary, boundary + 1)
    seen = plant(f"only:{boundary}:999:1", widths)
    assert [seen.main(w) == {KERNEL} for w in widths] == [False, False, True, True]
    assert seen.classes.dispatch == [list(widths[:2]), list(widths[2:])]


def test_same_kernel_with_other_bits(plant: Callable[..., Seen]) -> None:
    seen = plant("reverse:3:99:1", (1, 2, 3, 4))
    assert seen.classes.groups == [[1, 2], [3, 4]]
    assert seen.classes.dispatch == [[1, 2, 3, 4]]
    assert all(seen.main(w) == {KERNEL} for w in seen.rows)


def test_other_kernel_with_the_same_bits(plant: Callable[..., Seen]) -> None:
    seen = plant("twin:3:99:1", (1, 2, 3, 4))
    assert seen.classes.groups == [[1, 2, 3, 4]]
    assert seen.classes.dispatch == [[1, 2], [3, 4]]
    assert [seen.main(w) for w in seen.rows] == [{KERNEL}, {KERNEL}, {TWIN}, {TWIN}]


def test_death_in_the_pass_keeps_the_verdict(lib_path: str, tmp_path: Path) -> None:
    """A sampler that ends the process: rows stand, without kernels and with the signal."""
    source = tmp_path / "deadly.c"
    names = {"open": "0", "cost": "0", "disarm": "0", "take": "0", "close": "0"}
    body = "".join(
        f"long ggmlprobe_sampler_{n}(void) {{ return {r}; }}\n" for n, r in names.items()
    )
    source.write_text(
        f"#include <stdlib.h>\n{body}long ggmlprobe_sampler_arm(void) {{ abort(); }}\n"
    )
    compiled(source, tmp_path / "libggmlprobe_sampler.so")
    spec = Spec(lib_path, {"GGMLPROBE_NATIVE_DIR": str(tmp_path)})
    with started(spec) as (worker, config):
        row = run(worker, config, MulMat(type_a="f32", m=16, k=1), (1,)).rows[1]
    assert (row.verdict, row.kernels) == ("INVARIANT", [])
    assert row.kernels_note == "SIGABRT"


def test_stripped_library_is_one_line_and_exit_2(
    cli: Callable[..., subprocess.CompletedProcess[str]], lib_path: str, tmp_path: Path
) -> None:
    folder = tmp_path / "stripped"
    folder.mkdir()
    for each in Path(lib_path).iterdir():
        if part_of(each.name) is not None:
            shutil.copy(each.resolve(), folder / each.name)
            subprocess.run(["strip", str(folder / each.name)], check=True)
    done = cli(
        "op", "mul_mat", "--type", "f32", "--m", 16, "--k", 32, "--widths", 1, "--kernels",
        "--lib", folder,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "is stripped" in done.stderr
