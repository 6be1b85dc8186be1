"""`ggmlprobe repro`: what it prints runs without ggmlprobe and finds the same columns and bits."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
Line = tuple[int, int, list[int]]

STRICT = "-Wall -Wextra -Werror -Wno-unused-result"
# the shapes are small, so that a case takes well under a second
PRODUCT = ["--m", "67", "--k", "512", "--threads", "2", "--seeds", "3,9", "--widths", "1-5,8,9"]
ATTENTION = ["--hs", "64", "--heads", "8", "--kv-heads", "2", "--kv", "600", "--threads", "1",
             "--threads-batch", "2", "--seeds", "3,9", "--widths", "1-3,5"]  # fmt: skip
CASES = {
    "mul_mat": ["mul_mat", "--type", "q4_K,f32", *PRODUCT],
    "imatrix": ["mul_mat", "--type", "iq2_xxs", *PRODUCT],
    "batch": ["mul_mat", "--type", "f16", "--bs", "2,3", "--nr", "2,1", *PRODUCT],
    "prec": ["mul_mat", "--type", "f32", "--prec", "f32", "--activations", "outliers", *PRODUCT],
    "many-rows": ["mul_mat", "--type", "f32", "--m", "2111", "--k", "32", "--threads", "2",
                  "--seeds", "3", "--widths", "1-3"],
    **{f"id-{routing}": ["mul_mat_id", "--type", "f32,q4_K", "--experts", "9", "--used", "2",
                         "--routing", routing, *PRODUCT]
       for routing in ("shared", "disjoint", "random", "skewed")},
    "flash_attn": ["flash_attn", *ATTENTION],
    "cache-types": ["flash_attn", "--type-k", "q8_0", "--type-v", "f32", *ATTENTION],
    "all-of-it": ["flash_attn", "--sinks", "--streams", "2", "--softcap", "30", "--max-bias", "8",
                  *ATTENTION],
    "contiguous": ["flash_attn", "--layout", "contiguous", "--window", "100", "--prec", "default",
                   *ATTENTION],
    "no-mask": ["flash_attn", "--no-mask", "--kv-exact", *ATTENTION],
    "mla": ["flash_attn", "--v-is-view-of-k", *ATTENTION[2:], "--hsk", "96", "--hsv", "64"],
    "nofa": ["attn_nofa", *ATTENTION],
    "nofa-all": ["attn_nofa", "--sinks", "--streams", "2", "--softcap", "30", "--max-bias", "8",
                 "--type-k", "q8_0", "--type-v", "f16", *ATTENTION],
}  # fmt: skip


def ran(cli: Cli, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run `op` into run.json; its record."""
    done = cli("op", *arguments, "--export-json", "run.json", "--force")
    assert done.returncode in (0, 1), done.stderr
    record: dict[str, Any] = json.loads((tmp_path / "run.json").read_text())
    return record


def built(cli: Cli, tmp_path: Path, *arguments: str, edit: Callable[[str], str] = str) -> str:
    """Print a program and build it with the line that is printed for that; how to run it."""
    done = cli("repro", "run.json", *arguments)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert text.count("\n") < 150
    (tmp_path / "repro.c").write_text(edit(text))
    build = re.search(r"^build: (.*)$", done.stderr, re.M)
    run = re.search(r"^run: (.*)$", done.stderr, re.M)
    assert build is not None
    assert run is not None
    warned = build[1].replace("cc ", f"cc {STRICT} ", 1)
    subprocess.run(["sh", "-c", warned], cwd=tmp_path, check=True)
    return run[1]


def shown(tmp_path: Path, run: str, env: dict[str, str]) -> tuple[list[Line], int]:
    """What the program prints: (seed, width, columns) of every line; and its exit status."""
    done = subprocess.run(
        ["sh", "-c", run], cwd=tmp_path, check=False, capture_output=True, text=True, env=env
    )
    assert "not repeatable" not in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
    found = [re.fullmatch(r"seed (\d+), width (\d+), columns that differ:(.*)", x) for x in lines]
    assert all(found)
    return [
        (int(m[1]), int(m[2]), [int(t) for t in m[3].replace("none", "").split()])
        for m in found
        if m
    ], done.returncode


