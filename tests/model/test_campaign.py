"""Prompts and widths through a child that answers as planned: blame, resume, order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from model_rows import config, made

from ggmlprobe.codec import to_dict
from ggmlprobe.errors import ModelBroken
from ggmlprobe.model.campaign import Campaign, Plan
from ggmlprobe.model.prompts import Prompt
from ggmlprobe.model.record import BlockComparison
from ggmlprobe.worker.protocol import Event, ModelRequest, ModelSpec
from ggmlprobe.worker.supervisor import Worker

PROMPTS = [Prompt("a", "first"), Prompt("b", "second")]
DONE = {"event": "done", "compute_seconds": 0.25, "peak_rss_bytes": 7}
SPEC = ModelSpec("m.gguf")


class FakeWorker:
    """Answers requests with comparisons, except where it is to die or to fail.

    Args:
        die_at: (phase, width) at which it dies, each time it is asked for that width.
        fail: prompts' texts that fail.
    """

    def __init__(
        self, die_at: tuple[str, int | None] | None = None, fail: tuple[str, ...] = ()
    ) -> None:
        self.die_at, self.fail = die_at, fail
        self.asked: list[tuple[str, list[tuple[int, str]]]] = []
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1

    def run(self, request: ModelRequest) -> Iterator[Event]:
        args: dict[str, Any] = request.args
        todo = [tuple(place) for place in args["todo"]]
        self.asked.append((args["text"], todo))
        yield {"event": "begin", "phase": "ar", "seed": None, "width": None, "window": 0}
        if args["text"] in self.fail:
            yield {"event": "failed", "seed": None, "width": None, "verdict": "UNSUPPORTED",
                   "detail": "no"}  # fmt: skip
            yield DONE
            return
        if self.die_at and self.die_at[1] in (None, *(width for width, _ in todo)):
            phase, width = self.die_at
            yield {"event": "died", "verdict": "CRASH", "signal": "SIGILL", "stderr": ["x"],
                   "phase": phase, "seed": None, "width": width}  # fmt: skip
            return
        for width, prefix in todo:
            row = replace(made(width=width, prefix=prefix), **named(args["blank"]))
            yield {"event": "comparison", "data": to_dict(row)}
        yield DONE


def named(blank: dict[str, Any]) -> dict[str, Any]:
    return {k: blank[k] for k in ("config", "prompt", "kind", "prompt_hash", "n", "chat")}


def plan(**changed: Any) -> Plan:
    given = {"widths": [2, 5], "prefixes": ["prefill"]} | changed
    return Plan(
        given.pop("prompts", PROMPTS), n=12, chat=False, near_tie=0.1,
        **cast("dict[str, Any]", given),
    )  # fmt: skip


def campaign(worker: FakeWorker, wanted: Plan, **more: Any) -> Campaign:
    return Campaign(cast("dict[str, Worker]", {"c0": worker}), SPEC, wanted, **more)


def run(worker: FakeWorker, wanted: Plan, **more: Any) -> list[BlockComparison]:
    return list(campaign(worker, wanted, **more).run([config()]))


def places(rows: list[BlockComparison]) -> list[tuple[str, int, str]]:
    return [(row.prompt, row.width, row.verdict) for row in rows]


def test_a_request_for_each_prompt_with_all_its_widths() -> None:
    worker = FakeWorker()
    job = campaign(worker, plan())
    rows = list(job.run([config()]))
    assert worker.asked == [
        ("first", [(2, "prefill"), (5, "prefill")]), ("second", [(2, "prefill"), (5, "prefill")]),
    ]  # fmt: skip
    assert [(r.prompt, r.width) for r in rows] == [("a", 2), ("a", 5), ("b", 2), ("b", 5)]
    timing = job.timing(1.0)
    assert (timing.compute_seconds, timing.peak_rss_bytes) == (0.5, 7)


def test_a_death_in_a_block_is_blamed_on_its_width_and_the_rest_goes_on() -> None:
    worker = FakeWorker(die_at=("block", 5))
    rows = run(worker, plan())
    assert places(rows) == [
        ("a", 5, "CRASH"), ("a", 2, "INVARIANT"), ("b", 5, "CRASH"), ("b", 2, "INVARIANT"),
    ]  # fmt: skip
    assert rows[0].signal == "SIGILL"
    assert rows[0].detail is not None
    assert "--no-extra-bufts" in rows[0].detail


def test_a_death_before_any_block_takes_all_widths() -> None:
    rows = run(FakeWorker(die_at=("ar", None)), plan())
    assert [row.verdict for row in rows] == ["CRASH"] * 4


def test_a_death_while_loading_ends_the_run() -> None:
    with pytest.raises(ModelBroken, match=r"m\.gguf"):
        run(FakeWorker(die_at=("load", None)), plan())


def test_what_cannot_run_is_a_row() -> None:
    rows = run(FakeWorker(fail=("first",)), plan())
    assert places(rows)[:2] == [("a", 2, "UNSUPPORTED"), ("a", 5, "UNSUPPORTED")]
    assert [row.verdict for row in rows[2:]] == ["INVARIANT"] * 2


def test_finished_rows_are_not_run_again() -> None:
    rows = run(FakeWorker(), plan())
    finished = {row.key: row for row in rows if (row.prompt, row.width) != ("b", 5)}
    worker = FakeWorker()
    again = run(worker, plan(), finished=finished)
    assert worker.asked == [("second", [(5, "prefill")])]
    assert sorted(places(again)) == sorted(places(rows))
    assert sum(any(row is old for old in finished.values()) for row in again) == 3


def test_another_text_under_the_same_name_is_another_row() -> None:
    finished = {row.key: row for row in run(FakeWorker(), plan())}
    worker = FakeWorker()
    run(worker, plan(prompts=[Prompt("a", "other"), PROMPTS[1]]), finished=finished)
    assert [text for text, _ in worker.asked] == ["other"]


@pytest.mark.parametrize("changed", [{"near_tie": 0.5}, {"cells": True}])
def test_rows_with_other_statistics_are_made_again(changed: dict[str, Any]) -> None:
    finished = {row.key: row for row in run(FakeWorker(), plan())}
    worker = FakeWorker()
    run(worker, replace(plan(), **changed), finished=finished)
    assert len(worker.asked) == 2
    dead = {row.key: row for row in run(FakeWorker(die_at=("ar", None)), plan())}
    worker = FakeWorker()
    run(worker, replace(plan(), **changed), finished=dead)
    assert worker.asked == []


def test_both_prefixes_of_a_width_run_together() -> None:
    wanted = plan(prefixes=["prefill", "ar"])
    rows = run(FakeWorker(), wanted)
    finished = {row.key: row for row in rows if (row.width, row.prefix) != (5, "ar")}
    worker = FakeWorker()
    run(worker, wanted, finished=finished)
    assert worker.asked == [
        ("first", [(5, "prefill"), (5, "ar")]), ("second", [(5, "prefill"), (5, "ar")]),
    ]  # fmt: skip
