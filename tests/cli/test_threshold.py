"""`threshold` on a real library's CPU backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from ggmlprobe.ggml.device import devices
from ggmlprobe.ggml.library import Library

Cli = Callable[..., CompletedProcess[str]]
Rows = dict[tuple[str, int], dict[str, Any]]

# so large that most samples of a run fall into the product
SMALL = ("--m", "1024", "--k", "1024", "--seeds", "1", "-t", "1")


@pytest.fixture(scope="module")
def features(library: Library) -> dict[str, str]:
    return next(each.features for each in devices(library) if each.type == "CPU")


def run(cli: Cli, *arguments: object) -> tuple[dict[str, Any], Rows]:
    done = cli("threshold", "mul_mat", *SMALL, *arguments, "-o", "json", timeout=300)
    assert done.returncode in (0, 1), done.stderr
    record = json.loads(done.stdout)
    arms = {config["id"]: config["arm"] or "own" for config in record["configs"]}
    return record, {(arms[row["config"]], row["width"]): row for row in record["results"]}


def main_kernels(row: dict[str, Any]) -> str:
    return " ".join(kernel["name"] for kernel in row["kernels"] if kernel["share"] > 0.1)


def hashes(row: dict[str, Any]) -> list[list[str]]:
    return [seed["hashes"] for seed in row["seeds"]]


def test_sgemm_turned_off_changes_the_kernel_and_the_boundary(
    cli: Cli, features: dict[str, str]
) -> None:
    if features.get("LLAMAFILE") != "1":
        pytest.skip("this libggml is built without llamafile_sgemm")
    arguments = ("--types", "f32", "--widths", "1-4", "--arms", "vec_dot,sgemm", "--no-time")
    record, rows = run(cli, *arguments)
    wide = [main_kernels(rows["own", width]) for width in (2, 3, 4)]
    if not all("tinyBLAS" in name for name in wide):
        pytest.skip("llamafile_sgemm takes no f32 on this CPU")
    for width in range(1, 5):
        assert "ggml_vec_dot_f32" in main_kernels(rows["vec_dot", width])
        assert rows["vec_dot", width]["verdict"] == "INVARIANT"
    groups = {entry["config"]: entry["groups"] for entry in record["classes"]}
    assert groups["c0"] == [[1], [2, 3, 4]], "tinyBLAS and vec_dot sum in different orders"
    assert groups["c1"] == [[1, 2, 3, 4]]
    assert rows["sgemm", 1]["detail"] == "llamafile_sgemm refuses a single column"
    for width in range(2, 5):
        assert hashes(rows["sgemm", width]) == hashes(rows["own", width])
    # the tokens are the same in every child
    assert hashes(rows["vec_dot", 1]) == hashes(rows["own", 1])


def test_tiled_and_its_switch(cli: Cli) -> None:
    _, rows = run(cli, "--types", "q4_K", "--widths", "1,4,8", "--arms",
                  "tiled,no-tiled,split:4", "--no-time")  # fmt: skip
    if "tiled" not in main_kernels(rows["own", 8]):
        pytest.skip("no tiled product on this CPU")
    assert all("tiled" in main_kernels(rows["tiled", width]) for width in (1, 4, 8))
    for width in (1, 4, 8):
        assert "ggml_vec_dot_q4_K" in main_kernels(rows["no-tiled", width])
        assert rows["no-tiled", width]["verdict"] == "INVARIANT"
    # two calls of 4 columns give what one call of 4 gives: each token has the bits of the arm
    # without the tiled product
    assert rows["split:4", 8]["verdict"] == "INVARIANT"
    assert hashes(rows["split:4", 8]) == hashes(rows["no-tiled", 8])
    assert hashes(rows["split:4", 8]) != hashes(rows["own", 8])


def test_portable_dot_products_take_the_place_of_this_processors(cli: Cli) -> None:
    _, rows = run(cli, "--types", "q4_K,f32", "--widths", "1,3", "--arms", "generic",
                  "--no-time")  # fmt: skip
    for row in rows.values():
        name = row["params"]["type_a"]
        if row["config"] == "c0":
            continue
        if name == "f32":
            assert row["detail"] == "f32 has no portable dot product to take instead"
        elif row["verdict"] == "UNSUPPORTED":
            assert "this library has no ggml_vec_dot" in row["detail"]
        else:
            assert f"ggml_vec_dot_{name}" in main_kernels(row)
            assert "_generic" in main_kernels(row)
            assert row["verdict"] == "INVARIANT"
            assert row["nmse_width"] < 5e-4


def test_split_with_threads_has_the_bits_of_the_narrow_call(cli: Cli) -> None:
    done = cli("threshold", "mul_mat", "--types", "q4_K", "--m", "997", "--k", "1024", "--widths",
               "1,3,8,11", "--arms", "split:3", "--no-time", "-t", "2", "-o", "json",
               timeout=300)  # fmt: skip
    record = json.loads(done.stdout)
    rows = {row["width"]: row for row in record["results"] if row["config"] == "c1"}
    own = {row["width"]: row for row in record["results"] if row["config"] == "c0"}
    proven = [width for width, row in rows.items() if row["seeds"]]
    assert {1, 3} <= set(proven)
    for width in proven:
        serial = [seed[:width] for seed in hashes(own[1])]
        assert hashes(rows[width]) == (serial if width > 1 else hashes(own[1]))


def test_an_arm_without_effect_is_not_proven_and_claims_nothing(cli: Cli) -> None:
    # one family of kernels at every width: no name can show that calls were split
    _, rows = run(cli, "--types", "q5_1", "--widths", "1,2,4", "--arms", "split:2")
    row = rows["split:2", 4]
    assert row["verdict"] == "UNSUPPORTED"
    assert row["detail"] == "not proven: the same kernels as without it"
    assert (row["seeds"], row["time"], row["max_ulp"]) == ([], None, None)
    assert row["kernels"]
    assert rows["split:2", 2]["time"] is not None
    assert rows["own", 4]["time"] is not None


def test_repacked_weights(cli: Cli) -> None:
    _, rows = run(cli, "--types", "q4_0,f32", "--widths", "1,5", "--arms", "repack", "--no-time")
    for (arm, _), row in rows.items():
        if arm == "repack" and row["params"]["type_a"] == "q4_0" and row["seeds"]:
            assert "ggml_gem" in main_kernels(row) or "repack" in main_kernels(row)
        elif arm == "repack" and row["params"]["type_a"] == "f32":
            assert row["detail"] == "CPU_REPACK does not repack f32"


def test_table_has_thresholds_and_times(cli: Cli) -> None:
    done = cli("threshold", "mul_mat", "--types", "q4_K,q6_K", *SMALL, "--widths", "1,8",
               "--arms", "vec_dot,tiled", timeout=300)  # fmt: skip
    if "tiled_" not in done.stdout:
        pytest.skip("no tiled product on this CPU")
    assert "| width | own | vec_dot | tiled |" in done.stdout
    assert "| width | vec_dot us | tiled us | ratio" in done.stdout
    assert "threshold: tiled from width, else vec_dot | types" in done.stdout


def test_something_else_that_comes_first_is_preloaded_over(cli: Cli, planted: Path) -> None:
    arguments = ("threshold", "mul_mat", *SMALL, "--types", "f32", "--widths", "1,4", "--arms",
                 "vec_dot", "--no-time", "-o", "json")  # fmt: skip
    done = cli(*arguments, env={"LD_PRELOAD": str(planted), "PLANTED": "boundary:2:9"}, timeout=300)
    record = json.loads(done.stdout)
    rows = {(row["config"], row["width"]): row for row in record["results"]}
    assert planted.name in rows["c0", 4]["samples_dropped"], "the own choice runs the planted one"
    assert planted.name not in rows["c1", 4]["samples_dropped"]
    assert "ggml_vec_dot_f32" in main_kernels(rows["c1", 4])
    assert "LD_PRELOAD" in record["configs"][1]["env"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--arms", "mmvq"], "no arm mmvq for mul_mat on CPU: there are vec_dot"),
        (["--arms", "split:x"], "no arm split:x"),
        (["--types", "q9_K"], "no type q9_K"),
        (["--threads", "1,2"], "give --threads one value"),
        (["--set-env", "A=1"], "leave --set-env out"),
    ],
)
def test_bad_input_is_one_line(cli: Cli, arguments: list[str], says: str) -> None:
    done = cli("threshold", "mul_mat", *arguments, "--widths", "1,2", "--no-time")
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_static_library_is_refused_with_the_symbol(cli: Cli, foreign_libs: dict[str, Path]) -> None:
    done = cli("threshold", "mul_mat", "--lib", foreign_libs["static"], "--arms", "vec_dot")
    assert done.returncode == 2
    assert "llamafile_sgemm is called without being looked up" in done.stderr
    assert len(done.stderr.splitlines()) == 1
