"""Two records side by side: what changed, what cannot be compared, what is news to a baseline."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ggmlprobe.errors import NotComparable
from ggmlprobe.record import CaseClasses, Config, Kernel, Record, Result, SeedResult, TimeStats
from ggmlprobe.report.changes import changes, check_comparable, news, paired
from ggmlprobe.report.diff import render_json, table

Rows = Callable[..., Result]
Make = Callable[..., Record]


def timed(*samples: float) -> TimeStats:
    median = sorted(samples)[len(samples) // 2]
    return TimeStats(median, median, median, len(samples), 1, 1, 1, False, 0.0,
                     samples=list(samples))  # fmt: skip


def classes(row: Result, *groups: list[int]) -> list[CaseClasses]:
    return [CaseClasses(row.case, row.config, list(groups), True)]


@pytest.fixture
def before(result: Rows, record: Make) -> Record:
    """Widths 1-3, of which 3 differs."""
    rows = [result(1), result(2), result(3, [0, 1])]
    return record(rows, classes=classes(rows[0], [1, 2], [3]))


def test_equal_records_have_no_changes(before: Record) -> None:
    pairs = paired(before, before)
    check_comparable(pairs)
    assert [change.before for change in changes(pairs)] == [{}, {}, {}]
    assert not news(before, before)
    assert "- changed: 0 of 3 rows" in table(pairs)


def test_what_changed_is_named(before: Record, result: Rows) -> None:
    rows = [result(1), result(2, [1], verdict="WRONG", max_ulp=7), result(3)]
    after = replace(before, results=rows, classes=classes(rows[0], [1, 3], [2]))
    moved = {c.row.width: (c.before, c.after) for c in changes(paired(before, after)) if c.before}
    assert moved[2][0] == {"verdict": "INVARIANT", "class": "A", "columns": [], "max_ulp": 0}
    assert moved[2][1] == {"verdict": "WRONG", "class": "B", "columns": [1], "max_ulp": 7}
    assert moved[3][1]["verdict"] == "INVARIANT"
    assert list(moved) == [2, 3]
    text = table(paired(before, after))
    assert "INVARIANT -> WRONG" in text
    assert "- -> 1" in text
    assert "were A: 1,2 | B: 3, are A: 1,3 | B: 2" in text
    assert "- changed: 2 of 3 rows" in text
    assert text.isascii()


def test_kernels_change_only_where_both_runs_looked(before: Record) -> None:
    def with_kernels(record: Record, *names: str) -> Record:
        kernels = [Kernel(name) for name in names]
        return replace(record, results=[replace(row, kernels=kernels) for row in record.results])

    a, b = with_kernels(before, "f"), with_kernels(before, "g")
    assert all(c.before == {"kernels": ["f"]} for c in changes(paired(a, b)))
    assert not any(c.before for c in changes(paired(a, before)))
    assert "f -> g" in table(paired(a, b))


def test_times_have_an_interval_and_are_no_change(before: Record) -> None:
    def having(seconds: float) -> Record:
        time = timed(*(seconds * (1 + i / 100) for i in range(9)))
        return replace(before, results=[replace(row, time=time) for row in before.results])

    made = changes(paired(having(1e-3), having(2e-3)))
    assert not any(change.before for change in made)
    assert all(c.time and c.time.ratio == pytest.approx(2) for c in made)
    assert all(c.time and c.time.low < 2 < c.time.high for c in made)
    assert "|  2.000 |" in table(paired(having(1e-3), having(2e-3)))
    assert changes(paired(before, having(1e-3)))[0].time is None


def other_device(config: Config) -> Config:
    return replace(config, device=replace(config.device, description="Another CPU"))


SEEDS = [SeedResult(9, [], 0, 0, [], True)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda r: replace(r, configs=[other_device(r.configs[0])]),
            "device is CPU, Example CPU in A, CPU, Another CPU in B",
        ),
        (lambda r: replace(r, configs=[replace(r.configs[0], threads=4)]), "in A c0 is not in B"),
        (lambda r: replace(r, results=r.results[:2]), "at width 3 in c0 is not in B"),
        (
            lambda r: replace(r, results=[replace(row, case="OTHER") for row in r.results]),
            "at width 1 in c0 is not in B, nor are 2 more rows",
        ),
        (
            lambda r: replace(r, results=[replace(row, seeds=SEEDS) for row in r.results]),
            "seeds are [0, 1, 2] in A, [9] in B",
        ),
    ],
)
def test_what_cannot_be_compared(
    before: Record, change: Callable[[Record], Record], says: str
) -> None:
    with pytest.raises(NotComparable) as refused:
        check_comparable(paired(before, change(before)))
    assert says in str(refused.value)
    assert "--force" in str(refused.value)


def test_forced_comparison_of_what_both_have(before: Record) -> None:
    other = replace(before, configs=[other_device(before.configs[0])], results=before.results[1:])
    pairs = paired(before, other, device=False)
    assert [change.row.width for change in changes(pairs)] == [2, 3]
    text = table(pairs)
    assert "- only in A: " in text
    assert "at 1" in text


def test_configs_belong_together_by_their_settings(before: Record, config: Config) -> None:
    two = [replace(config, id="c0", threads=4), replace(config, id="c1")]
    rows = [replace(row, config=c.id) for c in two for row in before.results]
    after = replace(before, configs=two, results=rows)
    pairs = paired(before, after)
    assert {row.config for row in pairs.a.results} == {"c1"}
    assert len(pairs.only("B")) == 3
    # two libraries with equal settings go in order
    both = [replace(config, id="x"), replace(config, id="y")]
    rows = [replace(row, config=c.id) for c in both for row in before.results]
    twice = replace(before, configs=both, results=rows, classes=[])
    assert [row.config for row in paired(twice, twice).a.results] == ["x"] * 3 + ["y"] * 3


@pytest.mark.parametrize(
    ("was", "now", "what"),
    [
        ("MISMATCH", "MISMATCH", None),
        ("INVARIANT", "INVARIANT", None),
        ("INVARIANT", "UNSUPPORTED", None),
        ("INVARIANT", "MISMATCH", "new"),
        (None, "CRASH", "new"),
        ("MISMATCH", "INVARIANT", "vanished"),
        ("MISMATCH", "UNSUPPORTED", "vanished"),
        ("MISMATCH", "WRONG", "changed"),
        ("MISMATCH", None, "not probed"),
        ("INVARIANT", None, None),
    ],
)
def test_news(
    before: Record, result: Rows, was: str | None, now: str | None, what: str | None
) -> None:
    def having(verdict: str | None) -> Record:
        rows = [result(1), *([result(2, verdict=verdict)] if verdict else [])]
        return replace(before, results=rows, classes=[])

    found = news(having(was), having(now))
    assert [(each.what, each.was, each.now, each.width) for each in found] == (
        [(what, was, now, 2)] if what else []
    )


def test_json(before: Record, result: Rows) -> None:
    after = replace(before, results=[*before.results[:2], result(3)])
    data: dict[str, Any] = json.loads(render_json(paired(before, after)))
    (row,) = data["rows"]
    assert row["width"] == 3
    assert row["before"]["verdict"] == "MISMATCH"
    assert row["after"]["verdict"] == "INVARIANT"
    assert data["only_a"] == data["only_b"] == []
