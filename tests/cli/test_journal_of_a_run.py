"""Runs that cannot be lost: kill, Ctrl-C, crash, and going on from the journal.

The library is made to hang or die at one width by tests/c/planted_sgemm.c, preloaded, so that the
moment of the interruption is not a matter of luck; with `99` it is only plain sums.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import journal, record

Cli = Callable[..., subprocess.CompletedProcess[str]]
RUN = (
    "op", "mul_mat", "--type", "f32", "--m", "16", "--k", "256", "--threads", "1",
    "--widths", "1,2,4-6", "--seeds", "7",
)  # fmt: skip
PATIENCE = 20.0


def without_times(data: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {name: value for name, value in row.items() if name != "compute_seconds"}
        for row in data["results"]
    ]
    return {"results": rows, "classes": data["classes"], "interrupted": data["interrupted"]}


def verdicts(data: dict[str, Any]) -> dict[int, str]:
    return {row["width"]: row["verdict"] for row in data["results"]}


def wait_for(condition: Callable[[], Any]) -> Any:
    limit = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < limit, "it did not come"
        time.sleep(0.02)
    return value


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


# a shell ignores SIGINT for what it runs in the background, and a child inherits that
HEED = ["env", "--default-signal=INT"]


@pytest.fixture(scope="module")
def plant(planted: Path) -> Callable[[str], dict[str, str]]:
    return lambda kind: {"LD_PRELOAD": str(planted), "PLANTED": kind}


@pytest.fixture(scope="module")
def plain(plant: Callable[[str], dict[str, str]]) -> dict[str, str]:
    return plant("hang:99:99")


@pytest.fixture
def hanging(
    cli_env: dict[str, str], plant: Callable[[str], dict[str, str]], tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """A run that hangs at width 5, its child, and its journal with all narrower widths in it."""
    path = tmp_path / "run.jsonl"
    process = subprocess.Popen(
        [*HEED, sys.executable, "-m", "ggmlprobe", *RUN, "--resume", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=cli_env | plant("hang:5:5"),
    )  # fmt: skip
    child = 0
    try:
        child = wait_for(lambda: next(iter(children(process.pid)), 0))
        wait_for(lambda: path.exists() and path.read_text().count("\n") == 4)
        yield process, child, path
    finally:
        process.kill()
        process.communicate()
        if child and running(child):
            os.kill(child, signal.SIGKILL)


Hanging = tuple[subprocess.Popen[str], int, Path]


@dataclass(frozen=True)
class Whole:
    """A run that was not interrupted: its journal's lines and its record."""

    lines: list[bytes]
    data: dict[str, Any]


