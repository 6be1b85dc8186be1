"""What a run prints: every format parses back, exit status, progress, and what is not imported."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import resource
import subprocess
import sys
import termios
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ggmlprobe import record
from ggmlprobe.report import markdown

Cli = Callable[..., subprocess.CompletedProcess[str]]
EXACT = (
    "op", "mul_mat", "--type", "f32", "--m", "16", "--k", "1", "--widths", "1-3", "--threads", "1",
)  # fmt: skip
PLANTED = (
    "op", "mul_mat", "--type", "f32", "--m", "16", "--k", "256", "--widths", "1,2,5,6",
    "--threads", "1", "--seeds", "1,2",
)  # fmt: skip
KINDS = ("md", "csv", "json", "jsonl")
WIDE = 200
NARROW = 40


def table_rows(text: str) -> list[dict[str, str]]:
    """The rows of a pipe table, by column name."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


@pytest.fixture
def plant(planted: Path) -> Callable[[str], dict[str, str]]:
    return lambda kind: {"LD_PRELOAD": str(planted), "PLANTED": kind}


def test_formats_tell_the_same(
    cli: Cli, plant: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    exports = [word for kind in KINDS[:3] for word in (f"--export-{kind}", f"out.{kind}")]
    done = cli(*PLANTED, "--m", "16,17", *exports, "-o", "jsonl", env=plant("boundary:5:99"))
    assert (done.returncode, done.stderr) == (1, "")
    text = {kind: (tmp_path / f"out.{kind}").read_text() for kind in KINDS[:3]}
    whole = record.loads(text["json"])
    expected = [
        (m, w, "MISMATCH" if w >= 5 else "INVARIANT") for m in (16, 17) for w in (1, 2, 5, 6)
    ]
    assert [(r.params["m"], r.width, r.verdict) for r in whole.results] == expected
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(r["params"]["m"], r["width"], r["verdict"]) for r in lines] == expected
    sheet = list(csv.DictReader(io.StringIO(text["csv"])))
    assert [(int(r["m"]), int(r["width"]), r["verdict"]) for r in sheet] == expected
    table = table_rows(text["md"])
    assert [(int(r["m"]), int(r["width"]), r["verdict"]) for r in table] == expected
    letters = ["A", "A", "B", "B"] * 2
    assert [r["class"] for r in table] == [r["class"] for r in sheet] == letters
    assert [r["columns"] for r in table] == ["-", "-", "all", "all"] * 2
    assert [r["columns_differing"] for r in sheet[:4]] == ["", "", "0 1 2 3 4", "0 1 2 3 4 5"]
    ulps = [r.max_ulp for r in whole.results]
    assert [int(r["max_ulp"]) for r in table] == [int(r["max_ulp"]) for r in sheet] == ulps


