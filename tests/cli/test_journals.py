"""Where a run keeps its rows when it names no journal, and how it ends when a child cannot start.

The library under test is a folder of links, which a test can break in the middle of a run.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ggmlprobe import journal, record
from ggmlprobe.cli.journals import OwnJournal, opened
from ggmlprobe.errors import UsageError
from ggmlprobe.journal import Journal
from ggmlprobe.record import SCHEMA_VERSION, Header, Result, collect_environment

Cli = Callable[..., subprocess.CompletedProcess[str]]
SMALL = (
    "op", "mul_mat", "--type", "f32", "--m", "16", "--k", "1", "--widths", "1-3", "--threads", "1",
)  # fmt: skip
SAID = "ggmlprobe: no journal of this run is kept: "
HEADER = Header(SCHEMA_VERSION, "ggmlprobe op", [], collect_environment())
ROW = Result("c0", "X()", "X()", "X", {}, 1, "INVARIANT")


@pytest.mark.parametrize("state", ["/dev/null", "file", "file/below", "/proc/none"])
def test_state_folder_that_cannot_be_written(cli: Cli, tmp_path: Path, state: str) -> None:
    (tmp_path / "file").write_text("mine")
    where = {"XDG_STATE_HOME": str(tmp_path / state)}
    done = cli(*SMALL, "-o", "json", env=where)
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["results"]) == 3
    assert done.stderr.startswith(SAID)
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_home_that_is_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("mine")
    env = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": "", "XDG_CACHE_HOME": ""}
    done = cli(*SMALL, env=env)
    assert done.returncode == 0
    assert done.stderr.startswith(SAID)
    assert done.stderr.count("\n") == 1


def test_nobody_without_a_home(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert OwnJournal(HEADER).path is None
    assert capsys.readouterr().err == f"{SAID}Could not determine home directory.\n"


def test_disk_that_fills_up_costs_only_the_journal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with OwnJournal(HEADER) as kept:
        monkeypatch.setattr(Journal, "append", full)
        kept.append(ROW)
        kept.append(ROW)
    assert capsys.readouterr().err == f"{SAID}cannot write: free space\n"
    kept.remove()
    assert not list(tmp_path.rglob("*.jsonl"))


def full(*given: object) -> None:
    raise UsageError("cannot write: free space")


@pytest.mark.parametrize("rows", [0, 1])
def test_file_of_a_run_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def run() -> None:
        with OwnJournal(HEADER) as kept:
            for _ in range(rows):
                kept.append(ROW)
            full()

    with pytest.raises(UsageError):
        run()
    assert len(list(tmp_path.rglob("*.jsonl"))) == rows


def test_journal_that_was_asked_for_must_be_writable(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name another file"):
        opened(tmp_path / "none" / "run.jsonl", HEADER)


@pytest.fixture
def fragile(lib_path: str, planted: Path, tmp_path: Path) -> dict[str, str]:
    """Environment of a run on a library that is gone once it has died at width 5."""
    lib = tmp_path / "lib"
    lib.mkdir()
    for file in Path(lib_path).iterdir():
        (lib / file.name).symlink_to(file)
    return {"GGMLPROBE_LIB": str(lib), "LD_PRELOAD": str(planted), "PLANTED": "abort:5:5"}


def test_child_that_cannot_be_started_again(
    cli: Cli, fragile: dict[str, str], tmp_path: Path
) -> None:
    command = (
        "op", "mul_mat", "--type", "f32", "--m", "16", "--k", "256", "--widths", "1,2,5,6",
        "--threads", "1", "--seeds", "1", "--export-json", "out.json",
    )  # fmt: skip
    # a child's interpreter takes the library away as soon as it has lived
    (tmp_path / "sitecustomize.py").write_text(TAKE_AWAY)
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = cli(*command, env=fragile | {"PYTHONPATH": paths, "TAKEN": str(tmp_path / "lib")})
    assert done.returncode == 2
    assert "| INVARIANT |" in done.stdout
    assert "interrupted, rows are missing" in done.stdout
    assert [row.width for row in record.load(tmp_path / "out.json").results] == [1, 2, 5]
    assert done.stderr.startswith("ggmlprobe: ")
    assert done.stderr.count("\n") == 1
    kept = done.stderr.rpartition("rows are missing; go on with: --resume ")[2].strip()
    assert [row.width for row in journal.read(Path(kept)).results] == [1, 2, 5]


TAKE_AWAY = """
import os, shutil, sys
if "ggmlprobe.worker.child" in sys.orig_argv:
    mark = os.environ["TAKEN"] + ".started"
    if os.path.exists(mark):
        shutil.rmtree(os.environ["TAKEN"], ignore_errors=True)
    open(mark, "w").close()
"""


@pytest.mark.parametrize("name", ["time", "kernels"])
def test_resume_measures_what_finished_rows_lack(cli: Cli, tmp_path: Path, name: str) -> None:
    command = (*SMALL, "--seeds", "1", "--resume", "run.jsonl", "-o", "json")
    assert cli(*command).returncode == 0
    first = (tmp_path / "run.jsonl").read_text()
    done = cli(*command, f"--{name}")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [row["width"] for row in rows] == [1, 2, 3]
    assert all(row[name] or row[f"{name}_note"] for row in rows)
    # what has them is not run again
    second = (tmp_path / "run.jsonl").read_text()
    assert second.startswith(first)
    cli(*command, f"--{name}")
    assert (tmp_path / "run.jsonl").read_text() == second
    assert cli(*command).returncode == 0
    assert (tmp_path / "run.jsonl").read_text() == second
