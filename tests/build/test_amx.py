"""The run test tells a compiler that keeps the tile configuration from one that drops it."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "cmake" / "amx_tile_config.cpp"

# gcc 12's own text: a memory operand of one pointer, so 56 of the 64 bytes look unread.
DROPS = '__asm__ volatile ("ldtilecfg\\t%X0" :: "m" (*((const void **) (config))))'
# The same with the operand's true size.
KEEPS = '__asm__ volatile ("ldtilecfg\\t%X0" :: "m" (*((const char (*)[64]) (config))))'

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64", reason="AMX is x86-64's"
)


@pytest.fixture
def intrinsic(tmp_path):
    """Writes a header that replaces _tile_loadconfig, to be given with -include."""

    def write(text: str) -> Path:
        header = tmp_path / "intrinsic.h"
        header.write_text(f"#include <immintrin.h>\n#define _tile_loadconfig(config) {text}\n")
        return header

    return write


def run(tmp_path: Path, *flags: str) -> int:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path / "amx"
    command = [compiler, "-mamx-tile", "-mamx-int8", *flags, str(SOURCE), "-o", str(program)]
    subprocess.run(command, check=True)
    return subprocess.run([str(program)], check=False).returncode


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_dropped(tmp_path, intrinsic, level):
    assert run(tmp_path, level, "-include", str(intrinsic(DROPS))) == 1


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
def test_kept(tmp_path, intrinsic, level):
    assert run(tmp_path, level, "-include", str(intrinsic(KEEPS))) == 0


def test_unoptimized_code_keeps(tmp_path):
    assert run(tmp_path, "-O0") == 0


def test_no_ldtilecfg_is_not_taken_for_kept(tmp_path, intrinsic):
    header = intrinsic('__asm__ volatile ("" :: "r" (config))')
    assert run(tmp_path, "-O2", "-include", str(header)) == 2


def cpu_flags(build: Path) -> list[str]:
    commands = json.loads((build / "compile_commands.json").read_text())
    return next(c["command"] for c in commands if c["file"].endswith("ggml-cpu.cpp")).split()


@pytest.mark.parametrize(
    ("text", "options", "amx", "disabled"),
    [
        (DROPS, [], "off: compiler drops the tile configuration", True),
        (KEEPS, [], "on: compiler keeps the tile configuration", False),
        (
            DROPS,
            ["GGMLPROBE_KEEP_AMX=ON"],
            "on: kept as asked, though compiler drops the tile configuration",
            False,
        ),
    ],
)
def test_configuration(cmake, checkout, stamp, tmp_path, intrinsic, text, options, amx, disabled):
    flags = f"CMAKE_CXX_FLAGS=-include {intrinsic(text)}"
    result = cmake(f"GGMLPROBE_SOURCE_DIR={checkout}", flags, "GGML_AMX_TILE=ON", *options)
    assert result.returncode == 0, result.stderr
    assert f"-- AMX: {amx}" in result.stdout
    assert stamp()["amx"] == amx
    assert ("-DGGML_AMX_TILE=ON" in stamp()["cmake_options"].split()) is not disabled
    compiled = cpu_flags(tmp_path / "build")
    assert ("-mno-amx-tile" in compiled) is disabled
    if disabled:
        assert compiled.index("-mno-amx-tile") > compiled.index("-DUPSTREAM_FLAG")