@pytest.mark.parametrize("kind", KINDS)
def test_stdout_is_what_the_export_would_be(cli: Cli, tmp_path: Path, kind: str) -> None:
    done = cli(*EXACT, "-o", kind, f"--export-{kind}", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (tmp_path / "out").read_text()
    if kind == "jsonl":
        assert [json.loads(line)["width"] for line in done.stdout.splitlines()] == [1, 2, 3]


def test_json_is_valid_by_the_schema_file(cli: Cli, plant: Callable[[str], dict[str, str]]) -> None:
    schema = json.loads(files("ggmlprobe").joinpath("record.schema.json").read_text())
    for kind in ("abort:5:5", "nan:5:5", "fours:1:99"):
        data = json.loads(cli(*PLANTED, "-o", "json", env=plant(kind)).stdout)
        jsonschema.validate(data, schema)
        assert data["schema"] == record.SCHEMA_VERSION
        assert len(data["results"]) == 4
        assert data["timing"]["compute_seconds"] <= data["timing"]["wall_seconds"]
        assert data["timing"]["peak_rss_bytes"] > 2**20


@pytest.mark.parametrize(
    ("kind", "shown"),
    [("abort", "CRASH"), ("bf16", "PRECISION"), ("drift", "NONDETERMINISTIC")],
)
def test_table_shows_the_verdict(
    cli: Cli, plant: Callable[[str], dict[str, str]], kind: str, shown: str
) -> None:
    done = cli(*PLANTED, env=plant(f"{kind}:5:5"))
    assert (done.returncode, done.stderr) == (1, "")
    rows = table_rows(done.stdout)
    assert [r["verdict"] for r in rows] == ["INVARIANT", "INVARIANT", shown, "INVARIANT"]
    if shown == "CRASH":
        assert rows[2]["class"] == "-"
        assert "SIGABRT" in rows[2]["note"]
        assert "GGML_ASSERT(n != FROM) failed" in done.stdout


def test_command_above_the_table_is_the_one_that_was_typed(cli: Cli) -> None:
    arguments = (*EXACT, "--export-md", "a file; with 'quotes'.md")
    first = cli(*arguments).stdout.splitlines()[0]
    assert first.startswith("`ggmlprobe ")
    assert first.endswith("`")
    words = subprocess.run(
        ["sh", "-c", f'printf "%s\\n" {first.strip("`").partition(" ")[2]}'],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert words.stdout.splitlines() == list(arguments)


def test_table_of_the_json_is_the_table(cli: Cli, tmp_path: Path) -> None:
    done = cli(*EXACT, "--export-json", "out.json")
    assert markdown.table(record.load(tmp_path / "out.json")) == done.stdout


def test_footer_names_what_it_was_measured_with(cli: Cli, lib_path: str) -> None:
    text = cli(*EXACT, "--seeds", "1").stdout
    for name in ("- library: ", "- device: CPU", "- machine: ", "threads 1", "ggmlprobe "):
        assert name in text
    assert lib_path in text
    assert "- seeds: 1 (INVARIANT on fewer than 3 seeds)" in text
    assert text.isascii()


def test_a_parameter_column_shows_only_if_it_varies(cli: Cli) -> None:
    one = table_rows(cli(*EXACT).stdout)[0]
    assert set(one) == {"width", "class", "verdict"}
    two = table_rows(cli(*EXACT, "--threads", "1,2", "--type-b", "f32").stdout)
    assert set(two[0]) == {"threads", "width", "class", "verdict"}
    assert [row["threads"] for row in two] == ["1"] * 3 + ["2"] * 3


def test_case_that_fits_and_case_that_does_not(cli: Cli) -> None:
    done = cli(
        "op", "mul_mat", "--type", "f32,q8_1", "--m", "16", "--k", "32", "--widths", "1",
        "-o", "json",
    )  # fmt: skip
    data = json.loads(done.stdout)
    assert {r["params"]["type_a"]: r["verdict"] for r in data["results"]} == {
        "f32": "INVARIANT", "q8_1": "UNSUPPORTED",
    }  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_estimate_of_memory(cli: Cli) -> None:
    done = cli("op", "flash_attn", "--kv", "512,99999999999", "--widths", "1,2", "-o", "json")
    data = json.loads(done.stdout)
    assert {r["verdict"] for r in data["results"] if r["params"]["cells"] > 512} == {"OOM"}
    assert not {"OOM", "CRASH"} & {
        r["verdict"] for r in data["results"] if r["params"]["cells"] == 512
    }
    assert done.returncode == 1


def test_memory_that_is_refused(cli: Cli) -> None:
    # 1250 MiB of weights do not fit
    limit_mib = 700

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit_mib * 2**20, limit_mib * 2**20))

    done = cli(
        "op", "mul_mat", "--type", "f32", "--m", "20000,16", "--k", "16384", "--widths", "1,2",
        "--threads", "1", "--seeds", "1", "-o", "json", preexec_fn=limit,
        env={"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    rows = {(r["params"]["m"], r["width"]): r for r in data["results"]}
    assert {rows[20000, w]["verdict"] for w in (1, 2)} == {"OOM"}
    assert all(rows[20000, w]["detail"] for w in (1, 2))
    assert rows[16, 1]["verdict"] == "INVARIANT", "the run goes on"


def test_progress_only_on_a_terminal(cli: Cli) -> None:
    ours, theirs = pty.openpty()
    try:
        shown = cli(*EXACT, capture_output=False, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        seen = b""
        while chunk := read_terminal(ours):
            seen += chunk
    finally:
        os.close(ours)
    assert shown.returncode == 0
    assert b"[3/3" in seen
    assert b"s left] MUL_MAT(" in seen
    assert seen.endswith(b"\r\x1b[K"), "the line is cleared"
    assert shown.stdout.startswith("`ggmlprobe op")
    assert "\x1b" not in shown.stdout
    assert "\r" not in shown.stdout


@pytest.mark.parametrize("columns", [NARROW, WIDE])
def test_progress_stays_on_one_line(cli: Cli, columns: int) -> None:
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (24, columns))
        cli(*EXACT, capture_output=False, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        seen = b""
        while chunk := read_terminal(ours):
            seen += chunk
    finally:
        os.close(ours)
    lines = seen.split(b"\r\x1b[K")
    assert max(map(len, lines)) < columns
    assert any(line.endswith(b"pad=0)") for line in lines) == (columns == WIDE)


def read_terminal(fd: int) -> bytes:
    """What is left in a terminal whose other end is closed."""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


WATCH = """
import atexit, json, os, sys
def tell():
    name = "child" if "ggmlprobe.worker.child" in sys.orig_argv else "parent"
    path = os.path.join(os.environ["MODULES_SEEN"], f"{name}-{os.getpid()}")
    with open(path, "w") as file:
        json.dump(sorted(sys.modules), file)
atexit.register(tell)
"""


def test_modules_that_the_op_path_does_not_import(
    cli: Cli, cli_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WATCH)
    seen = tmp_path / "seen"
    seen.mkdir()
    path = os.pathsep.join([str(tmp_path / "site"), cli_env["PYTHONPATH"]])
    env = {"PYTHONPATH": path, "MODULES_SEEN": str(seen)}
    assert cli(*EXACT, env=env).returncode == 0
    assert cli("op", "flash_attn", "--kv", "8", "--widths", "1", env=env).returncode in (0, 1)
    modules: dict[str, set[str]] = {"parent": set(), "child": set()}
    for file in seen.iterdir():
        modules[file.name.partition("-")[0]] |= set(json.loads(file.read_text()))
    assert "ggmlprobe.cli.run" in modules["parent"]
    assert {"ggmlprobe.probe", "cffi", "numpy"} <= modules["child"]
    dear = {"scipy", "gguf", "elftools", "matplotlib", "rich", "jsonschema", "pandas"}
    assert not dear & (modules["parent"] | modules["child"])
    assert not {"cffi", "_cffi_backend"} & modules["parent"]
    assert "click" not in modules["child"]


def test_runs_from_any_folder_whatever_lies_in_it(cli: Cli, tmp_path: Path) -> None:
    # -m puts the folder on the parent's path, but not on the child's
    (tmp_path / "cffi.py").write_text("raise SystemExit('not mine')")
    assert cli(*EXACT).returncode == 0


def test_main_command_of_the_readme(cli: Cli) -> None:
    done = cli("op", "flash_attn", "--widths", "1-4", "--kv", "512", "--heads", "4",
               "--kv-heads", "2", "--type-k", "f16,q8_0", "-o", "json")  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    assert [(r["params"]["type_K"], r["width"]) for r in rows] == [
        (name, w) for name in ("f16", "q8_0") for w in range(1, 5)
    ]
    assert {r["verdict"] for r in rows} <= {"INVARIANT", "MISMATCH", "PRECISION"}
    assert all(r["nmse_serial"] < 5e-4 for r in rows)


def test_module_and_script_are_the_same_command(cli_env: dict[str, str], tmp_path: Path) -> None:
    program = "import sys; from ggmlprobe.cli import main; sys.argv = ['ggmlprobe', '--version'];"
    done = subprocess.run(
        [sys.executable, "-c", f"{program} main()"], capture_output=True, text=True, check=False,
        env=cli_env, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ggmlprobe, version ")
