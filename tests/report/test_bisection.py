"""Bisections and matrices of records made by hand, and ranges with steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ggmlprobe import record as rec
from ggmlprobe.ranges import parse_range
from ggmlprobe.record import AxisRun, Bisection, CaseClasses, Record, Result
from ggmlprobe.report import markdown, matrix
from ggmlprobe.report.text import ranges, steps

MakeResult = Callable[..., Result]
MakeRecord = Callable[..., Record]


def table_rows(text: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


@given(st.sets(st.integers(1, 2000), max_size=80))
def test_steps_name_exactly_the_values(values: set[int]) -> None:
    text = steps(values)
    assert set(parse_range(text) if text else ()) == values
    assert len(text.split(",")) <= max(1, len(values))


def test_steps_read_as_ranges_do() -> None:
    assert steps([1, 2, 3, 5]) == ranges([1, 2, 3, 5]) == "1-3,5"
    assert steps([1, 2, 4, 6, 8, 10]) == "1,2-10+2"
    assert steps([256, 512, 768, 1024, 2048]) == "256-1024+256,2048"
    assert steps([7, 8]) == "7,8"
    assert steps([]) == ""


def bisected(
    record: MakeRecord, result: MakeResult, letters: Mapping[int, str],
    columns: Callable[[int], list[int]] = lambda width: list(range(width)), **changes: Any,
) -> Record:  # fmt: skip
    results = [result(w, [] if c == "A" else columns(w)) for w, c in letters.items()]
    case = results[0].case
    runs = [AxisRun("b0", r.width, "c0", case, letters[r.width], r.verdict) for r in results]
    given: dict[str, Any] = {
        "id": "b0", "axis": "width", "config": "c0", "case": case, "first": min(letters),
        "last": max(letters), "step": 1, "exhaustive": False,
        "values": max(letters) - min(letters) + 1, "runs": len(letters),
    }  # fmt: skip
    whole = replace(record(results), runs=runs, bisections=[Bisection(**given | changes)])
    assert rec.loads(rec.dumps(rec.to_dict(whole))).runs == runs
    return whole


def test_values_of_a_class_share_a_line(record: MakeRecord, result: MakeResult) -> None:
    letters = {1: "A", 2: "A", 3: "B", 4: "B", 8: "B", 9: "A"}
    text = markdown.table(bisected(record, result, letters))
    rows = table_rows(text)
    assert [(row["width"], row["class"]) for row in rows] == [
        ("1,2,9", "A"), ("3,4,8", "B"), ("5-7", "-"),
    ]  # fmt: skip
    assert [row["verdict"] for row in rows] == ["INVARIANT", "MISMATCH", "not probed"]
    assert [row["columns"] for row in rows] == ["-", "all", "-"]


def test_a_backend_tells_lines_of_a_class_apart(record: MakeRecord, result: MakeResult) -> None:
    whole = bisected(record, result, dict.fromkeys((1, 31, 32, 33), "A"))
    ran = [replace(r, backends=["BLAS" if r.width >= 32 else "CPU"]) for r in whole.results]
    rows = table_rows(markdown.table(replace(whole, results=ran)))
    seen = [(row["width"], row["class"], row["backend"]) for row in rows]
    assert seen == [("1,31", "A", "CPU"), ("32,33", "A", "BLAS"), ("2-30", "-", "-")]
    # of one device nothing is said
    assert "backend" not in table_rows(markdown.table(whole))[0]


def test_two_patterns_of_columns_are_both_named(record: MakeRecord, result: MakeResult) -> None:
    letters = {1: "A", 2: "A", 4: "B", 5: "B"}
    made = bisected(record, result, letters, lambda width: [0, 1, 2, 3])
    assert table_rows(markdown.table(made))[1]["columns"] == "all, some"


def test_what_was_found_is_said(record: MakeRecord, result: MakeResult) -> None:
    letters = {1: "A", 2: "B", 40: "B"}
    made = bisected(
        record, result, letters, boundaries=[[1, 2]], assumed=[[2, 40]],
        first_differing=2, unsettled=[[50, 60]], returning={"A": [1, 41]}, runs=3, values=60,
    )  # fmt: skip
    text = markdown.table(made)
    for line in (
        "- boundaries: 1|2",
        "- first differing width: 2",
        "- comes back: A at 41",
        "- runs: 3 of 60 values",
    ):
        assert f"\n{line}\n" in text
    assert "not settled, boundaries lie between: 50|60" in text
    assert "at 2|40 (--exhaustive runs them)" in text


def test_many_boundaries_are_counted(record: MakeRecord, result: MakeResult) -> None:
    bounds = [[w, w + 1] for w in range(1, 31)]
    text = markdown.table(bisected(record, result, {1: "A", 2: "A"}, boundaries=bounds))
    assert "12|13 and 18 more" in text


def test_pairs_that_agree_all_the_same(record: MakeRecord, result: MakeResult) -> None:
    made = bisected(record, result, {1: "A", 4: "B", 8: "C"}, transitive=False)
    case = made.results[0].case
    classes = [CaseClasses(case, "c0", [[1], [4], [8]], False, [[4, 8]])]
    assert "these agree all the same: `4~8`" in markdown.table(replace(made, classes=classes))


def test_matrix_has_a_line_for_each_case_and_config(record: MakeRecord, result: MakeResult) -> None:
    config = record([]).configs[0]
    other = replace(config, id="c1", threads=1, threads_batch=1)
    rows = []
    for name in ("c0", "c1"):
        for type_a in ("q4_K", "q8_0"):
            params = {"type_a": type_a, "m": 512}
            rows += [result(w, config=name, params=params) for w in (1, 2)]
    made = replace(record(rows), configs=[config, other])
    lines = table_rows(matrix.table(made))
    assert [(line["type_a"], line["threads"]) for line in lines] == [
        ("q4_K", "2"), ("q4_K", "1"), ("q8_0", "2"), ("q8_0", "1"),
    ]  # fmt: skip
    assert all(line["first"] == "-" for line in lines)


def test_matrix_marks_width_that_was_not_run(record: MakeRecord, result: MakeResult) -> None:
    rows = [result(w, params={"type_a": t}) for t, w in (("f32", 1), ("f32", 3), ("f16", 1))]
    lines = table_rows(matrix.table(record(rows)))
    assert lines[1]["3"] == ""
