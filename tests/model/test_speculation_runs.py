"""Prompts generated in children that answer as planned: rows, blame, totals, and their table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from model_rows import config, header

from ggmlprobe import record
from ggmlprobe.codec import to_dict
from ggmlprobe.journal import Journal
from ggmlprobe.model.prompts import Prompt
from ggmlprobe.model.speculated import Speculated, TokenDifference
from ggmlprobe.model.speculation_runs import Children, Plan, record_of, run, totals
from ggmlprobe.report.model_speculate import FORMATS
from ggmlprobe.worker.protocol import Event, ModelRequest, ModelSpec
from ggmlprobe.worker.supervisor import Worker

PROMPTS = [Prompt("a", "first"), Prompt("b", "second")]
PLAN = Plan(PROMPTS, 12, 3, True, "draft", "small.gguf", [0.0, 0.1])
BLANK = PLAN.rows(config(), PROMPTS[0])[0]


class FakeWorker:
    """Answers with empty rows; of a prompt named in `die` only with the first."""

    def __init__(self, die: str | None = None) -> None:
        self.die = die
        self.asked: list[dict[str, Any]] = []

    def run(self, request: ModelRequest) -> Iterator[Event]:
        self.asked.append(request.args)
        for i, blank in enumerate(request.args["blanks"]):
            yield {"event": "begin", "phase": "draft", "seed": None, "width": None, "round": 0}
            if request.args["text"] == self.die and i == 1:
                yield {"event": "died", "verdict": "CRASH", "signal": "SIGILL", "stderr": ["x"],
                       "phase": "draft", "seed": None, "width": None}  # fmt: skip
                return
            yield {"event": "speculated", "data": blank}
        yield {"event": "done", "compute_seconds": 0.5, "peak_rss_bytes": 7}


def children(worker: FakeWorker) -> Children:
    return Children({"c0": cast("Worker", worker)}, ModelSpec("m.gguf"), ModelSpec("s.gguf"), PLAN)


def test_rows_of_a_prompt() -> None:
    rows = PLAN.rows(config(), PROMPTS[0])
    assert [(row.arm, row.recheck, row.draft) for row in rows] == [
        ("draft", 0.0, "small.gguf"), ("draft", 0.1, "small.gguf"), ("wrong", 0.0, None),
        ("user", 0.0, None),
    ]  # fmt: skip
    assert PLAN.total(2) == 16
    assert len({row.key for row in rows}) == 4


def test_what_died_is_a_row_and_the_next_prompt_runs() -> None:
    worker = FakeWorker(die="first")
    work = children(worker)
    rows = list(run(PLAN, [config()], {}, work.generate))
    assert [row.verdict for row in rows] == ["INVARIANT"] + ["CRASH"] * 3 + ["INVARIANT"] * 4
    assert rows[1].signal == "SIGILL"
    assert "--no-extra-bufts" in (rows[1].detail or "")
    assert worker.asked[0]["draft"]["path"] == "s.gguf"
    assert worker.asked[0]["rounds"] == 4
    assert work.compute_seconds == 0.5


def test_a_prompt_of_the_journal_is_not_run_again() -> None:
    done = {row.key: row for row in PLAN.rows(config(), PROMPTS[0])}
    worker = FakeWorker()
    rows = list(run(PLAN, [config()], done, children(worker).generate))
    assert len(rows) == 8
    assert [each["text"] for each in worker.asked] == ["second"]
    # arms take turns, so that one which is missing brings the others with it
    done.popitem()
    list(run(PLAN, [config()], done, children(worker).generate))
    assert [each["text"] for each in worker.asked[1:]] == ["first", "second"]


def filled(
    prompt: str, verdict: str = "INVARIANT", recheck: float = 0.0, **more: Any
) -> Speculated:
    found = {
        "tokens": 12, "drafts": 4, "drafted": 10, "accepted": 6, "mean_length": 2.5, "ratio": 0.5,
        "ratio_low": 0.4, "ratio_high": 0.625, "token_seconds": [0.1], "rechecked": 1,
        "plain_token_seconds": [0.2],
    }  # fmt: skip
    return replace(BLANK, prompt=prompt, verdict=verdict, recheck=recheck, **(found | more))


APART = TokenDifference(
    5, 20, 7, " a|b", 8, " ü", [2.0, 1.5], [1.5, 1.75], 0.5, 0.25, 4, 1, True
)  # fmt: skip
ROWS = [
    filled("a"), filled("b", "MISMATCH", difference=APART),
    filled("a", recheck=0.1), filled("b", recheck=0.1, ratio=2.0, ratio_low=1.6, ratio_high=2.5),
    replace(filled("c"), verdict="CRASH", detail="SIGILL in phase draft", tokens=0),
]  # fmt: skip


def test_totals_per_margin() -> None:
    none, tenth = totals(ROWS)
    assert (none.prompts, none.equal, none.recheck) == (2, 1, 0.0)
    assert none.equal_rate == 0.5
    assert (none.drafted, none.accepted, none.mean_length, none.tokens) == (20, 12, 2.5, 24)
    assert none.ratio == pytest.approx(0.5)
    # two equal errors: the mean's is smaller by the root of two
    assert none.ratio_low == pytest.approx(0.5 * (0.4 / 0.5) ** (1 / 2**0.5))
    assert (tenth.prompts, tenth.equal, tenth.rechecked) == (2, 2, 2)
    assert tenth.ratio == pytest.approx(1.0)


def test_totals_of_what_is_not_told() -> None:
    (made,) = totals([filled("a", drafted=None, accepted=None, drafts=None, ratio=None)])
    assert made.drafted is made.accepted is made.mean_length is made.ratio is None


def test_the_record_reads_back_and_every_format_renders() -> None:
    made = record_of(header(), ROWS, False)
    again = record.loads(FORMATS["json"](made))
    assert again == made
    table = FORMATS["md"](made)
    assert table.isascii()
    assert "| MISMATCH " in table
    assert "token 5 (row 1 of a block of 4): plain `7(' a|b')`, here `8(' \\xfc')`" in table
    assert "logits plain 2.0000 / 1.5000, here 1.5000 / 1.7500" in table
    assert "margin 0.5 and 0.25; the target's own argmax" in table
    assert "1/2" in table
    assert "2/2" in table
    assert "- CRASH: SIGILL in phase draft (c/draft)" in table
    assert len(FORMATS["jsonl"](made).splitlines()) == len(ROWS)
    assert len(FORMATS["csv"](made).splitlines()) == len(ROWS) + 1


def test_arms_that_differ_in_the_same_token_share_a_line() -> None:
    rows = [filled("a", "MISMATCH", difference=APART, recheck=margin) for margin in (0.0, 0.1)]
    later = replace(APART, position=6)
    rows.append(replace(filled("a", "MISMATCH", difference=later), arm="wrong"))
    table = FORMATS["md"](record_of(header(), rows, False))
    assert table.count("- MISMATCH") == 2
    assert "; also draft recheck 0.1" in table
    assert "MISMATCH a, wrong: token 6" in table


def test_an_empty_record_renders() -> None:
    made = record_of(header(), [], True)
    assert "interrupted" in FORMATS["md"](made)
    assert FORMATS["csv"](made).count("\n") == 1
    assert FORMATS["jsonl"](made) == ""


def test_a_journal_keeps_the_rows(tmp_path: Any) -> None:
    path = tmp_path / "run.jsonl"
    with Journal.open(path, header()) as journal:
        for row in ROWS:
            journal.append(row)
    other = replace(header(), configs=[config("c7")])
    with Journal.open(path, other, resume=True) as journal:
        assert journal.partial.speculated == [replace(row, config="c7") for row in ROWS]
        assert to_dict(journal.partial.speculated[1].difference) == to_dict(APART)
