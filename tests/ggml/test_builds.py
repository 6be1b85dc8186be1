"""The same code on builds of different version, age and layout, each in a process of its own."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXERCISE = Path(__file__).parent / "exercise.py"
VERSIONS = {
    "wheel": "0.20.2",
    "hashed": "0.13.1",
    "plugins": "0.25.1",
    "plugins-0.9": "0.9.4",
    "static": "0.18.0",
    # before ggml had a version
    "hashed-2025": None,
    "plugins-2025": None,
}
# Flash attention asked for a mask of so many rows, or a multiple.
MASK_ROWS = {"plugins-0.9": 64, "hashed-2025": 64, "plugins-2025": 64}

x86_64 = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux",
    reason="the packages are Linux x86-64",
)


def exercise(lib: str | Path, *before: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(EXERCISE), str(lib), *map(str, before)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def assert_sound(seen: dict[str, Any]) -> None:
    types = seen["types"]
    sizes = {name: (t["id"], t["blck_size"], t["type_size"]) for name, t in types.items()}
    # ids and block layouts are part of the GGUF file format
    assert sizes["f32"] == (0, 1, 4)
    assert sizes["q8_0"] == (8, 32, 34)
    assert sizes["q4_K"] == (12, 256, 144)
    assert sizes["bf16"] == (30, 1, 2)
    # behind two gaps of removed types, since August 2025
    assert sizes.get("mxfp4", (39, 32, 17)) == (39, 32, 17)
    assert not types["f16"]["quantized"]
    assert types["q4_K"]["quantized"]
    assert all(name.isidentifier() for name in types)
    assert len({t["id"] for t in types.values()}) == len(types)
    assert "CPU" in [device["type"] for device in seen["devices"]]
    assert seen["round_trip"]["q8_0"] < 1e-4 < seen["round_trip"]["q4_0"] < 1e-2
    assert seen["round_trip"]["q4_K"] < 1e-2
    assert seen["round_trip"]["iq4_xs"] < 1e-2
    assert seen["round_trip"]["f16"] < 1e-6 < seen["round_trip"]["bf16"] < 1e-5
    assert seen["product"] < 5e-4


def test_library_under_test(lib_path: str) -> None:
    seen = exercise(lib_path)
    assert_sound(seen)
    assert "mxfp4" in seen["types"]


@x86_64
@pytest.mark.parametrize("kind", VERSIONS)
def test_foreign_build(kind: str, foreign_libs: dict[str, Path]) -> None:
    seen = exercise(foreign_libs[kind])
    assert_sound(seen)
    assert seen["version"] == VERSIONS[kind]
    assert seen["mask_rows"] == MASK_ROWS.get(kind, 1)
    # of the variants that were tried, the one that computes
    variants = [name for name in seen["loaded"] if name.startswith("libggml-cpu")]
    assert seen["cpu_files"] == variants
    assert len(variants) == (kind != "static")


@x86_64
def test_types_follow_the_build_not_a_list(foreign_libs: dict[str, Path]) -> None:
    old, new = exercise(foreign_libs["plugins-0.9"]), exercise(foreign_libs["plugins"])
    # nvfp4 and q1_0 came between these two versions
    assert {"nvfp4", "q1_0"} <= new["types"].keys() - old["types"].keys()
    assert old["types"].keys() <= new["types"].keys()


@x86_64
def test_a_plug_in_file_chooses_the_variant(foreign_libs: dict[str, Path]) -> None:
    folder = foreign_libs["plugins"]
    plain = exercise(folder / "libggml-cpu-x64.so")
    assert_sound(plain)
    (cpu,) = plain["devices"]
    assert "AVX" not in cpu["features"]
    assert plain["loaded"] == ["libggml-base.so", "libggml-cpu-x64.so", "libggml.v0.5.0.so"]
    assert "SSSE3" in exercise(folder / "libggml-cpu-sse42.so")["devices"][0]["features"]


@x86_64
def test_the_variant_that_libggml_chose_is_named(foreign_libs: dict[str, Path]) -> None:
    seen = exercise(foreign_libs["plugins"])
    base, variant, main = seen["loaded"]
    assert (base, main) == ("libggml-base.so", "libggml.v0.5.0.so")
    assert variant.startswith("libggml-cpu-")
    assert seen["cpu_files"] == [variant]
    assert exercise(foreign_libs["wheel"])["cpu_files"] == ["libggml-cpu.so"]
    assert exercise(foreign_libs["static"])["loaded"] == ["index.node"]


@x86_64
def test_plug_ins_in_a_folder_of_their_own(foreign_libs: dict[str, Path], tmp_path: Path) -> None:
    lib, backends, links = (tmp_path / name for name in ("keg/lib", "keg/libexec", "lib"))
    for folder in (lib, backends, links):
        folder.mkdir(parents=True)
    for name in ("libggml-base.so", "libggml.v0.5.0.so"):
        shutil.copy(foreign_libs["plugins"] / name, lib)
        (links / name).symlink_to(lib / name)
    for name in ("libggml-cpu-x64.so", "libggml-cpu-sse42.so"):
        shutil.copy(foreign_libs["plugins"] / name, backends)
    for given in (lib, links):
        seen = exercise(given)
        assert_sound(seen)
        assert seen["cpu_files"] == ["libggml-cpu-sse42.so"]
        assert len(seen["loaded"]) == 3


@x86_64
def test_a_plug_in_that_is_cut_short_is_named(
    foreign_libs: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("libggml-base.so", "libggml.v0.5.0.so", "libggml-cpu-x64.so"):
        shutil.copy(foreign_libs["plugins"] / name, tmp_path)
    plugin = tmp_path / "libggml-cpu-x64.so"
    with plugin.open("r+b") as file:
        file.truncate(plugin.stat().st_size // 2)
    done = subprocess.run(
        [sys.executable, str(EXERCISE), str(tmp_path)], capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert f"LibraryBroken: {plugin} is damaged: it ends after" in last


@x86_64
def test_too_old_is_said_in_one_line(too_old_lib: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXERCISE), str(too_old_lib)],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert "SymbolMissing" in last
    assert "too old" in last
    assert "give a build from" in last


ASK_FOR_CUDA = """
import sys
from ggmlprobe.ggml.device import Backend
from ggmlprobe.ggml.find import find
from ggmlprobe.ggml.library import Library
Backend(Library.load(find(sys.argv[1], {})), "CUDA0")
"""


@x86_64
def test_a_plug_in_that_lacks_its_driver_is_named(
    foreign_libs: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("libggml-base.so", "libggml.v0.5.0.so", "libggml-cpu-x64.so"):
        shutil.copy(foreign_libs["plugins"] / name, tmp_path)
    source, driver = tmp_path / "cuda.c", tmp_path / "driver.so"
    compiler = ["cc", "-shared", "-fPIC", str(source)]
    source.write_text("int cuInit(int flags) { return flags; }")
    subprocess.run([*compiler, "-Wl,-soname,libcuda.so.1", "-o", driver], check=True)
    source.write_text("int cuInit(int); int f(void) { return cuInit(0); }")
    subprocess.run([*compiler, driver, "-o", tmp_path / "libggml-cuda.so"], check=True)
    driver.unlink()
    done = subprocess.run(
        [sys.executable, "-c", ASK_FOR_CUDA, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert "UnknownDevice" in last
    assert "there are: CPU; " in last
    assert "libggml-cuda.so needs libcuda.so.1" in last
    assert "install the driver" in last


WRONG_SGEMM = """
#include <stdbool.h>
#include <stdint.h>
bool llamafile_sgemm(const void * params, int64_t m, int64_t n, int64_t k, const void * A,
    int64_t lda, const void * B, int64_t ldb, void * C, int64_t ldc, int ta, int tb, int tc) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            ((float *) C)[j * ldc + i] = 12345.0f;
    return true;
}
"""


def test_check_catches_a_wrong_kernel(lib_path: str, tmp_path: Path) -> None:
    source, interposer = tmp_path / "wrong.c", tmp_path / "wrong.so"
    source.write_text(WRONG_SGEMM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", interposer, source], check=True)
    done = subprocess.run(
        [sys.executable, str(EXERCISE), lib_path, str(interposer)],
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert "LibraryBroken" in last
    assert "MUL_MAT f32" in last
    assert "row 0, column 0 is 12345 and must be" in last