def test_an_exported_program_is_built_under_its_own_name(
    cli: Cli, tmp_path: Path, cli_env: dict[str, str]
) -> None:
    record = ran(cli, tmp_path, "mul_mat", "--type", "f32", "--m", "8", "--k", "64",
                 "--widths", "1,2", "--seeds", "1")  # fmt: skip
    done = cli("repro", "run.json", "--case", "1", "--export", "a case.c")
    assert done.returncode == 0, done.stderr
    assert "cc -std=gnu11 -O1 'a case.c' -o 'a case'" in (tmp_path / "a case.c").read_text()
    build, run = (line.split(": ", 1)[1] for line in done.stderr.splitlines()[-2:])
    subprocess.run(["sh", "-c", build], cwd=tmp_path, check=True)
    lines, _ = shown(tmp_path, run, cli_env)
    assert lines == expected(record, record["results"][0]["case"])


def expected(record: dict[str, Any], case: str) -> list[Line]:
    """The same of the record."""
    rows = [row for row in record["results"] if row["case"] == case]
    lines = [
        (part["seed"], row["width"], part["columns_differing"])
        for row in rows
        for part in row["seeds"]
    ]
    order = [part["seed"] for part in rows[0]["seeds"]]
    return sorted(lines, key=lambda line: (order.index(line[0]), line[1]))


DUMP = """
static void dump(const char * out, size_t size, int64_t tokens) {
    FILE * file = fopen("outputs", "ab");
    if (fwrite(out, size, tokens, file) != (size_t) tokens || fclose(file)) exit(3);
}
int main(void) {"""


def dumping(program: str) -> str:
    """The program, writing what it computes: tokens alone, then each block."""
    serial = "for (int64_t t = 0; t < TOKENS; t++) evaluate(t, 1, alone + t*size);"
    block = "evaluate(0, width, block), evaluate(0, width, again);"
    for line in ("int main(void) {", serial, block):
        assert program.count(line) == 1
    program = program.replace("int main(void) {", DUMP.lstrip())
    program = program.replace(serial, f"{serial}\n        dump(alone, size, TOKENS);")
    return program.replace(block, f"{block}\n            dump(block, size, width);")


def hashes(outputs: bytes, seeds: int, tokens: int, widths: list[int]) -> list[list[str]]:
    """Per seed and width the hashes of the tokens; width 1 has those of all tokens alone."""
    size = len(outputs) // (seeds * (tokens + sum(widths)))
    each = [
        hashlib.blake2b(outputs[at : at + size], digest_size=8).hexdigest()
        for at in range(0, len(outputs), size)
    ]
    made = []
    for _ in range(seeds):
        alone, each = each[:tokens], each[tokens:]
        for width in widths:
            block, each = each[:width], each[width:]
            made.append(alone if width == 1 else block)
    return made


@pytest.mark.parametrize("name", CASES)
def test_c_program_finds_what_the_run_found(
    cli: Cli, cli_env: dict[str, str], tmp_path: Path, name: str
) -> None:
    record = ran(cli, tmp_path, *CASES[name])
    places = list(dict.fromkeys(row["case"] for row in record["results"]))
    for number, case in enumerate(places, 1):
        run = built(cli, tmp_path, "--case", str(number), edit=dumping)
        (tmp_path / "outputs").unlink(missing_ok=True)
        lines, status = shown(tmp_path, run, cli_env)
        assert lines == expected(record, case)
        assert status == any(columns for _, _, columns in lines)
        rows = [row for row in record["results"] if row["case"] == case]
        seeds, widths = len(rows[0]["seeds"]), [row["width"] for row in rows]
        outputs = (tmp_path / "outputs").read_bytes()
        assert hashes(outputs, seeds, max(widths), widths) == [
            row["seeds"][s]["hashes"] for s in range(seeds) for row in rows
        ]


def test_buffer_type_and_variables(cli: Cli, cli_env: dict[str, str], tmp_path: Path) -> None:
    done = cli("devices")
    if "CPU_REPACK" not in done.stdout:
        pytest.skip("no buffer type CPU_REPACK in this library")
    arguments = ["mul_mat", "--type", "q4_K", *PRODUCT[4:], "--m", "64", "--k", "512"]
    record = ran(cli, tmp_path, *arguments, "--buft", "CPU,CPU_REPACK",
                 "--set-env", "GGML_CPU_TILED_MM=0")  # fmt: skip
    configs = {config["id"]: config for config in record["configs"]}
    for number, config in enumerate(configs, 1):
        rows = [row for row in record["results"] if row["config"] == config]
        if any(row["verdict"] == "UNSUPPORTED" for row in rows):
            continue
        run = built(cli, tmp_path, "--case", str(number))
        assert ("GGML_CPU_TILED_MM=0" in shlex.split(run)) == bool(
            configs[config]["env"]["GGML_CPU_TILED_MM"]
        )
        lines, _ = shown(tmp_path, run, cli_env | {"GGML_CPU_TILED_MM": "1"})
        assert lines == expected(record | {"results": rows}, rows[0]["case"])


