"""Times in the table and in CSV, and what the serial class costs, from planted times."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ggmlprobe.record import CaseClasses, Record, Result, TimeStats
from ggmlprobe.report import FORMATS

Make = Callable[..., Result]
MIB = 2**20
SECONDS = {1: 10e-6, 4: 20e-6, 5: 22e-6}


def stats(seconds: float, **changes: Any) -> TimeStats:
    made = TimeStats(
        seconds, seconds * 0.99, seconds * 1.03, 5, 400, 128 * MIB, 32 * MIB, hot=False, drift=0.0,
        gbps=12.5, gflops=40.0, samples=[seconds * (1 + i / 1000) for i in range(-2, 3)],
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture
def timed(result: Make, record: Callable[..., Record]) -> Record:
    rows = [result(w, [0] if w > 4 else [], time=stats(s)) for w, s in SECONDS.items()]
    rows[2] = result(5, [0], time=stats(SECONDS[5], samples=stats(SECONDS[5]).samples[::-1]))
    return record(rows, classes=[CaseClasses(rows[0].case, "c0", [[1, 4], [5]], True)])


def tables(record: Record) -> list[list[dict[str, str]]]:
    """Rows of each pipe table by column name."""
    made = []
    for block in FORMATS["md"](record).split("\n\n"):
        if block.startswith("|"):
            lines = block.splitlines()
            cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
            made.append([dict(zip(cells[0], row, strict=True)) for row in cells[2:]])
    return made


def test_time_per_token_and_against_width_one(timed: Record) -> None:
    rows = tables(timed)[0]
    assert [row["us/token"] for row in rows] == ["10", "5", "4.4"]
    assert [row["x width 1"] for row in rows] == ["1", "0.5", "0.44"]
    assert {row["+/-%"] for row in rows} == {"2"}
    assert {(row["GB/s"], row["GFLOP/s"]) for row in rows} == {("12.5", "40")}


def test_the_price_of_the_serial_class(timed: Record) -> None:
    (row,) = tables(timed)[1]
    assert (row["width"], row["in class A"]) == ("5", "4+1")
    assert row["x time"] == f"{30 / 22:.3f}"
    low, high = map(float, row["95 %"].split("-"))
    assert low < 30 / 22 < high


def test_no_columns_without_times(result: Make, record: Callable[..., Record]) -> None:
    made = record([result(1)])
    assert "us/token" not in tables(made)[0][0]
    assert "- time" not in FORMATS["md"](made)


def test_a_row_without_a_time_has_dashes(timed: Record) -> None:
    rows = [replace(row, time=None, time_note="SIGABRT") if row.width == 1 else row
            for row in timed.results]  # fmt: skip
    made = replace(timed, results=rows)
    first, second, _ = tables(made)[0]
    assert (first["us/token"], first["GB/s"]) == ("-", "-")
    assert second["x width 1"] == "-"
    assert "- time at width 1: SIGABRT" in FORMATS["md"](made)


def test_how_times_were_taken(timed: Record) -> None:
    text = FORMATS["md"](timed)
    assert "median of 5 graphs of 400 ops" in text
    assert "weights: 128 MiB in turn, cache 32 MiB" in text
    hot = [replace(row, time=stats(1e-3, hot=True)) for row in timed.results]
    assert "weights: hot: one set of weights" in FORMATS["md"](replace(timed, results=hot))


def test_weights_and_caches_are_those_of_each_device(timed: Record) -> None:
    (cpu,) = timed.configs
    gpu = replace(cpu, id="c1", device=replace(cpu.device, name="Vulkan0"))
    large = stats(1e-5, weights_bytes=512 * MIB, cache_bytes=128 * MIB)
    there = [replace(row, config="c1", time=large) for row in timed.results]
    both = replace(timed, configs=[cpu, gpu], results=[*timed.results, *there])
    said = "CPU 128 MiB in turn, cache 32 MiB; Vulkan0 512 MiB in turn, cache 128 MiB\n"
    assert f"weights: {said}" in FORMATS["md"](both)
    alike = [replace(row, config="c1") for row in timed.results]
    text = FORMATS["md"](replace(both, results=[*timed.results, *alike]))
    assert "weights: 128 MiB in turn, cache 32 MiB\n" in text


def test_notes_are_gathered(timed: Record) -> None:
    rows = [replace(row, time_note="drifted by +9%") for row in timed.results]
    assert "- time at width 1,4,5: drifted by +9%" in FORMATS["md"](replace(timed, results=rows))


def test_csv_has_times(timed: Record) -> None:
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](timed))))
    assert [float(row["time_seconds"]) for row in rows] == list(SECONDS.values())
    assert float(rows[0]["time_low_seconds"]) == pytest.approx(9.9e-6)
    assert float(rows[0]["time_high_seconds"]) == pytest.approx(10.3e-6)
    assert {row["gbps"] for row in rows} == {"12.5"}
