"""The whole tool on a device named CUDA0, which is a stand-in: no GPU is needed.

tests/c/standin_backend.cpp says what each path and setting does to the bits: MMVQ up to 5 columns,
of which 5 differ from fewer; then MMQ; attention vec for 1 and 2 tokens, then MMA.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cuda = Callable[..., subprocess.CompletedProcess[str]]

SMALL = ("--m", "64", "--k", "256")
PRODUCT = ("op", "mul_mat", *SMALL, "--widths", "1-8")


def record(cuda: Cuda, *arguments: str, **more: Any) -> dict[str, Any]:
    done = cuda(*arguments, "-o", "json", **more)
    assert done.returncode in (0, 1), done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def groups(run: dict[str, Any]) -> list[list[list[int]]]:
    return [entry["groups"] for entry in run["classes"]]


OWN_GROUPS = [[1, 2, 3, 4], [5], [6, 7, 8]]


def test_the_first_gpu_is_the_device_and_paths_part_where_they_were_planted(cuda: Cuda) -> None:
    run = record(cuda, *PRODUCT)
    (config,) = run["configs"]
    assert (config["device"]["name"], config["device"]["type"]) == ("CUDA0", "GPU")
    assert groups(run) == [OWN_GROUPS]


@pytest.mark.parametrize("name", ["cuda1", "CUDA1"])
def test_another_device_by_name(cuda: Cuda, name: str) -> None:
    run = record(cuda, *PRODUCT, "--device", name)
    assert run["configs"][0]["device"]["name"] == "CUDA1"
    assert groups(run) == [OWN_GROUPS]


def test_every_device_runs_into_one_record(cuda: Cuda) -> None:
    run = record(cuda, "op", "mul_mat", *SMALL, "--widths", "1,5", "--device", "CUDA0,CUDA1")
    assert [config["device"]["name"] for config in run["configs"]] == ["CUDA0", "CUDA1"]
    assert groups(run) == [[[1], [5]]] * 2


def test_a_gpu_that_does_not_start_is_named_in_one_line(cuda: Cuda) -> None:
    done = cuda(*PRODUCT, env={"STANDIN_BROKEN": "0"})
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "device CUDA0 cannot be started" in line
    assert cuda(*PRODUCT, "--device", "CUDA1", env={"STANDIN_BROKEN": "0"}).returncode == 1


@pytest.mark.parametrize("device", [["--device", "CUDA0"], ["--device", "CUDA1"]])
def test_a_backend_without_a_device_says_what_is_missing(cuda: Cuda, device: list[str]) -> None:
    """The state of a GPU build on a machine without a driver."""
    done = cuda(*PRODUCT, *device, env={"STANDIN_DEVICES": "0"})
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "libcuda.so.1" in line
    assert "driver" in line


def linked(folder: Path, name: str, source: str, *more: str) -> None:
    """Compile a library that looks for others beside itself."""
    (folder / "source.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", "source.c", "-o", name, "-Wl,-rpath,$ORIGIN", *more]
    subprocess.run(command, cwd=folder, check=True)


@pytest.mark.parametrize("plug_in", [False, True])
@pytest.mark.parametrize("command", [["devices"], [*PRODUCT, "--device", "CUDA0"]])
def test_a_build_linked_to_the_driver_names_it_where_it_is_missing(
    cuda: Cuda, cuda_lib: Path, tmp_path: Path, command: list[str], plug_in: bool
) -> None:
    """As GGML_CUDA_NO_VMM=OFF links it: libggml-cuda.so needs libcuda.so.1 itself."""
    folder = tmp_path / "lib"
    folder.mkdir()
    for path in cuda_lib.glob("libggml*.so"):
        shutil.copy(path, folder)
    linked(folder, "libcuda.so.1", "int cuInit(int flags) { return flags; }",
           "-Wl,-soname,libcuda.so.1")  # fmt: skip
    calls = "int cuInit(int); int cuda(void) { return cuInit(0); }"
    linked(folder, "libggml-cuda.so", calls, "-l:libcuda.so.1", "-L.")
    if not plug_in:
        calls = "int cuda(void); int ggml(void) { return cuda(); }"
        linked(folder, "libggml.so", calls, "-lggml-cuda", "-L.")
    (folder / "libcuda.so.1").unlink()
    done = cuda(*command, "--lib", folder)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "libcuda.so.1" in line]
    assert len(lines) == 1, done.stderr
    assert "needs libcuda.so.1, which is not here; it comes with the NVIDIA driver" in lines[0]
    assert done.returncode == (0 if plug_in and command == ["devices"] else 2)
    assert len(done.stderr.splitlines()) == (0 if done.returncode == 0 else 1)


def test_kernels_name_the_path_of_each_width(cuda: Cuda) -> None:
    run = record(cuda, *PRODUCT, "--kernels")
    named = [[kernel["name"] for kernel in row["kernels"]] for row in run["results"]]
    vec = [[f"void mul_mat_vec_q<(ggml_type)12, {width}>()"] for width in range(1, 6)]
    assert named == [*vec, *[["void mul_mat_q<(ggml_type)12>()"]] * 3]
    assert [row["kernels"][0]["grid"] for row in run["results"]] == [[w, 1, 1] for w in range(1, 9)]
    assert groups(run) == [OWN_GROUPS]


def test_attention_is_vec_then_mma(cuda: Cuda) -> None:
    run = record(cuda, "op", "flash_attn", "--kv", "256", "--heads", "4", "--kv-heads", "1",
                 "--widths", "1-4", "--kernels")  # fmt: skip
    assert groups(run) == [[[1, 2], [3, 4]]]
    assert [row["kernels"][0]["name"].split("<")[0] for row in run["results"]] == [
        "void flash_attn_ext_vec", "void flash_attn_ext_vec",
        "void flash_attn_ext_f16", "void flash_attn_ext_f16",
    ]  # fmt: skip


def test_bisect_finds_every_boundary_of_the_paths(cuda: Cuda) -> None:
    run = record(cuda, "bisect", "mul_mat", *SMALL, "--to", "80")
    (found,) = run["bisections"]
    assert found["boundaries"] == [[4, 5], [5, 6], [63, 64]]


@pytest.mark.parametrize(("env", "first"), [({}, 32), ({"GGML_OP_OFFLOAD_MIN_BATCH": "12"}, 12)])
def test_a_wide_product_goes_to_the_gpu_where_its_weights_lie_in_host_memory(
    cuda: Cuda, env: dict[str, str], first: int
) -> None:
    """Op offload, which only a scheduler does."""
    command = ["bisect", "mul_mat", *SMALL, "--device", "CUDA0+CPU", "--to", "40"]
    run = record(cuda, *command, "--threads", "1", env=env)
    ran = {row["width"]: row["backends"] for row in run["results"]}
    assert ran == {width: ["CUDA0" if width >= first else "CPU"] for width in ran}
    assert {first - 1, first} <= set(ran)
    assert {row["weights_buft"] for row in run["results"]} == {"CUDA_Host"}
    assert [first - 1, first] in run["bisections"][0]["boundaries"]


def test_settings_reach_the_child_before_the_library_reads_them(cuda: Cuda) -> None:
    """By the features the stand-in tells, and by the width that each setting changes."""
    settings = [
        "--set-env",
        "GGML_CUDA_DISABLE_GRAPHS=1",
        "--set-env",
        "GGML_CUDA_DISABLE_FUSION=1",
    ]
    run = record(cuda, *PRODUCT, *settings)
    features = [config["device"]["features"] for config in run["configs"]]
    assert [(each["GRAPHS"], each["FUSION"]) for each in features] == [
        ("1", "1"), ("1", "0"), ("0", "1"), ("0", "0"),
    ]  # fmt: skip
    assert groups(run) == [
        OWN_GROUPS,
        [[1, 2, 3, 4], [5], [6, 8], [7]],
        [[1, 2, 3, 4], [5], [6], [7, 8]],
        [[1, 2, 3, 4], [5], [6], [7], [8]],
    ]


def test_ab_of_a_setting_shows_the_width_it_changes(cuda: Cuda, tmp_path: Path) -> None:
    setting = ["--set-env-b", "GGML_CUDA_DISABLE_FUSION=1"]
    files = ["--export-json", tmp_path / "ab.json"]
    done = cuda("ab", "mul_mat", *SMALL, "--widths", "1,7", "--hot", *setting, *files)
    assert done.returncode == 1, done.stderr
    run = json.loads((tmp_path / "ab.json").read_text())
    hashes: dict[int, list[Any]] = {}
    for row in run["results"]:
        hashes.setdefault(row["width"], []).append([seed["hashes"] for seed in row["seeds"]])
        assert row["time"]["median_seconds"] > 0
    assert [w for w, (a, b) in sorted(hashes.items()) if a != b] == [7]


def test_interposed_thresholds_take_every_width_and_the_kernels_prove_it(cuda: Cuda) -> None:
    run = record(cuda, "threshold", "mul_mat", *SMALL, "--widths", "1-5,7-9", "--no-time")
    ids = {config["id"]: config["arm"] for config in run["configs"]}
    assert list(ids.values()) == [None, "mmvq", "mmq", "cublas", "split:4"]
    made = {ids[entry["config"]]: entry["groups"] for entry in run["classes"]}
    # the serial reference of an arm is its own width 1
    assert made == {
        None: [[1, 2, 3, 4], [5], [7, 8, 9]],
        "mmvq": [[1, 2, 3, 4], [5, 7, 8]],
        "mmq": [[1, 2, 3, 4, 5, 7, 8, 9]],
        "cublas": [[1, 2, 3, 4, 5, 7, 8, 9]],
        "split:4": [[1, 2, 3, 4, 5, 7, 8, 9]],
    }
    split = [row for row in run["results"] if ids[row["config"]] == "split:4" and row["width"] == 9]
    assert {(k["name"], k["calls"]) for k in split[0]["kernels"]} == {
        ("void mul_mat_vec_q<(ggml_type)12, 4>()", 2),
        ("void mul_mat_vec_q<(ggml_type)12, 1>()", 1),
    }


def test_interposed_attention(cuda: Cuda) -> None:
    run = record(cuda, "threshold", "flash_attn", "--kv", "256", "--heads", "4", "--kv-heads", "1",
                 "--widths", "1-4", "--no-time")  # fmt: skip
    ids = {config["id"]: config["arm"] for config in run["configs"]}
    made = {ids[entry["config"]]: entry["groups"] for entry in run["classes"]}
    assert made == {None: [[1, 2], [3, 4]], "tile": [[1, 2, 3, 4]], "vec": [[1, 2, 3, 4]]}


def test_without_kernel_names_an_arm_claims_nothing(cuda: Cuda, cli_env: dict[str, str]) -> None:
    plain = {"PYTHONPATH": cli_env["PYTHONPATH"]}
    run = record(cuda, "threshold", "mul_mat", *SMALL, "--widths", "1,2", "--no-time", env=plain)
    details = {row["detail"] for row in run["results"] if row["config"] != "c0"}
    assert details == {"not proven: kernel names need CUPTI: pip install cupti-python"}


def test_time_of_each_width(cuda: Cuda) -> None:
    run = record(cuda, "op", "mul_mat", *SMALL, "--widths", "1,8", "--time", "--hot")
    for row in run["results"]:
        assert row["time"]["median_seconds"] > 0
        # the cache that is assumed of a device that tells none
        assert row["time"]["cache_bytes"] == 128 * 2**20


def test_the_driver_tells_the_device(cuda: Cuda, tmp_path: Path) -> None:
    (tmp_path / "cuda.c").write_text(
        "int cuInit(unsigned int flags) { return flags; }\n"
        "int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }\n"
        "int cuDeviceGetAttribute(int *value, int attribute, int device) {\n"
        "    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 100 + device;\n"
        "    return 0;\n}\n"
    )
    build = ["cc", "-shared", "-fPIC", "cuda.c", "-o", "libcuda.so.1"]
    subprocess.run(build, cwd=tmp_path, check=True)
    run = record(cuda, "op", "mul_mat", *SMALL, "--widths", "1,2", "--device", "CUDA1",
                 env={"LD_LIBRARY_PATH": str(tmp_path)})  # fmt: skip
    features = run["configs"][0]["device"]["features"]
    assert (features["COMPUTE_CAPABILITY"], features["SM_COUNT"]) == ("9.0", "101")
