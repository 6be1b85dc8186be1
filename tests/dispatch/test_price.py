"""Ratios, crossovers and prices against planted times, and the coverage of their intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from ggmlprobe.dispatch.price import (
    Ratio,
    against,
    crossover,
    drift,
    drifts,
    median,
    over,
    paired,
    price_of_serial,
    ratio,
    serial_cap,
    split,
)

Noisy = Callable[..., list[float]]


@pytest.fixture
def noisy() -> Noisy:
    """Return a function from a time to repeats of it, a share `sd` of it apart."""
    draw = random.Random(1).gauss

    def repeats(seconds: float, count: int = 15, sd: float = 0.02) -> list[float]:
        return [seconds * math.exp(draw(0.0, sd)) for _ in range(count)]

    return repeats


def test_a_median_s_error_is_read_off_order_statistics() -> None:
    # Price & Bonett 2002 for n = 7: c = 4 - sqrt(7) rounds to 1; the least and the largest enclose
    # the median with probability 1 - 2 / 2^7, which is z = 2.4175 in a normal distribution
    made = median([4.0, 1.0, 8.0, 2.0, 3.0, 5.0, 6.0])
    assert made.seconds == 4.0
    assert math.sqrt(made.variance) == pytest.approx(math.log(8) / (2 * 2.4175), rel=1e-4)


def test_a_slowdown_lies_in_its_interval(noisy: Noisy) -> None:
    made, low, high = ratio(noisy(1.16), noisy(1.0))
    assert low < 1.16 < high
    assert made == pytest.approx(1.16, rel=0.03)
    assert low > 1.1
    assert high < 1.22


def test_a_ratio_has_a_direction() -> None:
    slow, fast = [2.0, 2.1, 2.2], [1.0, 1.1, 1.2]
    assert ratio(slow, fast)[0] == pytest.approx(2.1 / 1.1)
    assert paired(slow, fast)[0] == pytest.approx(2.1 / 1.1)
    assert ratio(slow, fast)[1] == pytest.approx(1 / ratio(fast, slow)[2])


@pytest.mark.parametrize("compare", [ratio, paired])
@pytest.mark.parametrize("count", [7, 16, 50])
def test_intervals_hold_the_truth_as_often_as_they_say(
    noisy: Noisy, compare: Callable[..., tuple[float, float, float]], count: int
) -> None:
    held = 0
    for _ in range(400):
        _, low, high = compare(noisy(1.16, count, 0.1), noisy(1.0, count, 0.1))
        held += low <= 1.16 <= high
    # 95 % of 400 with four standard errors; no interval that is always right
    assert 0.95 - 0.045 < held / 400 < 1.0


def test_equal_times_give_an_interval_around_one(noisy: Noisy) -> None:
    made = over(median(noisy(1.0)), median(noisy(1.0)))
    assert made.low < 1 < made.high
    assert not made.differs


def test_pairs_cancel_what_slows_both(noisy: Noisy) -> None:
    load = [1.0, 3.0] * 10
    a = [x * y for x, y in zip(noisy(1.16, 20), load, strict=True)]
    b = [x * y for x, y in zip(noisy(1.0, 20), load, strict=True)]
    _, low, high = paired(a, b)
    assert 1.1 < low < 1.16 < high < 1.22
    _, low, high = ratio(a, b)
    assert low < 0.8
    assert high > 1.5


def test_pairs_have_two_sides() -> None:
    with pytest.raises(ValueError, match="3 samples have no pairs in 2"):
        paired([1.0, 2.0, 3.0], [1.0, 2.0])


def test_one_sample_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two samples"):
        ratio([1.0], [1.0, 2.0])


@pytest.mark.parametrize("planted", [2, 6, 12])
def test_a_planted_crossover_is_found(noisy: Noisy, planted: int) -> None:
    a = {w: noisy(float(w)) for w in range(1, 13)}
    b = {w: noisy(planted - 0.5) for w in range(1, 13)}
    found = crossover(a, b)
    assert found.width == planted
    assert found.low is not None
    assert found.low <= planted
    assert found.high is None or found.high >= planted


def test_a_crossover_in_noise_has_a_wide_interval(noisy: Noisy) -> None:
    a = {w: noisy(10 + w, 7, 0.3) for w in range(1, 17)}
    b = {w: noisy(18.0, 7, 0.3) for w in range(1, 17)}
    found = crossover(a, b)
    assert found.low is not None
    assert found.high is None or found.high - found.low > 2


def test_one_noisy_width_is_no_crossover(noisy: Noisy) -> None:
    a = {w: noisy(1.0 if w < 9 else 3.0) for w in range(1, 17)}
    b = {w: noisy(2.0) for w in range(1, 17)}
    a[4] = noisy(2.2)
    assert crossover(a, b).width == 9


def test_an_arm_that_always_wins(noisy: Noisy) -> None:
    slow, fast = {w: noisy(2.0) for w in (1, 2, 3)}, {w: noisy(1.0) for w in (1, 2, 3)}
    never, always = crossover(fast, slow), crossover(slow, fast)
    assert (never.width, never.low, never.high) == (None, None, None)
    assert (always.width, always.low, always.high) == (1, 1, 1)


def test_load_on_both_arms_moves_no_crossover(noisy: Noisy) -> None:
    load = [1.0, 5.0, 2.0] * 5
    a, b = (
        {w: [x * y for x, y in zip(noisy(f(w)), load, strict=True)] for w in range(1, 13)}
        for f in (float, lambda w: 5.5)
    )
    found = crossover(a, b)
    assert (found.width, found.low, found.high) == (6, 6, 6)


def test_crossovers_are_of_the_widths_both_have(noisy: Noisy) -> None:
    a = {1: noisy(1.0), 2: noisy(2.0), 3: noisy(9.0)}
    assert crossover(a, {2: noisy(1.0), 5: noisy(1.0)}).width == 2
    with pytest.raises(ValueError, match="no width in common"):
        crossover(a, {7: noisy(1.0)})


def test_drift_is_flagged() -> None:
    steady = [1.0, 1.01, 0.99, 1.0, 1.005, 0.995] * 4
    rising = [x * (1 + 0.2 * i / len(steady)) for i, x in enumerate(steady)]
    assert not drifts(steady)
    assert drifts(rising)
    assert drift(rising) == pytest.approx(0.2 * 2 / 3 / (1 + 0.2 / 6), rel=0.1)
    assert drifts(rising[::-1])
    assert drift(rising[::-1]) < 0
    # one third of noise apart from another is no drift
    assert not drifts([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.05])


@pytest.mark.parametrize(
    ("groups", "cap"),
    [
        ([[1, 2, 4], [8, 9]], 4), ([[1, 2, 16], [8]], 2), ([[1, 2, 3]], 3), ([[1], [2, 3]], 1),
    ],
)  # fmt: skip
def test_the_cap_is_below_the_first_width_that_differs(groups: list[list[int]], cap: int) -> None:
    assert serial_cap(groups) == cap


@pytest.mark.parametrize(
    ("width", "cap", "measured", "parts"),
    [
        (9, 4, [1, 2, 4], (4, 4, 1)), (16, 4, [1, 4], (4, 4, 4, 4)), (7, 4, [1, 2, 4], (4, 4)),
        (9, 7, [1, 2, 7], (7, 2)), (3, 1, [1], (1, 1, 1)),
    ],
)  # fmt: skip
def test_a_batch_is_split_into_the_fewest_parts(
    width: int, cap: int, measured: list[int], parts: tuple[int, ...]
) -> None:
    assert split(width, cap, measured) == parts
    assert len(parts) == -(-width // cap)


def test_the_price_is_taken_round_by_round(noisy: Noisy) -> None:
    load = [1.0, 4.0] * 8
    samples = {
        w: [x * y for x, y in zip(noisy(seconds, 16), load, strict=True)]
        for w, seconds in ((1, 1.0), (2, 1.6), (3, 2.0))
    }
    (price,) = price_of_serial(samples, [[1, 2], [3]])
    assert 1.25 < price.ratio.low < 1.3 < price.ratio.high < 1.35


def test_what_has_no_pairs_is_compared_by_medians() -> None:
    a, b = [2.0, 2.2, 2.4], [1.0, 1.1]
    made = against(a, b)
    assert (made.ratio, made.low, made.high) == ratio(a, b)
    assert against(a, a) == Ratio(1.0, 1.0, 1.0)


def test_the_price_of_the_serial_class(noisy: Noisy) -> None:
    times = {1: 1.0, 2: 1.5, 4: 2.0, 5: 2.2, 9: 3.0}
    samples = {w: noisy(seconds) for w, seconds in times.items()}
    prices = price_of_serial(samples, [[1, 2, 4], [5, 9]])
    assert [(p.width, p.cap, p.parts) for p in prices] == [(5, 4, (4, 1)), (9, 4, (4, 4, 1))]
    for price, truth in zip(prices, (3 / 2.2, 5 / 3), strict=True):
        assert price.ratio.low < truth < price.ratio.high
        assert price.ratio.ratio == pytest.approx(truth, rel=0.03)


def test_a_width_back_in_the_serial_class_has_no_price(noisy: Noisy) -> None:
    samples = {w: noisy(float(w)) for w in (1, 2, 8, 16)}
    assert [p.width for p in price_of_serial(samples, [[1, 2, 16], [8]])] == [8]


def test_no_price_without_the_times_for_it(noisy: Noisy) -> None:
    groups = [[1, 2, 4], [5]]
    assert price_of_serial({1: noisy(1.0), 5: noisy(2.0)}, groups) == []
    assert price_of_serial({1: noisy(1.0), 4: noisy(2.0)}, groups) == []
    assert price_of_serial({w: noisy(1.0) for w in (1, 2, 4)}, [[1, 2, 4]]) == []
