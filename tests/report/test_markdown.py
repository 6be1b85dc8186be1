"""The table that is attached to an issue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ggmlprobe.record import CaseClasses, Config, Record, Result
from ggmlprobe.report.markdown import table

Rows = Callable[..., Result]
Make = Callable[..., Record]

BUILD = "ggml 0.25.3 (0c1e57098)"
REPACK = """\
`ggmlprobe op mul_mat --type q4_K --widths 1,4,5`

MUL_MAT type_a=q4_K type_b=f32 m=512 k=1024

| width | class | verdict   | columns | max_ulp | max_err_scaled | nmse_serial | nmse_width |
|------:|-------|-----------|---------|--------:|---------------:|------------:|-----------:|
|     1 | A     | INVARIANT | -       |       0 |              0 |    1.23e-13 |    2.5e-13 |
|     4 | B     | MISMATCH  | all     |    1234 |          0.988 |    1.23e-13 |    2.5e-13 |
|     5 | B     | MISMATCH  | 0-3     |    1234 |          0.988 |    1.23e-13 |    2.5e-13 |

- width classes: A: 1 | B: 4,5 (not transitive: `1~5`)

- library: ggml 0.25.3 (0c1e57098), --lib build/bin
- device: CPU, Example CPU, AVX2, driver 570.86.15, buft default, threads 2, threads_batch 2
- seeds: 0-2
- error: NMSE against float64 at most 2.5e-13
- machine: Example CPU, 4 cores, Example OS 1, ggmlprobe 0.1.0, 2026-01-02T03:04:05+00:00
- findings: 2 of 3 rows (2 MISMATCH, 1 INVARIANT)
"""


def header(text: str) -> list[str]:
    """Column names of the table in a text."""
    line = next(line for line in text.splitlines() if line.startswith("|"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def cells(text: str, name: str) -> list[str]:
    """Cells of a named column."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    at = header(text).index(name)
    return [line.strip("|").split(" | ")[at].strip() for line in lines]


def test_whole_table(repack_record: Record) -> None:
    assert table(repack_record) == REPACK


def test_all_lines_of_a_table_are_of_one_length(repack_record: Record) -> None:
    assert len({len(line) for line in table(repack_record).splitlines() if line[:1] == "|"}) == 1


def test_all_invariant_drops_the_columns_of_differences(result: Rows, record: Make) -> None:
    text = table(record([result(1), result(2)]))
    assert header(text) == ["width", "class", "verdict"]
    assert "- findings: 0 of 2 rows (2 INVARIANT)" in text


def test_only_varying_parameters_are_columns(result: Rows, record: Make) -> None:
    rows = [
        result(2, params={"type_a": name, "bs": [1, 1], "k": 256, "scale": 0.125, "v": True})
        for name in ("q4_K", "f16")
    ]
    text = table(record(rows))
    assert header(text) == ["type_a", "width", "class", "verdict"]
    assert cells(text, "type_a") == ["q4_K", "f16"]
    assert text.splitlines()[2] == "MUL_MAT bs=[1,1] k=256 scale=0.125 v=1"


def test_the_one_column_of_width_1_is_named(result: Rows, record: Make) -> None:
    text = table(record([result(1, [0], verdict="NONDETERMINISTIC")]))
    assert cells(text, "columns") == ["0"]


def test_several_ops(result: Rows, record: Make) -> None:
    rows = [
        result(2, op="MUL_MAT", params={"k": 4}),
        result(2, op="FLASH_ATTN_EXT", params={"kv": 512}),
    ]
    text = table(record(rows))
    assert header(text)[:3] == ["op", "k", "kv"]
    assert cells(text, "kv") == ["-", "512"]


def test_only_varying_settings_are_columns(result: Rows, record: Make, config: Config) -> None:
    other = replace(
        config, id="c1", buft="CPU_REPACK", threads=1, threads_batch=1, env={"A": "0", "B": None}
    )
    text = table(record([result(2), result(2, config="c1")], configs=[config, other]))
    assert header(text)[:4] == ["buft", "threads", "env", "width"]
    assert cells(text, "buft") == ["default", "CPU_REPACK"]
    assert cells(text, "env") == ["-", "A=0 B="]
    assert "threads 2 and 1, threads_batch 2 and 1, env - and A=0 B=" in text


