"""Statistics of many cells: pairs of paths, severity, margins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ggmlprobe.model.pooling import SEVERITY_LIMITS
from ggmlprobe.model.record import MarginBin, PairStats

MARGIN_EDGES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def pair_stats(pair: str, first: Sequence[float], second: Sequence[float]) -> PairStats:
    """Mean and variance of first - second and of its absolute value.

    The variance divides by the count: only so do the published figures satisfy
    var + mean^2 = var|d| + mean|d|^2.
    """
    if not len(first):
        return PairStats(pair, 0, None, None, None, None)
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    size = np.abs(difference)
    return PairStats(
        pair, len(difference), float(difference.mean()), float(difference.var()),
        float(size.mean()), float(size.var()),
    )  # fmt: skip


def severity(differences: Iterable[float]) -> dict[str, int]:
    """Count of absolute differences up to each power of ten; 0 apart, empty bins left out."""
    counts = {"0": 0} | {f"{limit:.0e}": 0 for limit in SEVERITY_LIMITS} | {"more": 0}
    for value in map(abs, differences):
        limit = next((f"{limit:.0e}" for limit in SEVERITY_LIMITS if value <= limit), "more")
        counts["0" if value == 0 else limit] += 1
    return {name: count for name, count in counts.items() if count}


def margin_bins(
    margins: Sequence[float], differing: Sequence[bool], flips: Sequence[bool]
) -> list[MarginBin]:
    """Cells, differing cells and flips by the margin of the single path."""
    highs: list[float | None] = [*MARGIN_EDGES[1:], None]
    place = np.searchsorted(MARGIN_EDGES, np.asarray(margins, dtype=np.float64), side="right") - 1
    marks = np.asarray(differing, dtype=bool), np.asarray(flips, dtype=bool)
    bins = []
    for i, (low, high) in enumerate(zip(MARGIN_EDGES, highs, strict=True)):
        inside = place == i
        counts = [int((inside & mark).sum()) for mark in marks]
        bins.append(MarginBin(low, high, int(inside.sum()), *counts))
    return bins
