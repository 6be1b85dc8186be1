"""The order of turns, what a side that ends early leaves, and a planted slowdown of one side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.configs import configs_of
from ggmlprobe.dispatch.ab import Player, compare, request, take_turns
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.record import TimeStats
from ggmlprobe.runner import Case
from ggmlprobe.worker.protocol import Event, Request, Spec
from ggmlprobe.worker.supervisor import Worker

CASE = Case("mul_mat", MulMat(type_a="f32", m=16, k=256), (1, 3))


class FakeWorker:
    """A child that plays its turns as told, and may die at one.

    Attributes:
        played: name of each child at each of its rounds, shared by all of them.
    """

    def __init__(self, name: str, planned: int, played: list[str], dies_at: int = -1) -> None:
        self.name, self.planned, self.played, self.dies_at = name, planned, played, dies_at
        self.told: list[bool] = []

    def answer(self, go: bool) -> None:
        self.told.append(go)

    def run(self, request: Request) -> Iterator[Event]:
        assert request.turns
        done = 0
        yield {"event": "begin", "phase": "time", "seed": 1, "width": None}
        while True:
            yield {"event": "turn", "done": done, "planned": self.planned}
            if not self.told[-1]:
                break
            if done == self.dies_at:
                yield {"event": "died", "verdict": "CRASH", "signal": "SIGABRT", "phase": "time"}
                return
            self.played.append(self.name)
            done += 1
        for width in request.pass_widths:
            yield {"event": "measured", "phase": "time", "width": width, "data": data(done)}
        yield {"event": "done", "compute_seconds": 1.0, "peak_rss_bytes": 1}


def data(repeats: int) -> dict[str, Any]:
    fields = {"median_seconds": 1.0, "low_seconds": 1.0, "high_seconds": 1.0, "copies": 1}
    fields |= {"repeats": repeats, "weights_bytes": 1, "cache_bytes": 1, "hot": False, "drift": 0.0}
    return {"time": fields | {"samples": [1.0] * repeats}, "time_note": None}


def asked() -> Request:
    return Request("mul_mat", {}, "CPU", None, 1, 1, [1, 3], [1], pass_widths=[1, 3], turns=True)


def players(*workers: Any) -> list[Player]:
    return [Player(worker, asked()) for worker in workers]


def test_turns_are_a_palindrome_over_two_rounds() -> None:
    played: list[str] = []
    three = players(
        *(FakeWorker(name, planned, played) for name, planned in zip("ABN", (2, 3, 1), strict=True))
    )
    take_turns(three)
    # the longest plan, made even
    assert "".join(played) == "ABNNBABNAANB"
    assert [player.waits for player in three] == [False] * 3
    assert all(set(player.measured) == {1, 3} for player in three)


def test_no_side_follows_itself_more_often_than_another() -> None:
    played: list[str] = []
    take_turns(players(*(FakeWorker(name, 24, played) for name in "ABN")))
    pairs = ["".join(pair) for pair in pairwise(played)]
    twice = [pairs.count(name * 2) for name in "ABN"]
    assert min(twice) > 0
    assert max(twice) - min(twice) <= 1


def test_rounds_can_be_given() -> None:
    played: list[str] = []
    take_turns(players(FakeWorker("A", 50, played), FakeWorker("B", 50, played)), rounds=1)
    assert "".join(played) == "ABBA"


def test_a_side_that_dies_ends_the_turns_of_all() -> None:
    played: list[str] = []
    a, b = players(FakeWorker("A", 9, played), FakeWorker("B", 9, played, dies_at=2))
    take_turns([a, b])
    assert "".join(played) == "ABBAA"
    assert {width: row["time_note"] for width, row in b.measured.items()} == {
        1: "SIGABRT", 3: "SIGABRT",
    }  # fmt: skip
    assert a.measured[1]["time"]["repeats"] == 3


def test_no_comparison_without_all_sides() -> None:
    played: list[str] = []
    sides: Any = {
        "a": (FakeWorker("A", 4, played), asked()),
        "b": (FakeWorker("B", 4, played, dies_at=2), asked()),
        "null": (FakeWorker("N", 4, played), asked()),
    }
    measured, compared = compare(sides, "case")
    assert compared == []
    assert measured["b"][1]["time"] is None


@pytest.fixture(scope="module")
def trio(lib_path: str, planted: Path) -> Iterator[dict[str, tuple[Worker, Request]]]:
    """Sides of which b takes a millisecond longer for products of 3 columns."""
    sides = {}
    for name, kind in (("a", "slow:99:99"), ("b", "slow:3:3"), ("null", "slow:99:99")):
        worker = Worker(Spec(lib_path, {"PLANTED": kind}, None, [str(planted)]), 60.0)
        config = configs_of(worker.ready(), "CPU", (None,), (1,), None, {})[0]
        sides[name] = (worker, request(config, CASE, CASE.widths, (1,), True))
    yield sides
    for worker, _ in sides.values():
        worker.stop()


def test_a_planted_slowdown_is_found_where_it_is(
    trio: dict[str, tuple[Worker, Request]],
) -> None:
    measured, compared = compare(trio, "case", rounds=8)
    assert [(each.case, each.width) for each in compared] == [("case", 1), ("case", 3)]
    for side in measured.values():
        for row in side.values():
            time = TimeStats(**row["time"])
            assert time.repeats == len(time.samples) == 8
    for each in compared:
        assert 0 < each.low <= each.ratio <= each.high
        assert 0 < each.null_low <= each.null <= each.null_high
    # microseconds against more than a millisecond
    assert compared[1].low > 2
    assert compared[1].null < 2
    assert compared[0].ratio < 2


def test_a_timing_request_has_no_verdict_left_to_run(
    trio: dict[str, tuple[Worker, Request]],
) -> None:
    made = trio["a"][1]
    assert {(1, 1), (1, 3)} == set(made.done)
    assert (made.passes, made.pass_widths, made.turns) == (["time"], [1, 3], True)
