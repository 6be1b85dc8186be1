"""The table of `ab`: the shape of a report on a fix, from planted verdicts and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ggmlprobe.dispatch.price import Ratio
from ggmlprobe.record import Config, Record, Result, SeedResult, Slowdown, dumps, loads, to_dict
from ggmlprobe.report import FORMATS
from ggmlprobe.report.ab import mean

Make = Callable[..., Result]
LENGTHS = (2048, 7168, 16384)


def seeds(mark: str) -> list[SeedResult]:
    return [SeedResult(1, [], 0, 0, [mark * 16], True)]


@pytest.fixture
def fixed(result: Make, record: Callable[..., Record], config: Config) -> Record:
    """Three lengths at widths 1-4: A differs from width 3 on, B nowhere and is slower there."""
    rows, times = [], []
    for kv in LENGTHS:
        for width in (1, 2, 3, 4):
            wide = width > 2
            for side, columns in (("c0", [0] if wide else []), ("c1", [])):
                mark = "a" if side == "c0" or not wide else "b"
                rows.append(
                    result(width, columns, params={"kv": kv}, seeds=seeds(mark), config=side)
                )
            ratio = {1: 1.0, 2: 1.01, 3: 1.15, 4: 1.17}[width]
            null = (1.001, 0.99, 1.012)
            times.append(Slowdown(rows[-1].case, width, ratio, ratio - 0.01, ratio + 0.01, *null))
    other = replace(config, id="c1", library=replace(config.library, path="after/bin"))
    return record(rows, configs=[config, other], ab=times)


def lines(record: Record) -> list[str]:
    return FORMATS["md"](record).splitlines()


def test_pass_counts_and_cost_as_in_the_report(fixed: Record) -> None:
    made = lines(fixed)
    assert "- pass: 6/12 (A) -> 12/12 (B)" in made
    assert any(line.startswith("- time at width 1: B/A 1.000 (0.99") for line in made)
    assert any(
        line.startswith("- time at widths whose verdict changed (3,4): B/A 1.160") for line in made
    )
    assert any(line.startswith("- time at other widths (2): B/A 1.010") for line in made)
    assert sum("A/A 1.001" in line for line in made) == 3


def test_a_control_that_differs_from_itself_is_told(fixed: Record) -> None:
    assert not any("interval without 1" in line for line in lines(fixed))
    assert fixed.ab is not None
    noisy = [replace(each, null_low=1.02) if each.width == 3 else each for each in fixed.ab]
    (told,) = [line for line in lines(replace(fixed, ab=noisy)) if "interval without 1" in line]
    assert told.startswith("- A/A interval without 1 in 3 of 12 (width 3): ")


def test_a_row_per_case_and_width_with_both_sides(fixed: Record) -> None:
    table = [line for line in lines(fixed) if line.startswith("|")]
    assert len(table) == 2 + 12
    head = [cell.strip() for cell in table[0].strip("|").split("|")]
    third = [cell.strip() for cell in table[4].strip("|").split("|")]
    row = dict(zip(head, third, strict=True))
    assert row == {
        "kv": "2048", "width": "3", "class A": "-", "verdict A": "MISMATCH", "class B": "-",
        "verdict B": "INVARIANT", "same bits": "no", "time B/A": "1.150", "95 %": "1.140-1.160",
        "time A/A": "1.001", "A/A 95 %": "0.990-1.012",
    }  # fmt: skip


def test_the_sides_are_named_by_what_differs(fixed: Record) -> None:
    made = lines(fixed)
    assert "- A: path build/bin" in made
    assert "- B: path after/bin" in made


def test_a_side_that_did_not_run(fixed: Record) -> None:
    rows = [
        replace(row, verdict="CRASH", seeds=[]) if (row.config, row.width) == ("c1", 4) else row
        for row in fixed.results
    ]
    times = [each for each in fixed.ab or [] if each.width != 4]
    made = lines(replace(fixed, results=rows, ab=times))
    assert "- pass: 6/12 (A) -> 9/12 (B)" in made
    crashed = [line for line in made if "CRASH" in line and line.startswith("|")]
    assert len(crashed) == 3
    assert all(line.count(" - ") >= 4 for line in crashed)


def test_without_any_time(fixed: Record) -> None:
    made = lines(replace(fixed, ab=[]))
    assert "- pass: 6/12 (A) -> 12/12 (B)" in made
    assert not any("time" in line for line in made)


def test_comparisons_survive_json(fixed: Record) -> None:
    assert loads(dumps(to_dict(fixed))).ab == fixed.ab


def test_the_mean_of_ratios() -> None:
    made = mean([Ratio(2.0, 1.0, 4.0), Ratio(0.5, 0.25, 1.0)])
    assert made.ratio == pytest.approx(1.0)
    # two independent errors of the same size: divided by the root of two
    assert made.high == pytest.approx(2 ** (1 / 2**0.5))
    assert made.low == pytest.approx(1 / made.high)


def test_other_records_keep_their_table(result: Make, record: Callable[..., Any]) -> None:
    assert not any("pass:" in line for line in lines(record([result(1)])))