@pytest.mark.parametrize("kind", ["plugins", "hashed", "static", "wheel"])
def test_c_program_builds_against_other_libraries(
    cli: Cli, cli_env: dict[str, str], tmp_path: Path, foreign_libs: dict[str, Path], kind: str
) -> None:
    record = ran(cli, tmp_path, *CASES["mul_mat"], "--lib", str(foreign_libs[kind]))
    run = built(cli, tmp_path, "--case", "2")
    assert shown(tmp_path, run, cli_env)[0] == expected(record, record["results"][-1]["case"])


def test_first_case_that_differs_is_chosen(cli: Cli, tmp_path: Path) -> None:
    record = ran(cli, tmp_path, "mul_mat", "--type", "q8_0,f32", *PRODUCT)
    differing = [row["case"] for row in record["results"] if row["columns_differing"]]
    done = cli("repro", "run.json", "--export", "out.c")
    assert done.stdout == ""
    wanted = differing[0] if differing else record["results"][0]["case"]
    assert wanted in done.stderr.splitlines()[0]
    assert (tmp_path / "out.c").read_text().startswith("/* ggmlprobe op mul_mat")
    again = cli("repro", "run.json", "--export", "out.c")
    assert (again.returncode, "--force replaces it" in again.stderr) == (2, True)


def test_list(cli: Cli, tmp_path: Path) -> None:
    record = ran(cli, tmp_path, *CASES["mul_mat"])
    lines = cli("repro", "run.json", "--list").stdout.splitlines()
    cases = list(dict.fromkeys(row["case"] for row in record["results"]))
    assert [line.split(" in c0: ")[0] for line in lines] == [
        f"{number}: {case}" for number, case in enumerate(cases, 1)
    ]


def test_test_file(cli: Cli, tmp_path: Path, lib_path: str) -> None:
    ran(cli, tmp_path, "flash_attn", "--sinks", *ATTENTION)
    done = cli("repro", "run.json", "--emit", "test-file", "--width", "3")
    assert "cannot show that two widths differ" in done.stderr
    words = done.stdout.split()
    # op, type, ne: 64 values, 8 heads, 3 tokens
    assert words[1:6] == ["0", "64", "8", "3", "1"]
    # one eighth, ALiBi, soft-capping, f32
    assert words[6:11] == ["4", str(0x3E000000), "0", "0", "10"]
    assert words[11] == "5"
    q = words[12:21]
    assert q == ["0", "64", "3", "8", "1", "4", "2048", "256", "6144"]
    assert len(words) == 12 + 5 * 9 + 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.json"], "none.json: cannot be read"),
        (["run.json", "--case", "7"], "--case 7 is not from 1 to 1"),
        (["run.json", "--lib", "nowhere"], "no such file or folder"),
        (["run.json", "--emit", "test-case", "--width", "99"], "99 is more than"),
    ],
)
def test_refusals(cli: Cli, tmp_path: Path, arguments: list[str], says: str) -> None:
    ran(cli, tmp_path, *CASES["many-rows"])
    done = cli("repro", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "emit", "says"),
    [
        (["mul_mat", "--per", "0,2,1,3", *PRODUCT], "c", "use --emit test-case"),
        (["attn_nofa", *ATTENTION], "test-case", "use --emit c"),
        (["flash_attn", "--check", "kv-padding", *ATTENTION], "c", "take ggmlprobe itself"),
        (["flash_attn", "--streams", "2", *ATTENTION], "test-case", "use --emit c"),
    ],
)
def test_cases_that_cannot_be_emitted(
    cli: Cli, tmp_path: Path, arguments: list[str], emit: str, says: str
) -> None:
    ran(cli, tmp_path, *arguments)
    done = cli("repro", "run.json", "--emit", emit)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize("kind", ["plugins-2025", "plugins-0.9"])
@pytest.mark.parametrize("name", ["flash_attn", "nofa"])
def test_builds_of_2025(
    cli: Cli, tmp_path: Path, cli_env: dict[str, str], foreign_libs: dict[str, Path], kind: str,
    name: str,
) -> None:  # fmt: skip
    # their masks are padded, and the older one numbers precision f32 otherwise
    env = cli_env | {"GGMLPROBE_LIB": str(foreign_libs[kind])}
    record = ran(cli, tmp_path, *CASES[name], "--lib", str(foreign_libs[kind]))
    run = built(cli, tmp_path)
    lines, _ = shown(tmp_path, run, env)
    assert lines == expected(record, record["results"][0]["case"])
    assert {row["verdict"] for row in record["results"]} <= {"INVARIANT", "MISMATCH", "PRECISION"}
