"""`ggmlprobe report` from the command line: to stdout, into files, an index."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ("op", "mul_mat", "--type", "q4_0,f16", "--m", "16", "--k", "32", "--widths", "1-3",
         "--threads", "1", "--export-json", "run.json")  # fmt: skip


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> Path:
    """Return a record of a small run."""
    done = cli(*SMALL)
    assert done.returncode in (0, 1), done.stderr
    return tmp_path / "run.json"


def refused(done: subprocess.CompletedProcess[str], says: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_real_run_as_block_pictures_and_page(cli: Cli, run: Path, tmp_path: Path) -> None:
    done = cli("report", "run.json", "--upstream")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "### First Bad Commit\n\nFirst Bad Commit: ____\n" in done.stdout
    assert "| same-width repeat    | same bits twice in 6 of 6 rows, seeds 1-3" in done.stdout
    assert "f16: " in done.stdout
    pictures = ["--plot", "classes", "c.svg", "--plot", "classes", "c.png"]
    done = cli("report", "run.json", *pictures, "--html", "run.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run.html").read_text().startswith("<!DOCTYPE html>")


def test_nothing_is_overwritten_or_half_done(cli: Cli, run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.svg").write_text("precious")
    refused(cli("report", run, "--html", "x.html", "--plot", "classes", "mine.svg"), "--force")
    assert (tmp_path / "mine.svg").read_text() == "precious"
    assert not (tmp_path / "x.html").exists()
    refused(cli("report", run, "--plot", "time", "t.svg"), "run the probe with --time")
    refused(cli("report", run, "--plot", "classes", "t.pdf"), ".svg or .png")
    refused(cli("report", run, "--html", "missing/x.html"), "make it first")
    assert not list(tmp_path.glob("t.*"))
    done = cli("report", run, "--plot", "classes", "mine.svg", "--force")
    assert done.returncode == 0
    assert "svg" in (tmp_path / "mine.svg").read_text()


@pytest.mark.parametrize(
    ("content", "says"),
    [("", "not JSON"), ("{}", "no ggmlprobe record"), ('{"schema": 99, "configs": []}', "newer")],
)
def test_files_that_are_no_record(cli: Cli, tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "x.json").write_text(content)
    refused(cli("report", "x.json", "--html", "x.html"), says)
    assert not (tmp_path / "x.html").exists()


def test_a_missing_file(cli: Cli) -> None:
    refused(cli("report", "nowhere.json"), "nowhere.json: cannot be read")


def test_index_of_a_folder(cli: Cli, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    refused(cli("report", "results"), "no .json file")
    run.rename(folder / "run.json")
    assert cli("report", "results/").returncode == 0
    readme = folder / "README.md"
    assert "[run](run.json)" in readme.read_text()
    assert cli("report", "results/").returncode == 0, "its own file is replaced"
    readme.write_text("mine")
    refused(cli("report", "results/"), "--force")
    assert readme.read_text() == "mine"
    refused(cli("report", "results/", "--html", "x.html"), "is a folder")
