"""`model compare` against a C program that shares no code with the package, cell for cell."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROMPT = "Explain the Pythagorean theorem"
N, WIDTH = 6, 4

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def compared(cli: Cli, smollm2: Path, llama_h: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that runs `model compare` on one thread and gives its record."""

    def run(*options: object, n: int = N, width: object = WIDTH) -> dict[str, Any]:
        done = cli(
            "model", "compare", smollm2, "-p", PROMPT, "-n", n, "--block-width", width,
            "--threads", 1, "--no-extra-bufts", "--no-chat-template", "--llama-h", llama_h,
            "-o", "json", *options, timeout=600,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        record: dict[str, Any] = json.loads(done.stdout)
        return record

    return run


@pytest.fixture(params=[None, "plugins"])
def lib(request: pytest.FixtureRequest, lib_path: str, foreign_libs: dict[str, Path]) -> str:
    """The library under test, and plug-ins of another origin and version."""
    return str(foreign_libs[request.param]) if request.param else lib_path


@pytest.mark.parametrize("fa", ["off", "on"])
def test_every_cell_is_the_programs(
    compared: Callable[..., dict[str, Any]],
    model_compare_of: Callable[[str], Callable[..., list[list[str]]]], smollm2: Path, lib: str,
    fa: str,
) -> None:  # fmt: skip
    theirs = model_compare_of(lib)(smollm2, PROMPT, n=N, width=WIDTH, fa=fa == "on")
    record = compared("--fa", fa, "--cells", "--lib", lib)
    (row,) = record["comparisons"]
    ours = row["cell_values"]
    assert len(theirs) == record["cells"] == row["cells"] == 4 * N - 6
    assert [[int(c[0]), int(c[1])] for c in theirs] == [
        list(place) for place in zip(ours["window"], ours["offset"], strict=True)
    ]
    assert [int(c[2]) for c in theirs] == [
        row["ar_tokens"][t + j] for t, j in zip(ours["window"], ours["offset"], strict=True)
    ]
    for name, column in (("l_ar", 3), ("l_single", 4), ("l_block", 5)):
        assert [float.fromhex(c[column]) for c in theirs] == ours[name]
    assert [int(c[7]) for c in theirs] == ours["single_token"]
    assert [int(c[8]) for c in theirs] == ours["block_token"]
    # the hashes are over every bit of a row
    assert [c[10] != c[11] for c in theirs] == [count > 0 for count in ours["elements_differing"]]
    assert row["cells_differing"] == sum(c[10] != c[11] for c in theirs)
    assert row["flips"] == sum(c[7] != c[8] for c in theirs)
    (single_check,) = [check for check in row["checks"] if check["name"] == "t=0 single"]
    assert single_check["rows_differing"] == sum(c[9] != c[10] for c in theirs[:WIDTH])


def test_prefix_ar_is_the_seeds_method_in_window_0(
    compared: Callable[..., dict[str, Any]],
) -> None:
    record = compared("--prefix", "prefill,ar", "--cells", width="2,4")
    rows = {(row["width"], row["prefix"]): row for row in record["comparisons"]}
    for width in (2, 4):
        seed, fast = rows[width, "prefill"], rows[width, "ar"]
        assert fast["method"] == "rollback"
        assert fast["ar_tokens"] == seed["ar_tokens"]
        for name in ("l_ar", "l_single", "l_block", "single_token", "block_token"):
            assert fast["cell_values"][name][:width] == seed["cell_values"][name][:width]
        assert fast["cell_values"]["l_single"] == fast["cell_values"]["l_ar"]
        checks = {check["name"]: check for check in fast["checks"]}
        assert set(checks) == {"t=0 single", "t=0 block", "state", "t=0 methods"}
        assert all(c["rows"] and not c["rows_differing"] for c in checks.values())
        assert fast["drift"]["cells"] == fast["cells"] - width


def test_sliding_window_goes_through_saved_states(cli: Cli, gemma3: Path, llama_h: Path) -> None:
    done = cli(
        "model", "compare", gemma3, "-p", PROMPT, "-n", 3, "--block-width", 2, "--threads", 1,
        "--no-extra-bufts", "--prefix", "ar", "--llama-h", llama_h, "-o", "json", timeout=600,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    (row,) = json.loads(done.stdout)["comparisons"]
    assert row["method"] == "saved state"
    assert row["verdict"] in ("INVARIANT", "MISMATCH")
    (state,) = [check for check in row["checks"] if check["name"] == "state"]
    assert (state["rows"], state["rows_differing"]) == (3, 0)
