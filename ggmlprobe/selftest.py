"""The tool proves itself: faults planted at the read-back, each of which must be caught.

The op is a float32 product with k = 1: one multiplication per element, so every order of summation
gives the same bits, and a library without a fault passes on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.record import Config, Result
from ggmlprobe.runner import Case, Runner
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.supervisor import Worker

WIDTHS = (1, 2, 3, 5)
SEEDS = (1, 2)
HANG_TIMEOUT = 2.0


@dataclass(frozen=True)
class Expected:
    """What a planted fault must lead to.

    Attributes:
        fault: name in faults.FAULTS, None for an exact path.
        says: what the user reads.
        at: verdict by width.
        last_column_only: at each width only the last column may differ.
    """

    fault: str | None
    says: str
    at: dict[int, Verdict]
    last_column_only: bool = False


def blocks(verdict: Verdict) -> dict[int, Verdict]:
    """A verdict at every width above 1, width 1 clean."""
    return {w: verdict if w > 1 else Verdict.INVARIANT for w in WIDTHS}


def only(width: int, verdict: Verdict) -> dict[int, Verdict]:
    """A verdict at one width, all others clean."""
    return {w: verdict if w == width else Verdict.INVARIANT for w in WIDTHS}


EXPECTED = (
    Expected(None, "exact path passes", blocks(Verdict.INVARIANT)),
    Expected("ulp-last-column", "1 ULP in the last column", blocks(Verdict.MISMATCH), True),
    Expected("sign-bit", "a flipped sign bit", blocks(Verdict.WRONG)),
    Expected("unwritten", "an element left unwritten", blocks(Verdict.NAN)),
    Expected("nan", "a NaN", blocks(Verdict.NAN)),
    Expected("bf16", "blocks at lower precision", blocks(Verdict.PRECISION)),
    Expected("wrong", "blocks a tenth too large", blocks(Verdict.WRONG)),
    Expected(
        "unrepeatable-serial", "a serial run that does not repeat",
        dict.fromkeys(WIDTHS, Verdict.NONDETERMINISTIC),
    ),
    Expected(
        "unrepeatable-width", "a block that does not repeat", blocks(Verdict.NONDETERMINISTIC)
    ),
    Expected("abort", "a child that aborts", only(3, Verdict.CRASH)),
    Expected("kill", "a child that is killed", only(3, Verdict.CRASH)),
    Expected("oom", "an allocation that fails", only(3, Verdict.OOM)),
    Expected("hang", "a child that hangs", only(3, Verdict.TIMEOUT)),
)  # fmt: skip


def run(worker: Worker, config: Config) -> Iterator[tuple[Expected, bool]]:
    """Plant each fault; whether it led to exactly what it must."""
    case = Case("mul_mat", MulMat(type_a="f32", m=64, k=1), WIDTHS)
    patience = worker.timeout
    for expected in EXPECTED:
        worker.timeout = HANG_TIMEOUT if expected.fault == "hang" else patience
        runner = Runner({config.id: worker}, SEEDS, fault=expected.fault)
        rows = [row for row in runner.run([config], [case]) if isinstance(row, Result)]
        yield expected, caught(expected, rows)


def caught(expected: Expected, rows: list[Result]) -> bool:
    """Whether the rows are exactly those the fault must lead to."""
    verdicts = {row.width: row.verdict for row in rows}
    if verdicts != expected.at:
        return False
    if expected.last_column_only:
        wide = [row for row in rows if row.width > 1]
        return all(r.columns_differing == [r.width - 1] and r.max_ulp == 1 for r in wide)
    return True
