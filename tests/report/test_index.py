"""The index of a folder of runs, and the committed one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from model_rows import header, made

from ggmlprobe.errors import RecordError, UsageError
from ggmlprobe.model.rates import record_of
from ggmlprobe.record import Record
from ggmlprobe.report import FORMATS
from ggmlprobe.report.index import NAME, index, is_own

RESULTS = Path(__file__).parents[2] / "results"


def save(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FORMATS["json"](record))


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_a_line_for_each_run(tmp_path: Path, repack_record: Record) -> None:
    save(tmp_path / "b" / "run.json", repack_record)
    save(tmp_path / "a.json", record_of(header(), [made(flips_at=(4,))], False))
    save(tmp_path / ".cache" / "c.json", repack_record)
    (tmp_path / "a.md").write_text("table")
    head, first, second = rows(index(tmp_path))
    assert head == ["run", "date", "device", "library", "op", "verdicts", "command"]
    assert first[0] == "[a](a.md)"
    assert first[4] == "tiny"
    assert first[5].startswith("1 MISMATCH, ")
    assert first[5].endswith("flips")
    assert second == [
        "[b/run](b/run.json)", "2026-01-02", "Example CPU", "ggml 0.25.3 (0c1e57098)", "MUL_MAT",
        "2 MISMATCH, 1 INVARIANT", "`ggmlprobe op mul_mat --type q4_K --widths 1,4,5`",
    ]  # fmt: skip


def test_several_devices_are_all_named(tmp_path: Path, repack_record: Record) -> None:
    first = repack_record.configs[0]
    other = replace(first, id="c1", device=replace(first.device, description="GPU <b>|"))
    save(tmp_path / "run.json", replace(repack_record, configs=[first, other]))
    text = index(tmp_path)
    assert r"Example CPU; GPU \<b>\|" in text
    assert text.isascii()


def test_a_folder_without_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \.json file"):
        index(tmp_path)


def test_a_file_that_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(RecordError, match=r"x\.json"):
        index(tmp_path)


def test_only_its_own_file_is_replaced(tmp_path: Path, repack_record: Record) -> None:
    readme = tmp_path / NAME
    assert not is_own(readme)
    readme.write_text("# Mine\n")
    assert not is_own(readme)
    save(tmp_path / "run.json", repack_record)
    readme.write_text(index(tmp_path))
    assert is_own(readme)


def test_committed_index_is_current() -> None:
    assert (RESULTS / NAME).read_text() == index(RESULTS), "run: ggmlprobe report results/"
