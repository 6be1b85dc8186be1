"""`ggmlprobe diff`, --baseline and --export-junit from the command line."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]

# whatever the CPU: widths of a product of length 1 agree, and no machine has 800 TB for weights
RUN = ["op", "mul_mat", "--type", "f32", "--m", "16,99999999999", "--k", "1", "--widths", "1,2",
       "--threads", "1"]  # fmt: skip


def run(cli: Cli, tmp_path: Path, *more: str) -> dict[str, Any]:
    """Make run.json; its data."""
    done = cli(*RUN, "--export-json", "run.json", "--force", *more)
    assert done.returncode == 1, done.stderr
    data: dict[str, Any] = json.loads((tmp_path / "run.json").read_text())
    assert [row["verdict"] for row in data["results"]] == ["INVARIANT"] * 2 + ["OOM"] * 2
    return data


def test_known_findings_are_expected(cli: Cli, tmp_path: Path) -> None:
    run(cli, tmp_path)
    done = cli(*RUN, "--baseline", "run.json", "-o", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["results"]
    assert done.stderr == "baseline: 2 known, 0 not as in run.json\n"


@pytest.mark.parametrize(
    ("row", "verdict", "says"),
    [
        (3, "INVARIANT", "baseline: new: OOM at width 2 of MUL_MAT(type_a=f32,"),
        (1, "MISMATCH", "baseline: vanished: MISMATCH at width 2 of MUL_MAT(type_a=f32,"),
        (3, "CRASH", "baseline: changed: CRASH at width 2 of MUL_MAT(type_a=f32,"),
    ],
)
def test_news_to_the_baseline(cli: Cli, tmp_path: Path, row: int, verdict: str, says: str) -> None:
    data = run(cli, tmp_path)
    data["results"][row]["verdict"] = verdict
    (tmp_path / "known.json").write_text(json.dumps(data))
    done = cli(*RUN, "--baseline", "known.json")
    assert done.returncode == 1
    assert says in done.stderr
    assert "1 not as in known.json" in done.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--baseline", "none.json"], "none.json: cannot be read"),
        (["--baseline", "run.json", "--git-bisect"], "excludes --git-bisect"),
        (["--baseline", "run.json", "--seeds", "7"], "run.json has seeds [1, 2, 3], not [7]"),
        (["--baseline", "other.json"], "other.json is A, this run B: device is CPU, Another"),
    ],
)
def test_baselines_that_are_refused(cli: Cli, tmp_path: Path, more: list[str], says: str) -> None:
    data = run(cli, tmp_path)
    data["configs"][0]["device"]["description"] = "Another"
    (tmp_path / "other.json").write_text(json.dumps(data))
    done = cli(*RUN, *more)
    assert (done.returncode, done.stdout) == (128 if "--git-bisect" in more else 2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_baseline_of_ab(cli: Cli, tmp_path: Path) -> None:
    sides = ["ab", *RUN[1:], "--set-env-b", "GGML_CPU_TILED_MM=0", "--seeds", "1"]
    made = cli(*sides, "--export-json", "ab.json")
    assert made.returncode == 1, made.stderr
    known = cli(*sides, "--baseline", "ab.json")
    assert (known.returncode, known.stderr) == (0, "baseline: 4 known, 0 not as in ab.json\n")


def test_diff(cli: Cli, tmp_path: Path) -> None:
    data = run(cli, tmp_path)
    same = cli("diff", "run.json", "run.json")
    assert same.returncode == 0
    assert "- changed: 0 of 4 rows" in same.stdout
    data["results"][0]["verdict"] = "NAN"
    (tmp_path / "b.json").write_text(json.dumps(data))
    changed = cli("diff", "run.json", "b.json")
    assert (changed.returncode, changed.stderr) == (1, "")
    assert "INVARIANT -> NAN" in changed.stdout
    rows = json.loads(cli("diff", "run.json", "b.json", "-o", "json").stdout)["rows"]
    assert [(row["width"], row["after"]) for row in rows] == [(1, {"verdict": "NAN"})]


def test_diff_refuses_what_is_not_comparable(cli: Cli, tmp_path: Path) -> None:
    data = run(cli, tmp_path)
    (tmp_path / "b.json").write_text(json.dumps(data | {"results": data["results"][:3]}))
    done = cli("diff", "run.json", "b.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "at width 2 in c0 is not in B" in done.stderr
    forced = cli("diff", "run.json", "b.json", "--force")
    assert forced.returncode == 0
    assert "- only in A: MUL_MAT(" in forced.stdout
    (tmp_path / "b.json").write_text(json.dumps(data | {"results": []}))
    assert "no results of ops" in cli("diff", "run.json", "b.json", "--force").stderr


def test_export_junit(cli: Cli, tmp_path: Path) -> None:
    run(cli, tmp_path, "--export-junit", "run.xml")
    root = ET.fromstring((tmp_path / "run.xml").read_text())
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["4", "0", "2"]
    again = cli(*RUN, "--export-junit", "run.xml")
    assert (again.returncode, again.stdout) == (2, "")
    assert "--force replaces it" in again.stderr
