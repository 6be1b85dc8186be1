"""JSON, JSON Lines and CSV, and the text helpers."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe import record as rec
from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report import FORMATS
from ggmlprobe.report.text import ascii_line, number, param, ranges, shortened

Rows = Callable[..., Result]
Make = Callable[..., Record]


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_formats() -> None:
    assert list(FORMATS) == ["md", "csv", "json", "jsonl"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_ascii_and_ends_its_last_line(
    name: str, result: Rows, record: Make, config: Config
) -> None:
    odd = "caf\u00e9 \u2028\x00"
    row = result(2, [1], detail=odd, params={odd: odd}, stderr_tail=[odd], case=odd)
    text = FORMATS[name](record([row], command=odd, configs=[replace(config, buft=odd)]))
    assert text.isascii()
    assert text.endswith("\n")
    assert "\x00" not in text


def test_json_is_the_record(repack_record: Record) -> None:
    text = FORMATS["json"](repack_record)
    assert rec.loads(text) == repack_record
    jsonschema.validate(json.loads(text), rec.schema())
    # one line per row, so that two files can be compared with diff
    assert sum('"upstream_case"' in line for line in text.splitlines()) == 3


def test_json_holds_no_nan(result: Rows, record: Make) -> None:
    text = FORMATS["json"](record([result(2, [0], max_abs=math.nan, nmse_width=math.inf)]))
    row = rec.loads(text).results[0]
    assert row.max_abs is None
    assert row.nmse_width is None


def test_jsonl_has_one_object_per_result(repack_record: Record) -> None:
    rows = [json.loads(line) for line in FORMATS["jsonl"](repack_record).splitlines()]
    assert [row["width"] for row in rows] == [1, 4, 5]
    assert [row["class"] for row in rows] == ["A", "B", "B"]
    assert rows[1]["columns_differing"] == [0, 1, 2, 3]
    assert {(row["library_version"], row["threads"], row["device"]) for row in rows} == {
        ("0.25.3", 2, "CPU")
    }
    assert set(rec.to_dict(repack_record.results[0])) < set(rows[0])


def test_csv_has_one_line_per_result(repack_record: Record) -> None:
    rows = lines_of(FORMATS["csv"](repack_record))
    assert [row["width"] for row in rows] == ["1", "4", "5"]
    assert [row["class"] for row in rows] == ["A", "B", "B"]
    assert [row["columns_differing"] for row in rows] == ["", "0 1 2 3", "0 1 2 3"]
    assert rows[0]["type_a"] == "q4_K"
    assert rows[1]["max_err_scaled"] == "0.98765"
    assert rows[0]["signal"] == ""
    assert rows[0]["max_ulp"] == "0"


def test_csv_of_what_a_scheduler_chose(result: Rows, record: Make) -> None:
    row = result(32, backends=["CPU", "BLAS"], weights_buft="CPU", openblas_threads=2)
    (line,) = lines_of(FORMATS["csv"](record([row])))
    assert (line["backends"], line["weights_buft"], line["openblas_threads"]) == (
        "CPU BLAS", "CPU", "2",
    )  # fmt: skip


def test_csv_of_several_ops_and_configs(result: Rows, record: Make, config: Config) -> None:
    rows = [
        result(1, params={"k": 4, "bs": [1, 1]}),
        result(2, params={"kv": 0, "width": 9}, config="c1", detail='say "a,b"\nc'),
    ]
    configs = [config, replace(config, id="c1", env={"A": "0", "B": None})]
    first, second = lines_of(FORMATS["csv"](record(rows, configs=configs)))
    assert (first["k"], first["bs"], first["kv"], first["env"]) == ("4", "[1,1]", "", "")
    assert (second["k"], second["kv"], second["env"]) == ("", "0", "A=0 B=")
    assert (second["width"], second["param_width"]) == ("2", "9")
    assert second["detail"] == 'say "a,b" c'


def test_csv_without_rows_has_the_same_columns(result: Rows, record: Make) -> None:
    empty = FORMATS["csv"](record([]))
    full = FORMATS["csv"](record([result(1, params={})]))
    assert empty == full.splitlines()[0] + "\n"


@given(st.sets(st.integers(0, 40)))
def test_ranges_name_every_integer_and_no_other(values: set[int]) -> None:
    named: set[int] = set()
    for part in filter(None, ranges(values).split(",")):
        first, _, last = part.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    assert named == values


@pytest.mark.parametrize(
    ("values", "text"),
    [([], ""), ([3], "3"), ([8, 9], "8,9"), ([0, 1, 2, 3, 7], "0-3,7"), ([2, 1, 1, 0], "0-2")],
)
def test_ranges(values: list[int], text: str) -> None:
    assert ranges(values) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (12345678, "12345678"), (0.98765, "0.988"), (1.2345e-13, "1.23e-13")],
)
def test_number(value: float | None, text: str) -> None:
    assert number(value) == text


def test_param() -> None:
    values = ["f16", 4096, 0.125, 8.0, True, None, [1, 1], (2, 3)]
    assert [param(v) for v in values] == [
        "f16",
        "4096",
        "0.125",
        "8",
        "1",
        "-",
        "[1,1]",
        "[2,3]",
    ]


@given(st.text())
def test_ascii_line(text: str) -> None:
    line = ascii_line(text)
    assert line.isascii()
    assert line.isprintable()


def test_shortened() -> None:
    assert shortened("x" * 40) == "x" * 40
    assert shortened("x" * 41) == "x" * 37 + "..."
