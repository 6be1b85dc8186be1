"""The README's table of builds is what tests/compatibility.py finds, where that is cheap."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parent


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module; it stands beside conftest.py."""
    monkeypatch.syspath_prepend(str(TESTS))
    return __import__("compatibility")


def columns(text: str, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Some columns of a Markdown table."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    header, *rows = lines
    return [{name: row[header.index(name)] for name in names} for row in rows]


@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux",
    reason="the packages are Linux x86-64",
)
def test_the_table_of_the_readme_is_true(script: ModuleType) -> None:
    written = columns(script.block(script.README.read_text()), script.CHEAP)
    builds = script.builds()
    assert [row["build"] for row in written] == [build.name for build in builds]
    for row, build in zip(written, builds, strict=True):
        stamp = build.lib / "build.json"
        # another library than the packaged one may be under test
        if build is not builds[0] or (stamp.exists() and json.loads(stamp.read_text())["sdist"]):
            found = script.described(build, script.Notes())
            refused = found["types"].startswith("no")
            assert row["types"].startswith("no [") is refused
            # reasons have other numbers here
            names = script.CHEAP[:2] if refused else script.CHEAP
            assert {name: row[name] for name in names} == {name: found[name] for name in names}


def test_columns_of_a_table(script: ModuleType) -> None:
    row = dict.fromkeys((*script.CHEAP, *script.TRIED), "yes") | {"types": "31"}
    notes = script.Notes()
    assert [notes.no("a"), notes.no("b"), notes.no("a")] == ["no [1]", "no [2]", "no [1]"]
    text = script.table([row, row | {"types": "35"}], notes)
    assert columns(text, ("types", "rpc")) == [
        {"types": "31", "rpc": "yes"}, {"types": "35", "rpc": "yes"},
    ]  # fmt: skip
    assert text.endswith("\n\n1. a\n2. b\n")
    assert script.block(f"x\n{script.BEGIN}{text}{script.END}y\n") == text


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("load: x\nggmlprobe: the libggml in /a/b-1/lib64 has no RPC backend: give a build with it",
         "the libggml has no RPC backend"),
        ("ggmlprobe: /a/@b/index.node is stripped, it has no names: give another",
         "index.node is stripped, it has no names"),
        ("ggmlprobe: /a/libggml.so is too old: it has no ggml_x; give a build from 2025",
         "libggml.so is too old: it has no ggml_x"),
    ],
)  # fmt: skip
def test_reasons_name_no_path_of_here(script: ModuleType, said: str, reason: str) -> None:
    assert script.refusal(said) == reason


@pytest.mark.parametrize(
    ("printed", "status", "cell", "told"),
    [
        ([{"verdict": "MISMATCH"}, {"verdict": "INVARIANT"}], 1, "yes", []),
        ([{"verdict": "CRASH", "signal": "SIGABRT"}, {"verdict": "INVARIANT"}], 1,
         "no [1]", ["CRASH: SIGABRT"]),
        ([{"verdict": "UNSUPPORTED", "detail": "no such op"}], 1,
         "no [1]", ["UNSUPPORTED: no such op"]),
        ([], 0, "no [1]", ["nothing ran"]),
        ("ggmlprobe: no device X", 2, "no [1]", ["no device X"]),
    ],
)  # fmt: skip
def test_what_a_cell_says(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, printed: object, status: int, cell: str,
    told: list[str],
) -> None:  # fmt: skip
    # stands in for a build that fails in each way
    rows, err = (printed, "") if isinstance(printed, list) else ([], printed)
    out = json.dumps({"results": rows, "comparisons": []})
    done = subprocess.CompletedProcess([], status, out, err)
    monkeypatch.setattr(script, "command", lambda build, *arguments: done)
    notes = script.Notes()
    assert script.probe(script.Build("", "", TESTS), notes, "op") == cell
    assert notes.texts == told
