"""Comparisons pooled into totals and rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from model_rows import config, header, made

from ggmlprobe.model.rates import rates, record_of
from ggmlprobe.record import loads
from ggmlprobe.report import FORMATS


def test_rates_are_over_full_windows() -> None:
    row = made(flips_at=(11,), shift=0.5)
    assert row.flips == 4  # of which one in a full window; window 11 is a single token
    (rate,) = rates([row], [config()])
    assert (rate.axis, rate.value, rate.width) == ("width", "5", 5)
    assert (rate.windows, rate.windows_flipped, rate.cells, rate.flips) == (8, 1, 40, 1)
    assert rate.flip_rate == 1 / 40
    assert rate.flip_low is not None
    assert rate.flip_high is not None
    assert rate.flip_low < 1 / 40 < rate.flip_high
    assert rate.differing_rate == 1.0


def test_an_axis_shows_once_it_has_two_values() -> None:
    configs = [config("c0", fa="off"), config("c1", fa="on")]
    rows = [
        made(width=w, config=c, shift=0.5 if c == "c0" else 0.0)
        for c in ("c0", "c1")
        for w in (2, 4)
    ]
    found = {(r.axis, r.value, r.width): r for r in rates(rows, configs)}
    assert set(found) == {
        ("width", "2", 2), ("width", "4", 4), ("fa", "off", 2), ("fa", "on", 2),
        ("fa", "off", 4), ("fa", "on", 4),
    }  # fmt: skip
    assert found["fa", "off", 4].differing_rate == 1.0
    assert found["fa", "on", 4].differing_rate == 0.0
    assert found["width", "4", 4].differing_rate == 0.5


def test_threads_are_one_axis_while_both_widths_have_as_many() -> None:
    configs = [config("c0", threads=1), config("c1", threads=2)]
    rows = [made(config=c) for c in ("c0", "c1")]
    assert {r.axis for r in rates(rows, configs)} == {"width", "threads"}
    configs[1] = replace(configs[1], threads_batch=4)
    assert {r.axis for r in rates(rows, configs)} == {"width", "threads", "threads_batch"}


def test_prompts_come_hardest_first() -> None:
    rows = [
        made("easy", kind="edit"),
        made("hard", flips_at=(2, 3, 5, 7), kind="prose"),
        made("middle", flips_at=(4,), kind="prose"),
    ]
    found = rates(rows, [config()])
    assert [r.value for r in found if r.axis == "prompt"] == ["hard", "middle", "easy"]
    assert [r.value for r in found if r.axis == "kind"] == ["prose", "edit"]


def test_windows_that_both_prefixes_ran_count_once() -> None:
    rows = [made(prefix=prefix, flips_at=(4,)) for prefix in ("prefill", "ar")]
    found = {(r.axis, r.value): r for r in rates(rows, [config()])}
    assert found["width", "5"].cells == 40
    assert found["prefix", "ar"].cells == found["prefix", "prefill"].cells == 40


def test_record_has_the_totals_and_reads_back() -> None:
    rows = [made("a", flips_at=(4,)), made("b", shift=0.25)]
    record = record_of(header(), rows, False)
    assert record.cells == sum(row.cells for row in rows)
    assert record.cells_differing == sum(row.cells_differing for row in rows)
    assert record.flips == len(record.flip_list) == rows[0].flips
    assert [pair.pair for pair in record.pairs] == [
        "l_ar - l_single", "l_ar - l_block", "l_single - l_block",
    ]  # fmt: skip
    halves = [row.pairs[2].mean or 0.0 for row in rows]
    assert record.pairs[2].mean == pytest.approx(sum(halves) / 2)
    assert loads(FORMATS["json"](record)) == record


def test_rows_that_did_not_run_are_in_no_rate() -> None:
    dead = replace(made("dead"), verdict="CRASH", cells=0, by_offset=[], pairs=[], margins=[])
    record = record_of(header(), [dead], False)
    assert (record.cells, record.rates, record.pairs) == (dead.cells, [], [])
    assert "CRASH" in FORMATS["md"](record)
