"""`bisect` and `sweep` from the command line, and what --git-bisect makes of their findings."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import record

Cli = Callable[..., subprocess.CompletedProcess[str]]
PRODUCT = ("mul_mat", "--type", "f32", "--m", "8", "--k", "64", "--threads", "1")
BISECT = ("bisect", *PRODUCT)
SWEEP = ("sweep", *PRODUCT)
OP = ("op", *PRODUCT, "--widths", "1-6", "--seeds", "1")


@pytest.fixture
def planting(cli: Cli, planted: Path) -> Cli:
    """Run a command over a library that something is planted in."""

    def run(what: str, *arguments: object) -> Any:
        return cli(*arguments, env={"PLANTED": what, "LD_PRELOAD": str(planted)})

    return run


def refused(done: subprocess.CompletedProcess[str], status: int = 2) -> str:
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("ggmlprobe: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def table_rows(text: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_bisection_says_what_was_run_found_and_assumed(planting: Cli) -> None:
    done = planting("reverse:5:9999", *BISECT, "--to", 64)
    assert done.returncode == 1, done.stderr
    rows = table_rows(done.stdout)
    assert [row["class"] for row in rows] == ["A", "B", "-"]
    assert rows[0]["width"] == "1-4"
    assert rows[1]["width"] == "5-33,39-41,47-49,55-57,63,64"
    assert rows[2]["width"] == "34-38,42-46,50-54,58-62"
    assert rows[2]["verdict"] == "not probed"
    assert "- boundaries: 4|5\n" in done.stdout
    assert "- first differing width: 5\n" in done.stdout
    assert "- runs: 44 of 64 values\n" in done.stdout
    assert "- assumed: no change between" in done.stdout
    assert "33|39, 41|47, 49|55, 57|63" in done.stdout
    assert "- seeds: 1 (INVARIANT on fewer than 3 seeds)" in done.stdout


def test_exhaustive_bisection_assumes_nothing(planting: Cli) -> None:
    done = planting("reverse:5:9999", *BISECT, "--to", 40, "--exhaustive")
    assert "not probed" not in done.stdout
    assert "assumed:" not in done.stdout
    assert "- runs: 40 of 40 values: nothing is assumed\n" in done.stdout


def test_parity_and_return_are_said(planting: Cli) -> None:
    done = planting("parity:2:9999", *BISECT, "--to", 40)
    rows = table_rows(done.stdout)
    assert [row["width"] for row in rows] == ["1-33+2,39", "2-32+2,40", "34-38"]
    assert "classes repeat with period 2 over width 1-33" in done.stdout
    assert "the period above speaks against it" in done.stdout
    assert "comes back: A at 17" in planting("reverse:9:16", *BISECT, "--to", 32).stdout


def test_last_column_only_is_one_line(planting: Cli) -> None:
    rows = table_rows(planting("last:2:9999", *BISECT, "--to", 12).stdout)
    assert [(r["width"], r["class"], r["columns"]) for r in rows] == [
        ("1", "A", "-"), ("2-12", "B-L (one each)", "last"),
    ]  # fmt: skip


def test_bisection_in_every_format(planting: Cli, tmp_path: Path) -> None:
    exported = ("--export-csv", "out.csv", "--export-md", "out.md")
    done = planting("reverse:5:9999", *BISECT, "--to", 12, "-o", "json", *exported)
    whole = record.loads(done.stdout)
    assert [run.letter for run in whole.runs] == ["A"] * 4 + ["B"] * 8
    assert whole.bisections[0].boundaries == [[4, 5]]
    assert {run.config for run in whole.runs} == {"c0"}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [row["class"] for row in rows] == ["A"] * 4 + ["B"] * 8
    assert "boundaries: 4|5" in (tmp_path / "out.md").read_text()
    lines = planting("reverse:5:9999", *BISECT, "--to", 12, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["class"] for line in lines] == ["A"] * 4 + ["B"] * 8


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--axis", "kv"], "mul_mat has no axis kv: it has width, threads, m, k"),
        (["--axis", "n"], "'width', 'threads', 'm', 'k', 'kv'"),
        (["--from", 5, "--to", 4], "--to 4 is below --from 5"),
        (["--from", 0], "x>=1"),
        (["--step", 0], "x>=1"),
        (["--widths", "1-3"], "--axis width takes --from and --to, not --widths"),
        (["--axis", "m"], "--axis m takes --from and --to, not --m"),
        (["--axis", "threads"], "--axis threads takes --from and --to, not --threads"),
        (["--from", 5, "--to", 9, "--step", 4, "--axis", "width", "--type", "q9"], "no type q9"),
        (["--from", 5, "--to", 7, "--step", 4], "no multiple of 4 from 5 to 7"),
    ],
)
def test_what_cannot_be_bisected(cli: Cli, arguments: list[object], says: str) -> None:
    assert says in refused(cli(*BISECT, *arguments))


def test_k_below_a_block(cli: Cli) -> None:
    done = cli("bisect", "mul_mat", "--m", 8, "--type", "q4_K", "--axis", "k", "--to", 255)
    assert "no multiple of 256 from 1 to 255" in refused(done)


def test_thread_axis(planting: Cli) -> None:
    done = planting("reverse:2:2", "bisect", *PRODUCT[:-2], "--axis", "threads", "--to", 2,
                    "--widths", "1-3", "-o", "json")  # fmt: skip
    whole = record.loads(done.stdout)
    assert [config.threads for config in whole.configs] == [1, 2]
    assert [(run.value, run.letter) for run in whole.runs] == [(1, "A"), (2, "A")]
    assert whole.bisections[0].widths == [1, 2, 3]


def test_sweep_is_a_matrix(planting: Cli) -> None:
    done = planting("reverse:5:9999", *SWEEP, "--k", "64,128", "--widths", "1-9", "--seeds", 1)
    assert done.returncode == 1, done.stderr
    rows = table_rows(done.stdout)
    assert [row["k"] for row in rows] == ["64", "128"]
    for row in rows:
        assert [row[str(width)] for width in range(1, 10)] == ["A"] * 4 + ["B"] * 5
        assert row["first"] == "5"


def test_sweep_marks_what_has_no_class(planting: Cli) -> None:
    done = planting(
        "abort:4:4,nan:5:5", *SWEEP, "--type", "f32,q8_1", "--widths", "1-6", "--seeds", 1
    )
    first, second = table_rows(done.stdout)
    assert [first[str(width)] for width in range(1, 7)] == ["A", "A", "A", "cr", "Bn", "A"]
    assert {second[str(width)] for width in range(1, 7)} == {"."}
    assert (first["first"], second["first"]) == ("4", "-")
    assert "cr CRASH, . UNSUPPORTED, letter and n NAN" in done.stdout
    assert "planted.c:1: GGML_ASSERT" in done.stdout
    assert "q8_1" in done.stdout


def test_sweep_of_data_has_a_row_for_each_width(planting: Cli) -> None:
    done = planting("refuse:0:0", *SWEEP, "--widths", "1-3", "--seeds", 1, "-o", "csv")
    assert [row["width"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("refuse:0:0", 0),
        ("reverse:5:5", 1),
        ("wrong:5:5", 1),
        ("abort:5:5", 125),
        ("abort:5:5,reverse:4:4", 1),
        ("memory:5:5", 125),
    ],
)
def test_git_bisect_status_of_rows(planting: Cli, what: str, status: int) -> None:
    done = planting(what, *OP, "--git-bisect")
    assert done.returncode == status, done.stderr


@pytest.mark.parametrize("command", [OP, (*BISECT, "--to", "6")])
def test_git_bisect_on_other_commands(planting: Cli, command: tuple[object, ...]) -> None:
    assert planting("refuse:0:0", *command, "--git-bisect").returncode == 0
    assert planting("reverse:5:5", *command, "--git-bisect").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--lib", "no/such/build"], 125),
        (["--type", "q9_9"], 125),
        (["--type", "q8_1"], 125),
        (["--device", "CUDA77"], 125),
        (["--no-such-option"], 128),
        (["--widths", "4-1"], 128),
        (["--resume", "no/such/folder/run.jsonl"], 128),
    ],
)
def test_git_bisect_skips_a_commit_and_stops_at_a_mistake(
    cli: Cli, arguments: list[str], status: int
) -> None:
    refused(cli(*OP, "--git-bisect", *arguments), status)


def test_git_bisect_stops_at_a_broken_command(cli: Cli) -> None:
    refused(cli("op", "mul_matt", "--git-bisect"), 128)
    refused(cli("preset", "run", "no-such-preset", "--git-bisect"), 128)
