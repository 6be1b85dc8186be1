"""The verdict on one case at one width."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

# Below this an NMSE is rounding noise of float32 sums, whatever their order. A sum of k terms taken
# one after another has NMSE of about k * 2^-48 / 6: 1e-11 at k = 17408, under 1e-10 up to 160,000.
# Rounding an operand to 11 bits (f16, TF32) costs about 2^-22 / 6 = 4e-8, to 8 bits (bf16) more.
PRECISION_FLOOR = 1e-10
PRECISION_RATIO = 10.0

# The NMSE of a few elements says little: with one, a sum near zero makes any error large.
WRONG_ELEMENTS = 64


class Verdict(StrEnum):
    """Outcomes in their precedence, highest first."""

    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"
    UNSUPPORTED = "UNSUPPORTED"
    NAN = "NAN"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    WRONG = "WRONG"
    PRECISION = "PRECISION"
    MISMATCH = "MISMATCH"
    INVARIANT = "INVARIANT"


_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}

FINDINGS = frozenset(Verdict) - {Verdict.INVARIANT, Verdict.UNSUPPORTED}
"""Verdicts that make the exit status 1."""


@dataclass(frozen=True)
class Evidence:
    """What was seen when a case ran to its end at one width.

    Attributes:
        nan: NaN elements in either path's output.
        unwritten: elements that still hold the fill pattern.
        repeats: the serial reference and the width both gave the same bits when run again.
        differs: the two paths differ in at least one bit.
        nmse_serial: NMSE of the serial path against float64.
        nmse_width: NMSE of the width's path against float64.
        bound: upstream's own NMSE bound for the op; infinite where upstream sets none.
        elements: compared elements, behind both NMSE.
    """

    nan: int
    unwritten: int
    repeats: bool
    differs: bool
    nmse_serial: float
    nmse_width: float
    bound: float
    elements: int

    @property
    def wrong(self) -> bool:
        """Whether a path is off by more than upstream allows, or by no number at all."""
        worse = max(self.nmse_serial, self.nmse_width)
        if math.isnan(self.nmse_serial) or math.isnan(self.nmse_width):
            return True
        return self.elements >= WRONG_ELEMENTS and worse > self.bound


def judge(evidence: Evidence) -> Verdict:
    """The verdict of highest precedence that the evidence supports.

    An NMSE that is itself NaN (an infinite output or reference) is above any bound.
    """
    if evidence.nan > 0 or evidence.unwritten > 0:
        return Verdict.NAN
    if not evidence.repeats:
        return Verdict.NONDETERMINISTIC
    if evidence.wrong:
        return Verdict.WRONG
    if not evidence.differs:
        return Verdict.INVARIANT
    if _precision_differs(evidence.nmse_serial, evidence.nmse_width):
        return Verdict.PRECISION
    return Verdict.MISMATCH


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of highest precedence.

    Raises:
        ValueError: there is none; zero cases are not a pass.
    """
    return min(verdicts, key=_RANK.__getitem__)


def _precision_differs(a: float, b: float) -> bool:
    """Whether the NMSE of two paths are 10 times apart, the larger one above rounding noise."""
    low, high = sorted((a, b))
    return high >= PRECISION_FLOOR and high >= PRECISION_RATIO * low
