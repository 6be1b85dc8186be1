"""What `ggmlprobe repro` emits for test-backend-ops, compiled into the pinned source's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]

PINNED_GGML = "0.25.3"
# upstream takes half of the cores
THREADS = str(max(1, len(os.sched_getaffinity(0)) // 2))
OPS = {
    "MUL_MAT": ["mul_mat", "--type", "f32", "--m", "64", "--k", "512"],
    # every token goes to both experts, however upstream routes them
    "MUL_MAT_ID": ["mul_mat_id", "--type", "q4_K", "--experts", "2", "--used", "2", "--m", "64",
                   "--k", "512"],
    "FLASH_ATTN_EXT": ["flash_attn", "--hs", "64", "--heads", "8", "--kv-heads", "2", "--kv", "600",
                       "--sinks", "--softcap", "30"],
}  # fmt: skip
PRECISE = ["mul_mat", "--type", "q8_0", "--m", "64", "--k", "512", "--prec", "f32", "--bs", "2,1"]


def inserted(source: str, emitted: str) -> str:
    """Upstream's file with a struct and its case pasted where the emitted text says."""
    struct, made = emitted.split("// and into make_test_cases_eval():\n")
    base = re.search(r"// paste below struct (\w+):", struct)
    assert base is not None
    below = re.search(rf"^struct {base[1]} .*?^}};\n", source, re.M | re.S)
    assert below is not None
    source = source[: below.end()] + struct + source[below.end() :]
    start = re.search(r"make_test_cases_eval\(.*?\{\n.*?test_cases;\n", source, re.S)
    assert start is not None
    return source[: start.end()] + made + source[start.end() :]


@pytest.fixture(scope="session")
def backend_ops(
    cli_env: dict[str, str], lib_path: str, upstream: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, list[int]]]:
    """Return test-backend-ops with every emitted struct in it, and the widths that differ here.

    Without optimization it compiles in a few seconds.
    """
    folder = tmp_path_factory.mktemp("backend-ops")
    source, differs = (upstream / "tests" / "test-backend-ops.cpp").read_text(), {}

    def command(*arguments: str) -> str:
        line = [sys.executable, "-m", "ggmlprobe", *arguments]
        done = subprocess.run(line, cwd=folder, env=cli_env, capture_output=True, text=True,
                              check=False)  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    for op, arguments in OPS.items():
        command("op", *arguments, "--widths", "1,4,9", "--threads", THREADS, "--seeds", "1",
                "--export-json", f"{op}.json")  # fmt: skip
        record = json.loads((folder / f"{op}.json").read_text())
        if record["configs"][0]["library"]["version"] != PINNED_GGML:
            pytest.skip("the library under test is not of the pinned source")
        differs[op] = [row["width"] for row in record["results"] if row["columns_differing"]]
        source = inserted(source, command("repro", f"{op}.json", "--emit", "test-case"))
    command("op", *PRECISE, "--widths", "1,2", "--export-json", "precise.json")
    struct = command("repro", "precise.json", "--emit", "test-case")
    # the struct is there by now: with a precision it is another one
    source = inserted(source, struct.replace("test_mul_mat_width", "test_mul_mat_precise_width"))
    (folder / "test-backend-ops.cpp").write_text(source)
    link = ["-lggml", "-lggml-base", "-lggml-cpu", f"-L{lib_path}", f"-Wl,-rpath,{lib_path}"]
    build = ["g++", "-std=c++17", "-O0", "-Wall", "-Wextra", f"-I{upstream}/ggml/include"]
    subprocess.run([*build, "test-backend-ops.cpp", *link, "-o", "test-backend-ops"], cwd=folder,
                   check=True)  # fmt: skip
    return folder / "test-backend-ops", differs


@pytest.mark.parametrize("op", OPS)
def test_struct_reaches_the_verdict_of_the_run(
    backend_ops: tuple[Path, dict[str, list[int]]], op: str
) -> None:
    program, differs = backend_ops
    done = subprocess.run([program, "test", "-b", "CPU", "-o", f"{op}_WIDTH"], text=True,
                          capture_output=True, check=False)  # fmt: skip
    cases = [line for line in done.stdout.splitlines() if f"  {op}_WIDTH(" in line and ": " in line]
    assert len(cases) == (2 if op == "MUL_MAT" else 1), done.stdout
    case = next(line for line in cases if "bs=[2,1]" not in line)
    assert re.search(rf"\bnb?={min(differs[op], default=9)}\b", case)
    assert ("FAIL" in case, "OK" in case) == (bool(differs[op]), not differs[op])


@pytest.mark.parametrize("op", OPS)
def test_line_is_read_as_the_case(
    backend_ops: tuple[Path, dict[str, list[int]]], cli: Cli, op: str
) -> None:
    program, _ = backend_ops
    folder = program.parent
    done = cli("repro", folder / f"{op}.json", "--emit", "test-file", "--width", "4", "--export",
               folder / f"{op}.txt")  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = subprocess.run([program, "test", "-b", "CPU", "--test-file", f"{op}.txt"], text=True,
                           capture_output=True, check=False, cwd=folder)  # fmt: skip
    (case,) = (line for line in shown.stdout.splitlines() if f"  {op}(type=f32," in line)
    shapes = {
        "MUL_MAT": "ne=[64,4,1,1],op_params=[],sources=f32[512,64,1,1],f32[512,4,1,1]",
        "MUL_MAT_ID": "ne=[64,2,4,1],op_params=[],"
        "sources=q4_K[512,64,2,1],f32[512,1,4,1],i32[2,4,1,1]",
        "FLASH_ATTN_EXT": "ne=[64,8,4,1],op_params=[0:1040187392,2:1106247680,3:10],"
        "sources=f32[64,4,8,1]nb[4,2048,256,8192],f16[64,768,2,1]nb[2,256,128,196608],"
        "f16[64,768,2,1]nb[2,256,128,196608],f16[768,4,1,1],f32[8,1,1,1]",
    }
    assert shapes[op] in case
    assert "not supported" not in case