def test_threads_batch_is_a_column_of_its_own_where_it_says_more(
    result: Rows, record: Make, config: Config
) -> None:
    other = replace(config, id="c1", threads_batch=8)
    text = table(record([result(2), result(2, config="c1")], configs=[config, other]))
    assert header(text)[0] == "threads_batch"
    assert cells(text, "threads_batch") == ["2", "8"]


@pytest.mark.parametrize(
    ("column", "change", "values"),
    [
        ("library", {"version": "0.9"}, [BUILD, "ggml 0.9 (0c1e57098)"]),
        ("path", {"path": "other"}, ["build/bin", "other"]),
        ("library", {"path": "other", "commit": "f00"}, [BUILD, "ggml 0.25.3 (f00)"]),
    ],
)
def test_several_libraries(
    repack_record: Record, column: str, change: dict[str, str], values: list[str]
) -> None:
    (config,) = repack_record.configs
    first, second, _ = repack_record.results
    other = replace(config, id="c1", library=replace(config.library, **change))
    rows = [first, replace(second, config="c1")]
    text = table(replace(repack_record, results=rows, configs=[config, other]))
    assert header(text)[:2] == [column, "width"]
    assert cells(text, column) == values
    assert text.count("- library: ") == 1
    assert text.count("; ") == 1


def test_rows_without_a_comparison(result: Rows, record: Make) -> None:
    long = "the device does not run MUL_MAT with type_a=q8_1 at these strides"
    none = {"max_ulp": None, "max_err_scaled": None, "nmse_serial": None, "nmse_width": None}
    tail = ["info", "ggml.c:12: GGML_ASSERT(a) failed", "#0 frame"]
    rows = [
        result(1, verdict="UNSUPPORTED", detail=long, seeds=[], **none),
        result(2, verdict="UNSUPPORTED", detail=long, seeds=[], **none),
        result(3, verdict="CRASH", signal="SIGABRT", stderr_tail=tail, seeds=[], **none),
        result(4, verdict="OOM", detail="needs 9 GiB", seeds=[], **none),
        result(5, verdict="TIMEOUT", detail="60 s", stderr_tail=["a", "b", "c", "d"], **none),
    ]
    text = table(record(rows))
    assert header(text) == ["width", "class", "verdict", "note"]
    assert cells(text, "note") == [
        "the device does not run MUL_MAT with... [1]",
        "the device does not run MUL_MAT with... [1]",
        "SIGABRT [2]",
        "needs 9 GiB",
        "60 s [3]",
    ]
    assert f"- [1] {long}\n" in text
    assert "- [2] SIGABRT / ggml.c:12: GGML_ASSERT(a) failed\n" in text
    assert "- [3] 60 s / b / c / d\n" in text
    assert "- findings: 3 of 5 rows (1 CRASH, 1 TIMEOUT, 1 OOM, 2 UNSUPPORTED)" in text


def test_what_a_scheduler_chose_has_columns_when_there_was_one(result: Rows, record: Make) -> None:
    rows = [
        result(31, backends=["CPU"], weights_buft="CPU"),
        result(32, backends=["CPU", "BLAS"], weights_buft="CPU_REPACK"),
        result(33, verdict="CRASH"),
    ]
    text = table(record(rows))
    assert cells(text, "backend") == ["CPU", "CPU, BLAS", "-"]
    assert cells(text, "weights_buft") == ["CPU", "CPU_REPACK", "-"]
    assert "backend" not in table(record([result(31)]))


def test_nan_and_unwritten_have_columns_when_there_are_any(result: Rows, record: Make) -> None:
    rows = [result(1), result(2, verdict="NAN", nan=3, nmse_width=None)]
    assert cells(table(record(rows)), "nan") == ["0", "3"]
    rows = [result(1), result(2, verdict="NAN", unwritten=7)]
    assert cells(table(record(rows)), "unwritten") == ["0", "7"]


