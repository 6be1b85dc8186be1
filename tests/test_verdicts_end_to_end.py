"""Every verdict, from a real libggml in a child process to the row of a record.

Faults come from an interposing library (tests/c/planted_sgemm.c), whose products are plain sums in
C, so that no expectation here depends on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.configs import configs_of
from ggmlprobe.ops.base import Op
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.record import CaseClasses, Config, Result
from ggmlprobe.runner import Case, Runner
from ggmlprobe.verdict import FINDINGS, Verdict
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

WIDTHS = (1, 2, 4, 5, 6, 9)
SEEDS = (1, 2)
PRODUCT = MulMat(type_a="f32", m=16, k=256)
TIMEOUT = 60.0


@dataclass
class Seen:
    """Rows by width, and the classes of the one case that ran."""

    rows: dict[int, Result]
    classes: CaseClasses | None

    @property
    def verdicts(self) -> dict[int, str]:
        return {width: row.verdict for width, row in self.rows.items()}


@contextmanager
def started(spec: Spec, timeout: float = TIMEOUT) -> Iterator[tuple[Worker, Config]]:
    worker = Worker(spec, timeout)
    try:
        yield worker, configs_of(worker.ready(), "CPU", (None,), (1,), None, {})[0]
    finally:
        worker.stop()


def run(
    worker: Worker, config: Config, op: Op = PRODUCT, op_name: str = "mul_mat",
    widths: Sequence[int] = WIDTHS, seeds: Sequence[int] = SEEDS, fault: str | None = None,
) -> Seen:  # fmt: skip
    runner = Runner({config.id: worker}, seeds, fault=fault)
    made = list(runner.run([config], [Case(op_name, op, tuple(widths))]))
    rows = [row for row in made if isinstance(row, Result)]
    classes = [row for row in made if isinstance(row, CaseClasses)]
    assert sorted(row.width for row in rows) == sorted(widths), "each width has one row"
    assert len(classes) <= 1
    return Seen({row.width: row for row in rows}, classes[0] if classes else None)


Plant = Callable[..., Seen]


@pytest.fixture
def plant(lib_path: str, planted: Path) -> Plant:
    """Run the product with a fault planted in the library."""

    def planted_run(kind: str, timeout: float = TIMEOUT, **given: Any) -> Seen:
        spec = Spec(lib_path, {"PLANTED": kind}, None, [str(planted)])
        with started(spec, timeout) as (worker, config):
            return run(worker, config, **given)

    return planted_run


@pytest.fixture(scope="module")
def stock(lib_path: str) -> Iterator[tuple[Worker, Config]]:
    """The library as it is, in one child for all tests that do not kill it."""
    with started(Spec(lib_path)) as both:
        yield both


def only(width: int, verdict: str) -> dict[int, str]:
    return {w: verdict if w == width else "INVARIANT" for w in WIDTHS}


def test_interposer_moves_the_boundary_to_where_it_was_planted(plant: Plant) -> None:
    widths = range(1, 10)
    for boundary in (2, 4, 7):
        seen = plant(f"boundary:{boundary}:999", widths=widths)
        differs = {w: list(range(w)) if w >= boundary else [] for w in widths}
        assert {w: row.columns_differing for w, row in seen.rows.items()} == differs
        assert seen.verdicts == {w: "MISMATCH" if d else "INVARIANT" for w, d in differs.items()}
        assert seen.classes is not None
        assert seen.classes.groups == [list(range(1, boundary)), list(range(boundary, 10))]
        assert seen.classes.transitive


def test_interposer_that_refuses_leaves_one_class(plant: Plant) -> None:
    seen = plant("refuse:0:0")
    assert set(seen.verdicts.values()) == {"INVARIANT"}
    assert seen.classes is not None
    assert seen.classes.groups == [list(WIDTHS)]


def test_groups_of_four_columns_are_not_transitive(plant: Plant) -> None:
    widths = range(1, 10)
    seen = plant("fours:1:99", widths=widths)
    for width, row in seen.rows.items():
        assert row.columns_differing == list(range(width // 4 * 4))
        for seed in row.seeds:
            assert seed.columns_differing == row.columns_differing
    assert seen.classes is not None
    assert seen.classes.groups == [[1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert not seen.classes.transitive
    assert seen.classes.pairs == [[4, 8], [4, 9]]


@pytest.mark.parametrize(
    ("kind", "verdict", "signal", "says"),
    [
        ("abort", "CRASH", "SIGABRT", "GGML_ASSERT(n != FROM) failed"),
        ("segv", "CRASH", "SIGSEGV", ""),
        ("ill", "CRASH", "SIGILL", ""),
        ("killed", "CRASH", "SIGKILL", ""),
        ("memory", "OOM", "SIGABRT", "out of memory"),
    ],
)
def test_death_at_one_width_keeps_all_others(
    plant: Plant, kind: str, verdict: str, signal: str, says: str
) -> None:
    seen = plant(f"{kind}:5:5")
    assert seen.verdicts == only(5, verdict)
    assert seen.rows[5].signal == signal
    assert says in "\n".join(seen.rows[5].stderr_tail)
    assert all(len(row.seeds) == len(SEEDS) for w, row in seen.rows.items() if w != 5)
    assert seen.classes is not None
    assert seen.classes.groups == [[1, 2, 4, 6, 9]], "a width that did not run is in no class"


def test_an_illegal_instruction_from_a_width_on_leaves_the_narrower_ones(plant: Plant) -> None:
    """As the buffer type AMX of a library whose compiler dropped the tile configuration."""
    # 4, for the check of a library multiplies 3 columns
    seen = plant("ill:4:999", widths=range(1, 10))
    dead = dict.fromkeys(range(4, 10), "CRASH")
    assert seen.verdicts == dict.fromkeys((1, 2, 3), "INVARIANT") | dead
    assert {seen.rows[width].signal for width in dead} == {"SIGILL"}
    assert seen.classes is not None
    assert seen.classes.groups == [[1, 2, 3]]


def test_death_in_the_serial_runs_takes_every_width(plant: Plant) -> None:
    seen = plant("abort:1:1")
    assert seen.verdicts == dict.fromkeys(WIDTHS, "CRASH")
    assert {row.detail for row in seen.rows.values()} == {"while running width 1"}
    assert {row.signal for row in seen.rows.values()} == {"SIGABRT"}
    assert seen.classes is None


def test_hang_becomes_a_timeout(plant: Plant) -> None:
    seen = plant("hang:5:5", timeout=1.5)
    assert seen.verdicts == only(5, "TIMEOUT")
    assert seen.rows[5].signal is None


def test_nan(plant: Plant) -> None:
    row = plant("nan:5:5").rows[5]
    assert (row.verdict, row.nan, row.unwritten) == ("NAN", len(SEEDS), 0)
    assert row.columns_differing == [4]


def test_unwritten_column(plant: Plant) -> None:
    row = plant("unwritten:5:5").rows[5]
    assert (row.verdict, row.nan, row.unwritten) == ("NAN", 0, len(SEEDS) * PRODUCT.m)


def test_nondeterministic_block(plant: Plant) -> None:
    seen = plant("drift:5:5")
    assert seen.verdicts == only(5, "NONDETERMINISTIC")
    assert not any(seed.repeats for seed in seen.rows[5].seeds)


def test_nondeterministic_serial_runs(plant: Plant) -> None:
    seen = plant("drift:1:1")
    assert seen.verdicts == dict.fromkeys(WIDTHS, "NONDETERMINISTIC")


def test_wrong(plant: Plant) -> None:
    seen = plant("wrong:5:5")
    assert seen.verdicts == only(5, "WRONG")
    # a tenth too large in one column of five
    assert seen.rows[5].nmse_width == pytest.approx(0.01 / 5, rel=0.5)
    assert seen.rows[5].nmse_serial < 1e-10


def test_precision(plant: Plant) -> None:
    row = plant("bf16:5:5").rows[5]
    assert (row.verdict, row.columns_differing) == ("PRECISION", [4])
    assert row.nmse_serial * 10 < row.nmse_width < 5e-4
    assert row.max_err_scaled > 100


def test_exact_product_is_invariant(stock: tuple[Worker, Config]) -> None:
    # k = 1: one multiplication an element, whatever the kernel
    seen = run(*stock, MulMat(type_a="f32", m=16, k=1))
    assert set(seen.verdicts.values()) == {"INVARIANT"}


@pytest.mark.parametrize("fault", ["oom", "ulp-last-column"])
def test_fault_at_the_readback(stock: tuple[Worker, Config], fault: str) -> None:
    seen = run(*stock, MulMat(type_a="f32", m=16, k=1), widths=(1, 3, 4), fault=fault)
    expected = {
        "oom": {1: "INVARIANT", 3: "OOM", 4: "INVARIANT"},
        "ulp-last-column": {1: "INVARIANT", 3: "MISMATCH", 4: "MISMATCH"},
    }
    assert seen.verdicts == expected[fault]


def test_case_larger_than_memory_is_refused_before_it_is_made(
    stock: tuple[Worker, Config],
) -> None:
    seen = run(*stock, FlashAttn(cells=10**11), "flash_attn", widths=(1, 2))
    assert seen.verdicts == {1: "OOM", 2: "OOM"}
    assert "GiB free: use a smaller case" in str(seen.rows[1].detail)
    assert seen.rows[1].signal is None


def test_type_that_cannot_be_quantized(stock: tuple[Worker, Config]) -> None:
    seen = run(*stock, MulMat(type_a="q8_1", m=16, k=256), widths=(1, 2))
    assert seen.verdicts == {1: "UNSUPPORTED", 2: "UNSUPPORTED"}
    assert "q8_1" in str(seen.rows[2].detail)


def test_every_finding_has_a_test_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{verdict}"' in text for verdict in Verdict)
    assert len(FINDINGS) == len(Verdict) - 2