@pytest.fixture(scope="module")
def whole(
    cli_env: dict[str, str], plain: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Whole:
    path = tmp_path_factory.mktemp("whole") / "run.jsonl"
    command = [*HEED, sys.executable, "-m", "ggmlprobe", *RUN, "-o", "json", "--resume", str(path)]
    done = subprocess.run(command, capture_output=True, check=True, env=cli_env | plain)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 7, "header, five rows, classes"
    return Whole(lines, json.loads(done.stdout))


def assert_resumes_to_the_whole(cli: Cli, path: Path, plain: dict[str, str], whole: Whole) -> None:
    """Going on gives the record of a run that was not interrupted, apart from times."""
    before = path.read_bytes()
    done = cli(*RUN, "-o", "json", "--resume", path, env=plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert without_times(json.loads(done.stdout)) == without_times(whole.data)
    after = path.read_bytes()
    assert after.startswith(before[: before.rindex(b"\n") + 1]), "what was there stays"
    assert after.count(b'{"result":') == 5, "nothing was run again"


def test_kill_in_the_middle(
    cli: Cli, hanging: Hanging, plain: dict[str, str], whole: Whole
) -> None:
    process, child, path = hanging
    process.kill()
    process.wait()
    wait_for(lambda: not running(child))
    assert [row.width for row in journal.read(path).results] == [1, 2, 4]
    assert_resumes_to_the_whole(cli, path, plain, whole)


def test_terminate_in_the_middle_leaves_no_child(hanging: Hanging) -> None:
    process, child, path = hanging
    process.terminate()
    process.wait()
    wait_for(lambda: not running(child))
    assert [row.width for row in journal.read(path).results] == [1, 2, 4]


def test_interrupt_in_the_middle(
    cli: Cli, hanging: Hanging, plain: dict[str, str], whole: Whole
) -> None:
    process, child, path = hanging
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert not running(child)
    assert stderr == f"interrupted; go on with: --resume {path}\n"
    assert stdout.count("| INVARIANT |") == 3
    assert "interrupted, rows are missing" in stdout
    assert [row.width for row in journal.read(path).results] == [1, 2, 4]
    assert_resumes_to_the_whole(cli, path, plain, whole)


def test_interrupt_before_the_first_row(cli_env: dict[str, str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*HEED, sys.executable, "-m", "ggmlprobe", *RUN], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=cli_env,
    )  # fmt: skip
    child = wait_for(lambda: next(iter(children(process.pid)), 0))
    process.send_signal(signal.SIGINT)
    stderr = process.communicate(timeout=PATIENCE)[1]
    wait_for(lambda: not running(child))
    assert process.returncode == 130
    assert "Traceback" not in stderr


@pytest.mark.parametrize("torn", [b'{"result": {"config": "c0", "case": "MU', b"\x00\xff{"])
def test_torn_line(
    cli: Cli, plain: dict[str, str], whole: Whole, tmp_path: Path, torn: bytes
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(whole.lines[:4]) + torn)
    assert_resumes_to_the_whole(cli, path, plain, whole)


@pytest.mark.parametrize("kept", [1, 2, 6, 7])
def test_cut_after_any_line(
    cli: Cli, plain: dict[str, str], whole: Whole, tmp_path: Path, kept: int
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(whole.lines[:kept]))
    assert_resumes_to_the_whole(cli, path, plain, whole)
    assert len(path.read_bytes().splitlines()) == len(whole.lines)


def test_broken_line_in_the_middle_is_named(
    cli: Cli, plain: dict[str, str], whole: Whole, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join([*whole.lines[:3], b'{"result": {}}\n', *whole.lines[3:]]))
    done = cli(*RUN, "--resume", path, env=plain)
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 4" in done.stderr
    assert done.stderr.count("\n") == 1


def test_crash_is_kept_until_it_is_retried(
    cli: Cli, plant: Callable[[str], dict[str, str]], plain: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    command = (*RUN, "-o", "json", "--resume", path)
    crashed = cli(*command, env=plant("abort:5:5"))
    assert crashed.returncode == 1
    expected = {1: "INVARIANT", 2: "INVARIANT", 4: "INVARIANT", 5: "CRASH", 6: "INVARIANT"}
    assert verdicts(json.loads(crashed.stdout)) == expected
    (row,) = (row for row in json.loads(crashed.stdout)["results"] if row["width"] == 5)
    assert row["signal"] == "SIGABRT"
    assert any("GGML_ASSERT" in line for line in row["stderr_tail"])
    kept = cli(*command, env=plain)
    assert kept.returncode == 1
    assert without_times(json.loads(kept.stdout)) == without_times(json.loads(crashed.stdout))
    retried = cli(*command, "--retry", env=plain)
    assert retried.returncode == 0
    assert verdicts(json.loads(retried.stdout)) == dict.fromkeys((1, 2, 4, 5, 6), "INVARIANT")
    assert json.loads(retried.stdout)["classes"][0]["groups"] == [[1, 2, 4, 5, 6]]
    assert {r.width: r.verdict for r in journal.read(path).results}[5] == "INVARIANT"


def test_hang_ends_and_the_run_goes_on(cli: Cli, plant: Callable[[str], dict[str, str]]) -> None:
    began = time.monotonic()
    done = cli(*RUN, "-o", "json", "--timeout", "1", env=plant("hang:5:5"))
    assert 1 < time.monotonic() - began < 20
    assert done.returncode == 1
    assert verdicts(json.loads(done.stdout))[5] == "TIMEOUT"
    assert verdicts(json.loads(done.stdout))[6] == "INVARIANT"


def test_rows_stand_in_the_order_of_widths_whatever_died_first(
    cli: Cli, plant: Callable[[str], dict[str, str]]
) -> None:
    seeds = ("--seeds", "1-3")
    done = cli(*RUN, *seeds, "-o", "json", env=plant("abort:5:5"))
    assert [row["width"] for row in json.loads(done.stdout)["results"]] == [1, 2, 4, 5, 6]


def test_two_runs_do_not_share_a_journal(hanging: Hanging, cli: Cli) -> None:
    path = hanging[2]
    done = cli(*RUN, "--resume", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "another run" in done.stderr


def test_state_folder_holds_a_journal_only_while_it_is_needed(
    cli: Cli, plain: dict[str, str], tmp_path: Path
) -> None:
    assert cli(*RUN, env=plain).returncode == 0
    assert not list((tmp_path / "state").rglob("*.jsonl"))


def test_journal_and_record_hold_the_same_rows(
    cli: Cli, plain: dict[str, str], tmp_path: Path
) -> None:
    path, out = tmp_path / "run.jsonl", tmp_path / "out.json"
    assert cli(*RUN, "--resume", path, "--export-json", out, env=plain).returncode == 0
    assert journal.read(path).results == record.load(out).results
    assert journal.read(path).classes == record.load(out).classes