def test_wrong_on_both_paths_shows_the_nmse_though_no_bit_differs(
    result: Rows, record: Make
) -> None:
    row = result(2, verdict="WRONG", nmse_serial=0.5, nmse_width=0.5)
    assert header(table(record([row])))[3:] == ["nmse_serial", "nmse_width"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(3, "- seeds: 0-2\n"), (2, "- seeds: 0,1 (INVARIANT on fewer than 3 seeds)\n")],
)
def test_few_seeds_are_said(
    result: Rows, record: Make, repack_record: Record, count: int, text: str
) -> None:
    seeds = repack_record.results[0].seeds[:count]
    assert text in table(record([result(1, seeds=seeds)]))


def test_few_seeds_do_not_matter_to_a_mismatch(result: Rows, record: Make) -> None:
    row = result(2, [1])
    text = table(record([replace(row, seeds=row.seeds[:1])]))
    assert "- seeds: 0\n" in text


def test_class_lines_name_the_case_by_what_varies(result: Rows, record: Make) -> None:
    rows = [result(w, [0] if w == k else [], params={"k": k}) for k in (4, 8) for w in (1, 4, 8)]
    classes = [
        CaseClasses(rows[0].case, "c0", [[1, 8], [4]], True),
        CaseClasses(rows[3].case, "c0", [[1, 4], [8]], True),
    ]
    text = table(record(rows, classes=classes))
    assert "- k=4: A: 1,8 | B: 4\n- k=8: A: 1,4 | B: 8\n" in text
    assert cells(text, "class") == ["A", "B", "A", "A", "A", "B"]


def test_equal_class_lines_are_one(result: Rows, record: Make) -> None:
    rows = [result(w, params={"k": k}) for k in (4, 8, 16) for w in (1, 2, 3)]
    classes = [CaseClasses(row.case, "c0", [[1, 2, 3]], True) for row in rows[::3]]
    assert "- width classes of all 3 cases: A: 1-3\n" in table(record(rows, classes=classes))


def test_many_pairs_are_counted(result: Rows, record: Make) -> None:
    row = result(1)
    pairs = [[w, w + 20] for w in range(1, 11)]
    classes = [CaseClasses(row.case, "c0", [[1], [2]], False, pairs)]
    text = table(record([row], classes=classes))
    assert "`1~21, 2~22, 3~23, 4~24, 5~25, 6~26, 7~27, 8~28` and 2 more)" in text


def test_interrupted_and_empty_runs_say_so(result: Rows, record: Make) -> None:
    assert "interrupted, rows are missing" in table(record([result(1)], interrupted=True))
    text = table(record([]))
    assert "- findings: 0 of 0 rows\n" in text
    assert "|" not in text


def test_hostile_strings_stay_in_their_cells(result: Rows, record: Make) -> None:
    rows = [
        result(1, params={"type_a": "a|b\n# title"}),
        result(2, params={"type_a": "caf\u00e9\x1b[31m\ud800"}, detail="x\ny"),
    ]
    text = table(record(rows, command="ggmlprobe `id` caf\u00e9"))
    assert text.isascii()
    assert "\x1b" not in text
    assert text.splitlines()[0] == r"`` ggmlprobe `id` caf\xe9 ``"
    assert r"| a\|b # title " in text
    assert r"caf\xe9\x1b[31m\ud800" in text
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 4


def test_the_cpu_backend_that_was_chosen_stands_in_the_footer(
    result: Rows, record: Make, config: Config
) -> None:
    for files, line in (
        (["libggml-base.so", "libggml-cpu-zen4.so", "libggml.so"], ", libggml-cpu-zen4.so"),
        (["libggml-base.so", "libggml-cpu.so", "libggml.so"], ""),
    ):
        library = replace(config.library, files=files)
        text = table(record([result(1)], configs=[replace(config, library=library)]))
        assert f"- library: {BUILD}, --lib build/bin{line}\n" in text
