"""Times compared: ratios, the width where one arm overtakes another, the price of invariance.

Every comparison carries a 95 % interval. A median's error follows Price and Bonett, "Distribution-
free confidence intervals for difference and ratio of medians", J. Stat. Comput. Simul. 72 (2002)
119-124: the variance of a log median is read off two order statistics whose exact coverage is
binomial, whatever the distribution of times.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

LEVEL = 0.95
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
DRAWS = 2000
# thirds of a run further apart than this are drift, if significant
DRIFT = 0.03


@dataclass(frozen=True)
class Estimate:
    """A time in seconds, or a ratio: its median, and the variance of that median's logarithm."""

    seconds: float
    variance: float


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether 1 is outside of the interval."""
        return not self.low <= 1.0 <= self.high


def median(samples: Sequence[float]) -> Estimate:
    """Median of positive samples.

    Raises:
        ValueError: fewer than two samples.
    """
    ordered = sorted(samples)
    n = len(ordered)
    if n < 2:
        raise ValueError("an interval needs at least two samples")
    c = max(1, round((n + 1) / 2 - math.sqrt(n)))
    tail = sum(math.comb(n, i) for i in range(c)) / 2**n
    spread = math.log(ordered[n - c] / ordered[c - 1]) / (2 * NormalDist().inv_cdf(1 - tail))
    return Estimate(statistics.median(ordered), spread**2)


def over(a: Estimate, b: Estimate) -> Ratio:
    """Time a over time b."""
    log = math.log(a.seconds / b.seconds)
    half = Z * math.sqrt(a.variance + b.variance)
    return Ratio(math.exp(log), math.exp(log - half), math.exp(log + half))


def ratio(a_samples: Sequence[float], b_samples: Sequence[float]) -> tuple[float, float, float]:
    """How many times as long a takes as b: (ratio of the medians, low, high)."""
    made = over(median(a_samples), median(b_samples))
    return made.ratio, made.low, made.high


def paired(a_samples: Sequence[float], b_samples: Sequence[float]) -> tuple[float, float, float]:
    """How many times as long a takes as b, where sample i of both was taken side by side.

    The median of the ratios of each pair: what slows the machine for a while cancels out.

    Raises:
        ValueError: not as many of the one as of the other, or fewer than two.
    """
    made = against(a_samples, b_samples)
    if len(a_samples) != len(b_samples):
        raise ValueError(f"{len(a_samples)} samples have no pairs in {len(b_samples)}")
    return made.ratio, made.low, made.high


def against(a_samples: Sequence[float], b_samples: Sequence[float]) -> Ratio:
    """Time a over time b of things that took turns: `paired`, or `ratio` where one has more."""
    return over(*_estimates(a_samples, b_samples))


def _estimates(a: Sequence[float], b: Sequence[float]) -> tuple[Estimate, Estimate]:
    """Two estimates whose ratio is that of a and b; of pairs the second one is a plain 1."""
    if len(a) != len(b):
        return median(a), median(b)
    return median([x / y for x, y in zip(a, b, strict=True)]), Estimate(1.0, 0.0)


def drift(samples: Sequence[float]) -> float:
    """Median of the last third of the samples over that of the first third, minus 1."""
    third = max(1, len(samples) // 3)
    return statistics.median(samples[-third:]) / statistics.median(samples[:third]) - 1


def drifts(samples: Sequence[float]) -> bool:
    """Whether the last third is apart from the first by 3 % and by more than their errors."""
    third = len(samples) // 3
    if third < 2 or abs(drift(samples)) < DRIFT:
        return False
    return over(median(samples[-third:]), median(samples[:third])).differs


@dataclass(frozen=True)
class Crossover:
    """The first width at which arm b should serve; None for none of those measured.

    Attributes:
        low, high: 95 % of the draws lie between these, ends included.
    """

    width: int | None
    low: int | None
    high: int | None


def _switch(gain: Sequence[float]) -> int:
    """Where switching from a to b costs least, from ln b - ln a at each width.

    The result is the number of widths that a serves; the sum of log times over all widths is
    smallest there, so that one noisy width does not decide.
    """
    costs = list(accumulate((-each for each in gain), initial=0.0))
    return costs.index(min(costs))


def crossover(
    a: Mapping[int, Sequence[float]], b: Mapping[int, Sequence[float]], seed: int = 0
) -> Crossover:
    """The width from which arm b is faster, with an interval from a parametric bootstrap.

    Args:
        a: seconds by width of the arm for narrow widths.
        b: of the other; widths that only one of them has are left out. Pairs as in `against`.
        seed: of the draws: log medians, normal around those measured with their variance.

    Raises:
        ValueError: no width in common.
    """
    widths: list[int | None] = [*sorted(a.keys() & b.keys())]
    pairs = [_estimates(b[w], a[w]) for w in widths if w is not None]
    if not pairs:
        raise ValueError("the arms have no width in common")
    gain = [math.log(x.seconds / y.seconds) for x, y in pairs]
    errors = [math.sqrt(x.variance + y.variance) for x, y in pairs]
    draw = random.Random(seed).gauss
    drawn = sorted(
        _switch([g + draw(0.0, error) for g, error in zip(gain, errors, strict=True)])
        for _ in range(DRAWS)
    )
    low, high = drawn[int(DRAWS * (1 - LEVEL) / 2)], drawn[math.ceil(DRAWS * (1 + LEVEL) / 2) - 1]
    ends = [*widths, None]
    return Crossover(ends[_switch(gain)], ends[low], ends[high])


@dataclass(frozen=True)
class Price:
    """What width `width` costs if no evaluation leaves the serial class.

    Attributes:
        cap: widest width in the serial class with all probed ones below it.
        parts: widths of the evaluations it is split into.
        ratio: time of the parts over time of the whole.
    """

    width: int
    cap: int
    parts: tuple[int, ...]
    ratio: Ratio


def serial_cap(groups: Sequence[Sequence[int]]) -> int:
    """The widest width up to which every probed width is in the serial class (the first group)."""
    others = [width for group in groups[1:] for width in group]
    first = min(others, default=math.inf)
    return max((width for width in groups[0] if width < first), default=1)


def split(width: int, cap: int, measured: Iterable[int]) -> tuple[int, ...]:
    """Widths of ceil(width / cap) evaluations that take `width` tokens, widest first.

    The last part is the narrowest measured width that holds the rest.
    """
    whole, rest = divmod(width, cap)
    if not rest:
        return (cap,) * whole
    fits = [w for w in measured if rest <= w <= cap]
    return (cap,) * whole + (min(fits),) if fits else ()


def price_of_serial(
    samples: Mapping[int, Sequence[float]], groups: Sequence[Sequence[int]]
) -> list[Price]:
    """The price of staying in the serial class, for each measured width outside of it.

    Args:
        samples: seconds by width, one a round of all widths in turn.
        groups: width classes; the first holds the serial reference.

    Returns:
        One entry per width that is timed, in another class and above the cap; none where the cap
        itself was not timed.
    """
    cap = serial_cap(groups)
    inside = set(groups[0])
    prices = []
    for width in sorted(w for w in samples if w not in inside and w > cap and cap in samples):
        if parts := split(width, cap, [w for w in samples if w in inside]):
            whole = [sum(each) for each in zip(*(samples[part] for part in parts), strict=True)]
            prices.append(Price(width, cap, parts, against(whole, samples[width])))
    return prices
