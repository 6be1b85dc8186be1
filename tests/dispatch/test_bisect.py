"""The search on callables, against the exhaustive truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe.dispatch.bisect import (
    LIMIT,
    Found,
    Period,
    search,
    step_start,
    wanted,
    width_start,
)

WIDTHS = list(range(1, 513))
Truth = Callable[[int], str]


class Counted:
    """A run over a known truth that counts what it was asked for."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.letters: dict[int, str] = {}
        self.calls: list[list[int]] = []

    def __call__(self, values: list[int]) -> Mapping[int, str]:
        assert not set(values) & set(self.letters), "a value is run once"
        self.calls.append(values)
        self.letters |= {value: self.truth(value) for value in values}
        return self.letters


def stairs(*bounds: int) -> Truth:
    """A new class from each bound on."""
    return lambda value: chr(ord("A") + sum(value >= bound for bound in bounds))


def found_of(truth: Truth, values: Sequence[int] = WIDTHS, limit: int | None = LIMIT) -> Found:
    return search(values, width_start(values), Counted(truth), limit)


def all_boundaries(truth: Truth, values: Sequence[int]) -> list[tuple[int, int]]:
    return [(a, b) for a, b in pairwise(values) if truth(a) != truth(b)]


def test_widths_run_first_are_those_promised() -> None:
    start = width_start(WIDTHS)
    promised = set(range(1, 34)) | {1, 512}
    for centre in (8, 16, 24, 32, 40, 48, 56, 64, 128, 256, 512):
        promised |= {centre - 1, centre, centre + 1}
    assert start == sorted(promised & set(WIDTHS))
    assert len(start) <= 60


def test_start_keeps_to_the_values_there_are() -> None:
    assert width_start([100, 101, 127, 130]) == [100, 127, 130]
    assert step_start(range(256, 4097, 256), 256) == [
        256, 512, 768, 1024, 1280, 1792, 2048, 2304, 3840, 4096,
    ]  # fmt: skip


@given(st.lists(st.integers(2, 512), max_size=4, unique=True))
def test_stairs_are_found_exactly_with_few_runs(bounds: list[int]) -> None:
    truth = stairs(*bounds)
    found = found_of(truth)
    assert found.boundaries == all_boundaries(truth, WIDTHS)
    assert found.unsettled == []
    assert len(found.letters) <= LIMIT
    assert found.first_other("A") == min(bounds, default=None)
    assert all(found.letters[value] == truth(value) for value in found.letters)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(0, 3),
    st.booleans(),
)
def test_result_is_the_truth_wherever_the_assumption_holds(
    lengths: list[int], classes: int, first: int, every: bool
) -> None:
    """Any stairs that return: what is claimed holds, and what is hidden is listed as assumed."""
    letters = [chr(ord("A") + i % (classes + 1)) for i, n in enumerate(lengths) for _ in range(n)]
    values = list(range(first + 1, first + 1 + len(letters)))

    def truth(value: int) -> str:
        return letters[value - values[0]]

    start = values if every else [values[0], values[len(values) // 2], values[-1]]
    found = search(values, sorted(set(start)), Counted(truth), None)
    true = set(all_boundaries(truth, values))
    assert set(found.boundaries) <= true
    inside = [(a, b) for a, b in true if any(lo <= a and b <= hi for lo, hi in found.assumed)]
    assert set(found.boundaries) | set(inside) == true
    assert found.unsettled == []
    assert set(found.unprobed) | set(found.letters) == set(values)
    if every:
        assert found.assumed == []
        assert found.unprobed == []


@pytest.mark.parametrize("bound", [3, 5, 9, 12, 17, 31, 100, 200, 300, 511, 512])
def test_one_boundary(bound: int) -> None:
    found = found_of(stairs(bound))
    assert found.boundaries == [(bound - 1, bound)]
    assert found.returning == {}
    assert found.periods == []


def test_class_that_comes_back() -> None:
    found = found_of(lambda width: "B" if 9 <= width <= 16 else "A")
    assert found.boundaries == [(8, 9), (16, 17)]
    assert [s.letter for s in found.stretches] == ["A", "B", "A"]
    assert found.returning == {"A": [1, 17]}


def test_parity() -> None:
    found = found_of(lambda width: "AB"[(width + 1) % 2])
    assert found.periods[0] == Period(2, 1, 33)
    assert (33, 39) in found.assumed, "ends of one class: only the period speaks against them"


@pytest.mark.parametrize("length", [3, 4, 8])
def test_longer_period(length: int) -> None:
    found = found_of(lambda width: "A" if width % length else "B")
    assert found.periods[0].length == length


def test_single_return_is_no_period() -> None:
    assert found_of(lambda width: "B" if width == 9 else "A").periods == []


def test_what_lies_between_equal_ends_is_not_claimed() -> None:
    def hidden(width: int) -> str:
        return "B" if 300 <= width <= 310 else "A"

    found = found_of(hidden)
    assert found.boundaries == []
    assert (257, 511) in found.assumed
    assert set(range(258, 511)) <= set(found.unprobed)
    every = search(WIDTHS, WIDTHS, Counted(hidden), None)
    assert every.boundaries == [(299, 300), (310, 311)]
    assert every.assumed == []


def test_limit_ends_the_search_and_says_where() -> None:
    each_its_own = Counted(str)
    found = search(WIDTHS, width_start(WIDTHS), each_its_own, LIMIT)
    assert len(found.letters) <= LIMIT
    assert found.assumed == []
    assert found.unsettled, "what was not followed to its end is said"
    settled = min(low for low, _ in found.unsettled)
    assert set(range(1, settled + 1)) <= set(found.letters), "the lower part is complete"


def test_start_runs_even_above_the_limit() -> None:
    assert len(search(WIDTHS, WIDTHS, Counted(stairs(7)), 10).letters) == len(WIDTHS)


def test_every_round_is_one_call() -> None:
    run = Counted(stairs(200, 400))
    search(WIDTHS, width_start(WIDTHS), run)
    assert len(run.calls) <= 10
    assert max(map(len, run.calls[1:])) == 2


def test_letters_may_change_as_values_are_added() -> None:
    """Classes are made anew after each run, so that a name can move to another class."""
    names = iter(["XY", "PQ", "PQ", "PQ", "PQ", "PQ", "PQ", "PQ", "PQ"])
    seen: list[int] = []

    def run(values: list[int]) -> Mapping[int, str]:
        seen.extend(values)
        low, high = next(names)
        return {value: low if value < 40 else high for value in seen}

    found = search(list(range(1, 65)), [1, 64], run)
    assert found.boundaries == [(39, 40)]


def test_nothing_is_wanted_of_one_value() -> None:
    assert wanted([5], [5], {}, 100) == [5]
    assert wanted([5], [5], {5: "A"}, 100) == []
