"""Statistics of cells against numpy, scipy, and the figures that were published."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from ggmlprobe.model import pooling, stats
from ggmlprobe.model.record import PairStats

# pair: mean, var, mean|d|, var|d| of 490 cells, as the tool that started the method printed them
PUBLISHED = [
    (-0.007948, 0.001222, 0.027564, 0.000526),
    (-0.006654, 0.001771, 0.030979, 0.000855),
    (+0.001295, 0.001389, 0.026934, 0.000665),
]


@pytest.mark.parametrize(("mean", "var", "size", "size_var"), PUBLISHED)
def test_published_variances_divide_by_the_count(
    mean: float, var: float, size: float, size_var: float
) -> None:
    """E[d^2] is the same from both lines only so; dividing by 489 misses the last digit."""
    assert var + mean**2 - size**2 == pytest.approx(size_var, abs=1.5e-6)


def test_pair_stats_are_numpys() -> None:
    a, b = np.random.default_rng(3).standard_normal((2, 50)).astype(np.float32)
    made = stats.pair_stats("a - b", list(map(float, a)), list(map(float, b)))
    d = a.astype(np.float64) - b
    assert (made.cells, made.pair) == (50, "a - b")
    assert made.mean == pytest.approx(d.mean())
    assert made.var == pytest.approx((d**2).mean() - d.mean() ** 2)
    assert made.mean_abs == pytest.approx(np.abs(d).mean())
    assert made.var_abs == pytest.approx(np.abs(d).var())
    assert stats.pair_stats("none", [], []) == PairStats("none", 0, None, None, None, None)


def test_pooled_parts_are_the_whole() -> None:
    d = np.random.default_rng(4).standard_normal(90) + 5
    zero = [0.0] * 90
    whole = stats.pair_stats("p", list(d), zero)
    parts = [stats.pair_stats("p", list(d[i:j]), zero[i:j]) for i, j in ((0, 7), (7, 60), (60, 90))]
    made = pooling.pooled([*parts, stats.pair_stats("p", [], [])])
    assert made.cells == 90
    for name in ("mean", "var", "mean_abs", "var_abs"):
        assert getattr(made, name) == pytest.approx(getattr(whole, name), rel=1e-12)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (10, 10), (1, 480), (6, 490), (250, 490)])
def test_interval_is_clopper_pearson(hits: int, trials: int) -> None:
    expected = binomtest(hits, trials).proportion_ci(method="exact")
    share, low, high = pooling.interval(hits, trials)
    assert share == hits / trials
    assert low == pytest.approx(expected.low, abs=1e-12)
    assert high == pytest.approx(expected.high, abs=1e-12)


def test_nothing_tried_has_no_rate() -> None:
    assert pooling.interval(0, 0) == (None, None, None)


def test_severity_counts_each_cell_once() -> None:
    counts = stats.severity([0.0, -0.0, 1e-6, -2e-6, 0.05, -0.5, 100.0])
    assert counts == {"0": 2, "1e-06": 1, "1e-05": 1, "1e-01": 1, "1e+00": 1, "more": 1}
    assert stats.severity([]) == {}


def test_margin_bins_hold_every_cell() -> None:
    margins = [0.0, 0.0029, 0.003, 0.5, 10.0, 1e9]
    flips = [True, False, True, False, False, False]
    bins = stats.margin_bins(margins, [True] * 6, flips)
    assert sum(each.cells for each in bins) == 6
    assert [(each.low, each.cells, each.flips) for each in bins if each.cells] == [
        (0.0, 2, 1), (0.003, 1, 1), (0.3, 1, 0), (10.0, 2, 0),
    ]  # fmt: skip
    twice = pooling.add_bins([bins, bins])
    assert [each.cells for each in twice] == [2 * each.cells for each in bins]
    assert twice[-1].high is None
