"""Statistics of comparisons put together; plain Python, for the parent process too."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence

from ggmlprobe.model.record import MarginBin, PairStats

PAIRS = ("l_ar - l_single", "l_ar - l_block", "l_single - l_block")
"""The three pairs of paths, as the tool that started the method names them."""

NEAR_TIE = 0.1
"""Margin of a near-tie where none is given: some times the 0.03 to 0.05 by which paths differ."""

SEVERITY_LIMITS = tuple(10.0**power for power in range(-6, 2))
CONFIDENCE = 0.95


def pooled(parts: Iterable[PairStats]) -> PairStats:
    """Statistics of all cells together, from those of the parts (of one pair)."""
    there = list(parts)
    filled = [part for part in there if part.cells and part.mean is not None]
    cells = sum(part.cells for part in filled)
    if not cells:
        return PairStats(there[0].pair, 0, None, None, None, None)
    mean, var = _pool([(p.cells, p.mean or 0.0, p.var or 0.0) for p in filled], cells)
    size, size_var = _pool([(p.cells, p.mean_abs or 0.0, p.var_abs or 0.0) for p in filled], cells)
    return PairStats(there[0].pair, cells, mean, var, size, size_var)


def _pool(parts: Sequence[tuple[int, float, float]], cells: int) -> tuple[float, float]:
    mean = math.fsum(n * m for n, m, _ in parts) / cells
    # around the common mean, so that nothing cancels
    var = math.fsum(n * (v + (m - mean) ** 2) for n, m, v in parts) / cells
    return mean, var


def add_bins(parts: Sequence[Sequence[MarginBin]]) -> list[MarginBin]:
    """The bins of several comparisons together."""
    return [
        MarginBin(
            group[0].low, group[0].high, sum(b.cells for b in group),
            sum(b.cells_differing for b in group), sum(b.flips for b in group),
        )
        for group in zip(*parts, strict=True)
    ]  # fmt: skip


def interval(hits: int, trials: int) -> tuple[float | None, float | None, float | None]:
    """(share, low, high): the exact binomial interval of Clopper and Pearson at 95 %.

    All None where there are no trials.
    """
    if not trials:
        return None, None, None
    # late, and not scipy.stats, which takes more than a second: this is the same interval
    betaincinv = importlib.import_module("scipy.special").betaincinv
    tail = (1.0 - CONFIDENCE) / 2.0
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1.0 - tail)) if hits < trials else 1.0
    return hits / trials, low, high
