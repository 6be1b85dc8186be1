"""Where classes change along an axis, found by running few of its values. Pure: no library.

The assumption, which every result states: between two values that were run and are of one class,
no value is of another. What lies between them is never called anything but not probed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

EVERY = 33
FINE, FINE_STEP = 64, 8
LIMIT = 100
# a period is told from a class that came back by chance where it was seen this often
PERIODS_SEEN = 3
LONGEST_PERIOD = 16

Letters = Mapping[int, str]
"""Class of every value that was run; the classes of all are made anew after each run."""


def powers_of_two(first: int, last: int) -> Iterator[int]:
    """1, 2, 4, ... from `first` to `last`."""
    power = 1
    while power <= last:
        if power >= first:
            yield power
        power *= 2


def width_start(values: Sequence[int]) -> list[int]:
    """Values of an axis on which kernels switch at small and at round values.

    Every one to 33, and one either side of each multiple of 8 up to 64 and of each power of two
    above; the first and the last.
    """
    last = values[-1]
    round_ones = {*range(FINE_STEP, FINE + 1, FINE_STEP), *powers_of_two(2 * FINE, last + 1)}
    wanted = {*range(1, EVERY + 1), *_beside(round_ones, 1), values[0], last}
    return [value for value in values if value in wanted]


def step_start(values: Sequence[int], step: int) -> list[int]:
    """Values of an axis in steps: one step either side of each power of two steps, both ends."""
    last = values[-1]
    round_ones = {step * power for power in powers_of_two(1, last // step + 1)}
    wanted = {*_beside(round_ones, step), values[0], last}
    return [value for value in values if value in wanted]


def _beside(centres: Iterable[int], step: int) -> set[int]:
    return {centre + side for centre in centres for side in (-step, 0, step)}


def wanted(
    values: Sequence[int], start: Sequence[int], letters: Letters, limit: int | None
) -> list[int]:
    """The values to run next, at once; none once every interval is settled or the limit is met.

    Middles of intervals whose ends are of different classes. Where the limit does not allow for
    all of them, the lower intervals are followed to their ends first.

    Args:
        values: all of the axis, ascending. start: those to begin with.
        letters: of those that were run.
        limit: of values run in all; None for no limit. `start` is run whatever its number.
    """
    if not letters:
        return list(start)
    room = len(values) if limit is None else limit - len(letters)
    position = {value: i for i, value in enumerate(values)}
    middles = []
    for a, b in pairwise(sorted(letters)):
        gap = position[b] - position[a]
        if gap > 1 and letters[a] != letters[b] and room > 0:
            middles.append(values[position[a] + gap // 2])
            room -= (gap - 1).bit_length()
    return middles


def search(
    values: Sequence[int],
    start: Sequence[int],
    run: Callable[[list[int]], Letters],
    limit: int | None = LIMIT,
) -> Found:
    """Run values until every change of class that shows is between two neighbours.

    Args:
        run: runs these values; the letters of all that were run so far.
    """
    letters: Letters = {}
    while new := wanted(values, start, letters, limit):
        letters = run(new)
    return Found(tuple(values), dict(sorted(letters.items())))


@dataclass(frozen=True)
class Stretch:
    """Successive values that were run and are of one class."""

    letter: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Period:
    """Classes that repeat over consecutive values: parity has length 2."""

    length: int
    first: int
    last: int


@dataclass(frozen=True)
class Found:
    """What is known of an axis.

    Attributes:
        values: all of the axis, ascending. letters: of those that were run, ascending.
    """

    values: tuple[int, ...]
    letters: Letters

    def _pairs(self) -> Iterator[tuple[int, int, bool, bool]]:
        """Successive values that were run: both, whether neighbours, whether of one class."""
        position = {value: i for i, value in enumerate(self.values)}
        for a, b in pairwise(self.letters):
            yield a, b, position[b] - position[a] == 1, self.letters[a] == self.letters[b]

    @property
    def boundaries(self) -> list[tuple[int, int]]:
        """Neighbours of different classes."""
        return [(a, b) for a, b, near, same in self._pairs() if near and not same]

    @property
    def unsettled(self) -> list[tuple[int, int]]:
        """Values of different classes between which the limit ended the search."""
        return [(a, b) for a, b, near, same in self._pairs() if not near and not same]

    @property
    def assumed(self) -> list[tuple[int, int]]:
        """Values of one class between which nothing was run: here the assumption stands."""
        return [(a, b) for a, b, near, same in self._pairs() if not near and same]

    @property
    def unprobed(self) -> list[int]:
        """Values that were not run."""
        return [value for value in self.values if value not in self.letters]

    def first_other(self, *letters: str) -> int | None:
        """Lowest value run that is of none of these classes."""
        return next((value for value, own in self.letters.items() if own not in letters), None)

    @property
    def stretches(self) -> list[Stretch]:
        """The values that were run, cut where the class changes."""
        cuts: list[list[int]] = []
        for value in self.letters:
            if cuts and self.letters[cuts[-1][0]] == self.letters[value]:
                cuts[-1].append(value)
            else:
                cuts.append([value])
        return [Stretch(self.letters[cut[0]], tuple(cut)) for cut in cuts]

    @property
    def returning(self) -> dict[str, list[int]]:
        """Classes that come back after another one (A-B-A): where each stretch of it begins."""
        begins: dict[str, list[int]] = {}
        for stretch in self.stretches:
            begins.setdefault(stretch.letter, []).append(stretch.values[0])
        return {letter: starts for letter, starts in begins.items() if len(starts) > 1}

    @property
    def periods(self) -> list[Period]:
        """Stretches of consecutive values, all run, over which the classes repeat."""
        found = []
        for block in self._blocks():
            at = 0
            while at < len(block):
                period = self._period_from(block[at:])
                if period is not None:
                    found.append(period)
                at += block[at:].index(period.last) if period else 1
        return found

    def _blocks(self) -> Iterator[list[int]]:
        """Runs of consecutive values without one that was not run."""
        block: list[int] = []
        for value in self.values:
            if value in self.letters:
                block.append(value)
            else:
                yield block
                block = []
        yield block

    def _period_from(self, block: Sequence[int]) -> Period | None:
        """The shortest period that the block begins with."""
        letters = [self.letters[value] for value in block]
        for length in range(2, LONGEST_PERIOD + 1):
            end = length
            while end < len(letters) and letters[end] == letters[end - length]:
                end += 1
            if end >= PERIODS_SEEN * length and len(set(letters[:length])) > 1:
                return Period(length, block[0], block[end - 1])
        return None
