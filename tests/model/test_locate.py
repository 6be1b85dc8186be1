"""Following differences through recorded nodes, without a library."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe.model.locate import Step, first_differing, locate

WIDTH = 3


def hashed(name: str, *inputs: int, differs: tuple[int, ...] = (), **more: object) -> Step:
    """A step whose block differs in some tokens."""
    single = tuple(f"{name}{t}" for t in range(WIDTH))
    block = tuple(h + "'" if t in differs else h for t, h in enumerate(single))
    return replace(Step(name, inputs, single=single, block=block), **more)


def chain(*differing: tuple[int, ...]) -> list[Step]:
    """Steps in a row, each with the tokens that differ."""
    return [
        hashed(f"s{i}", *([i - 1] if i else []), differs=tokens)
        for i, tokens in enumerate(differing)
    ]


def test_nothing_differs() -> None:
    trail = locate(chain((), (), ()), WIDTH)
    assert trail.found == []
    assert trail.way == []


def test_the_first_is_the_culprit_and_the_others_carry_on() -> None:
    trail = locate(chain((), (1,), (1,), (1,)), WIDTH)
    assert [(f.step, f.tokens, f.culprit) for f in trail.found] == [
        (1, [1], [1]), (2, [1], []), (3, [1], []),
    ]  # fmt: skip
    assert trail.way == [1, 2, 3]
    assert all(found.reaches for found in trail.found)


def test_tokens_are_judged_apart() -> None:
    trail = locate(chain((0,), (0, 2), (0, 2)), WIDTH)
    assert [(f.step, f.culprit) for f in trail.culprits] == [(0, [0]), (1, [2])]


def test_a_difference_that_ends_is_not_on_the_way() -> None:
    trail = locate(chain((), (1,), (), (2,), (2,)), WIDTH)
    assert [(f.step, f.reaches) for f in trail.found] == [(1, False), (3, True), (4, True)]
    assert trail.way == [3, 4]


def test_another_token_is_no_way() -> None:
    # step 1's token 0 ends there; its token 1 goes on
    trail = locate(chain((), (0, 1), (1,)), WIDTH)
    assert trail.way == [1, 2]
    assert trail.found[0].culprit == [0, 1]


def test_views_hand_on_what_they_look_at() -> None:
    steps = [hashed("a", differs=(2,)), Step("view", (0,)), hashed("b", 1, differs=(2,))]
    trail = locate(steps, WIDTH)
    assert [f.step for f in trail.culprits] == [0]
    assert trail.way == [0, 1, 2]


def test_the_shortest_way_is_taken() -> None:
    steps = [
        hashed("a", differs=(0,)), hashed("b", 0, differs=(0,)), hashed("c", 1, differs=(0,)),
        hashed("sum", 0, 2, differs=(0,)),
    ]  # fmt: skip
    assert locate(steps, WIDTH).way == [0, 3]


def test_a_token_reads_what_earlier_ones_have_written() -> None:
    steps = [
        hashed("k", differs=(1,)),
        hashed("write", 0, differs=(1,), writes="cache"),
        Step("cache view", reads=("cache",)),
        hashed("kq", 2, differs=(1, 2)),
    ]
    trail = locate(steps, WIDTH)
    assert [(f.step, f.culprit) for f in trail.culprits] == [(0, [1])]
    # token 0 came before: where it differs, the product itself is to blame
    steps[3] = hashed("kq", 2, differs=(0, 1, 2))
    assert [(f.step, f.culprit) for f in locate(steps, WIDTH).culprits] == [(0, [1]), (3, [0])]


def test_a_write_after_the_read_is_no_input() -> None:
    steps = [
        Step("state view", reads=("state",)),
        hashed("scan", 0, differs=(0,)),
        hashed("write", 1, differs=(0,), writes="state"),
    ]
    assert [(f.step, f.culprit) for f in locate(steps, WIDTH).culprits] == [(1, [0])]


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_bisection_finds_the_boundary_with_few_runs(case: tuple[int, int]) -> None:
    count, start = case
    asked = []

    def differs(place: int) -> bool:
        asked.append(place)
        return place >= start

    assert first_differing(count, differs) == (start if start < count else None)
    assert len(asked) <= count.bit_length() + 1


@pytest.mark.parametrize("blind", [{3}, {4, 5, 6}, {9}, {0, 1, 2}])
def test_bisection_passes_over_what_cannot_be_watched(blind: set[int]) -> None:
    found = first_differing(10, lambda place: None if place in blind else place >= 4)
    assert found == min(place for place in range(4, 10) if place not in blind)


def test_bisection_where_nothing_can_be_watched() -> None:
    assert first_differing(8, lambda place: None) is None
