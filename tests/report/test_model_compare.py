"""Comparisons as a table: what varies, what was found, ASCII only."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

from model_rows import config, header, made

from ggmlprobe.model.rates import record_of
from ggmlprobe.model.record import BlockComparison, PairStats
from ggmlprobe.record import Config, Record
from ggmlprobe.report import FORMATS
from ggmlprobe.report.model_compare import statistic


def record(*rows: BlockComparison, configs: tuple[Config, ...] = ()) -> Record:
    return record_of(header(*configs), list(rows), False)


def table(text: str, first: str) -> list[dict[str, str]]:
    """The table whose first column has this name, as rows by column."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} "))
    head, _, *rest = lines[start:]

    def cells(line: str) -> list[str]:
        parts = line.replace("\\|", "\0").strip("|").split("|")
        return [cell.strip().replace("\0", "|") for cell in parts]

    rows = rest[: next((i for i, line in enumerate(rest) if not line), len(rest))]
    return [dict(zip(cells(head), cells(row), strict=True)) for row in rows]


def crashed(**of: Any) -> BlockComparison:
    return BlockComparison(
        "c0", "dead", "given", "0" * 16, False, 12, 5, "prefill", "CRASH",
        "SIGILL in phase block; use --no-extra-bufts", signal="SIGILL", **of,
    )  # fmt: skip


def test_pairs_are_printed_as_the_first_tool_did() -> None:
    row = made()
    pairs = [
        PairStats("l_ar - l_single", 490, -0.0079484, 0.0012221, 0.0275641, 0.0005262),
        PairStats("l_ar - l_block", 490, None, None, None, None),
        PairStats("l_single - l_block", 490, 0.0012951, 1.5e-9, 0.0, 0.0),
    ]
    text = FORMATS["md"](replace(record(row), pairs=pairs))
    assert table(text, "pair") == [
        {"pair": "l_ar - l_single", "cells": "490", "mean": "-0.007948", "var": "0.001222",
         "mean|d|": "0.027564", "var|d|": "0.000526"},
        {"pair": "l_ar - l_block", "cells": "490", "mean": "-", "var": "-", "mean|d|": "-",
         "var|d|": "-"},
        {"pair": "l_single - l_block", "cells": "490", "mean": "+0.001295", "var": "1.50e-09",
         "mean|d|": "0.000000", "var|d|": "0.000000"},
    ]  # fmt: skip


def test_a_number_that_is_not_zero_is_not_printed_as_zero() -> None:
    assert statistic(0.0) == "0.000000"
    assert float(statistic(4e-7)) == 4e-7
    assert statistic(-4e-7, signed=True).startswith("-4")


def test_columns_show_only_if_they_vary() -> None:
    one = FORMATS["md"](record(made()))
    (row,) = table(one, "width")
    assert "prompt" not in row
    assert "prompt=p0" in one
    configs = (config("c0", fa="off"), config("c1", fa="on"))
    rows = [made(p, w, config=c) for c in ("c0", "c1") for p in ("a", "b") for w in (2, 5)]
    many = table(FORMATS["md"](record(*rows, configs=configs)), "fa ")
    assert [(r["fa"], r["prompt"], r["width"]) for r in many] == [
        (fa, p, w) for fa in ("off", "on") for p in ("a", "b") for w in ("2", "5")
    ]


def test_a_flip_is_a_line_for_its_position() -> None:
    row = made(flips_at=(6,))
    text = FORMATS["md"](record(row))
    (line,) = [line for line in text.splitlines() if line.startswith("- FLIP")]
    first = row.flip_list[0]
    assert f"pos=6 (window t={first.window}, block offset j={first.offset})" in line
    assert f"single argmax=`{first.single_token}(' {first.single_token}')`" in line
    assert "block argmax=`0(' 0')`" in line
    assert "also in windows t=3-6" in line
    assert "drift" not in line
    away = replace(first, off_trajectory=True, single_piece="`\u00fc\n")
    other = FORMATS["md"](replace(record(row), flip_list=[away]))
    assert "prefill-vs-incremental drift" in other
    assert r"`` " + f"{first.single_token}('`\\xfc\\n') ``" in other


def test_margins_and_offsets_show_where_something_was_found() -> None:
    calm, flipped = FORMATS["md"](record(made())), FORMATS["md"](record(made(flips_at=(6,))))
    assert "top-2 margin" not in calm
    assert "offset j" not in calm
    assert sum(int(r["flips"]) for r in table(flipped, "top-2 margin")) == 5
    assert [r["flips"] for r in table(flipped, "offset j")] == ["1"] * 5


def test_what_did_not_run_is_named_with_its_reason() -> None:
    text = FORMATS["md"](record(made(), crashed()))
    assert "- CRASH: SIGILL in phase block; use --no-extra-bufts (dead/5)" in text
    (row,) = [r for r in table(text, "prompt") if r["prompt"] == "dead"]
    assert (row["verdict"], row["cells"], row["mean|d|"]) == ("CRASH", "0", "-")


def test_checks_and_drift_are_below_the_tables() -> None:
    drift = PairStats("l_block prefill - l_block ar", 40, 0.5, 0.25, 0.5, 0.0)
    ar = replace(made(prefix="ar"), drift=drift, drift_cells_differing=30, seconds=2.0)
    text = FORMATS["md"](record(replace(made(), seconds=15.0), ar))
    assert "- self-check t=0 single: none of 10 rows differ" in text
    assert "t > 0: 30 of 40 cells differ, mean +0.500000" in text
    assert "prefill took 15.0 s, ar 2.0 s: 7.5 times" in text


def test_every_format_is_ascii_whatever_the_names() -> None:
    row = made("gr\u00fc\u00dfe\n|", flips_at=(3,))
    for name, render in FORMATS.items():
        assert render(record(row)).isascii(), name


def test_flat_formats_have_a_line_for_each_comparison() -> None:
    rows = (made("a", shift=0.5), crashed())
    lines = list(csv.DictReader(io.StringIO(FORMATS["csv"](record(*rows)))))
    assert [(line["prompt"], line["verdict"]) for line in lines] == [
        ("a", "MISMATCH"), ("dead", "CRASH"),
    ]  # fmt: skip
    assert float(lines[0]["single_block_mean"]) == rows[0].pairs[2].mean
    assert lines[1]["single_block_mean"] == ""
    assert lines[0]["fa"] == "off"
    objects = [json.loads(line) for line in FORMATS["jsonl"](record(*rows)).splitlines()]
    assert [one["cells"] for one in objects] == [50, 0]
    assert objects[0]["file"] == "m.gguf"


def test_a_run_that_was_interrupted_at_once_still_renders() -> None:
    empty = record_of(header(), [], True)
    text = FORMATS["md"](empty)
    assert "0 of 0 cells differ" in text
    assert "interrupted, rows are missing" in text
    assert FORMATS["jsonl"](empty) == ""
    assert FORMATS["csv"](empty).count("\n") == 1
