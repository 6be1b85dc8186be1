"""JUnit XML as CI systems read it, and cells that no spreadsheet takes for formulas."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace

from ggmlprobe.record import Config, Record, Result
from ggmlprobe.report import EXPORTS, FORMATS

Rows = Callable[..., Result]
Make = Callable[..., Record]


def test_rows_are_test_cases(result: Rows, record: Make, config: Config) -> None:
    rows = [
        result(1, compute_seconds=0.5),
        result(2, [0, 1], nan=3),
        result(3, verdict="CRASH", signal="SIGILL", stderr_tail=["GGML_ASSERT(x)"], seeds=[]),
        result(4, verdict="UNSUPPORTED", detail="no such op", seeds=[]),
        result(2, [1], config="c1"),
    ]
    configs = [config, replace(config, id="c1", threads=9)]
    root = ET.fromstring(EXPORTS["junit"](record(rows, configs=configs)))
    assert root.tag == "testsuites"
    counts = [(root.get(name)) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["5", "2", "1", "1"]
    first, second = root.findall("testsuite")
    assert (first.get("name"), second.get("name")) == ("c0 CPU", "c1 CPU")
    assert {p.get("name"): p.get("value") for p in second.iter("property")}["threads"] == "9"
    cases = first.findall("testcase")
    names = [case.get("name") or "" for case in cases]
    assert [name.rpartition(" ")[2] for name in names] == [f"width={w}" for w in (1, 2, 3, 4)]
    assert {case.get("classname") for case in cases} == {"ggmlprobe.MUL_MAT"}
    assert cases[0].get("time") == "0.5"
    assert [[child.tag for child in case] for case in cases] == [
        [], ["failure"], ["error"], ["skipped"],
    ]  # fmt: skip
    failure, error, skipped = (cases[i][0] for i in (1, 2, 3))
    assert failure.get("type") == "MISMATCH"
    assert "columns 0,1, max_ulp 1234, max_err_scaled 0.988" in (failure.get("message") or "")
    assert "nan 3" in (failure.get("message") or "")
    assert (error.get("type"), error.get("message")) == ("CRASH", "SIGILL / GGML_ASSERT(x)")
    assert skipped.get("message") == "no such op"


def test_odd_texts_stay_xml(result: Rows, record: Make) -> None:
    odd = '\x00<&">\u2028\ud800]]>'
    made = record([result(2, [1], case=odd, op=odd)], command=odd)
    root = ET.fromstring(EXPORTS["junit"](made))
    assert root.find("testsuite/testcase") is not None


def test_csv_holds_no_formulas(result: Rows, record: Make, config: Config) -> None:
    for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1"):
        row = result(2, [1], detail=text, case=text, params={text: text})
        made = record([row], configs=[replace(config, buft=text)])
        (header, cells) = csv.reader(io.StringIO(FORMATS["csv"](made)))
        assert not any(cell.startswith(("=", "+", "@")) for cell in (*header, *cells)), text
        held = dict(zip(header, cells, strict=True))
        assert held["detail"] == held["case"] == held["buft"] == f"'{text.strip()}"
    numbers = record([result(2, [1], max_abs=-1.5)])
    (header, cells) = csv.reader(io.StringIO(FORMATS["csv"](numbers)))
    assert dict(zip(header, cells, strict=True))["max_abs"] == "-1.5"
