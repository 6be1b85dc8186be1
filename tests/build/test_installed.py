"""The installed package: one real file per library, symbols, a server, a true stamp."""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF files")

PINNED = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


@pytest.fixture(scope="module")
def distribution() -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution("ggmlprobe")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("ggmlprobe is not installed")


@pytest.fixture(scope="module")
def libraries(distribution) -> list[Path]:
    directory = Path(str(distribution.locate_file("ggmlprobe/lib")))
    return sorted(directory.glob("lib*.so*"))


@pytest.fixture(scope="module")
def stamp(libraries) -> dict[str, str | None]:
    return json.loads((libraries[0].parent / "build.json").read_text())


def output(program: str, *arguments: str) -> str:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def test_one_real_file_per_library(libraries):
    names = [library.name for library in libraries]
    assert {"libggml-base.so", "libggml-cpu.so", "libggml.so", "libllama.so"} <= set(names)
    assert [name for name in names if not name.endswith(".so")] == []
    assert [library.name for library in libraries if library.is_symlink()] == []


def test_a_server_that_starts_lies_beside_its_backend(libraries, stamp):
    if "-DGGML_RPC=ON" not in stamp["cmake_options"].split():
        pytest.skip("built with -DGGML_RPC=OFF")
    folder = libraries[0].parent
    assert (folder / "libggml-rpc.so") in libraries
    command = [str(folder / "ggml-rpc-server"), "--help"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "--port" in done.stdout + done.stderr


def test_local_symbols_are_kept(libraries):
    cpu = next(library for library in libraries if library.name == "libggml-cpu.so")
    symbols = re.findall(r"^\w* +(\w) (\S+)$", output("nm", str(cpu)), re.MULTILINE)
    assert "ggml_vec_dot_q4_K_q8_K" in {name for _, name in symbols}
    assert any(kind == "t" and "ggml" in name for kind, name in symbols)


def test_wheel(distribution):
    wheel = distribution.read_text("WHEEL") or ""
    tags = re.findall(r"^Tag: (.*)$", wheel, re.MULTILINE)
    assert tags
    assert [tag for tag in tags if not tag.startswith("py3-none-")] == []
    assert "Root-Is-Purelib: false" in wheel


def test_the_library_and_its_stamp_agree(libraries, stamp):
    base = ctypes.CDLL(str(libraries[0].parent / "libggml-base.so"))
    base.ggml_commit.restype = base.ggml_version.restype = ctypes.c_char_p
    assert base.ggml_version().decode() == stamp["ggml_version"]
    assert base.ggml_commit().decode() == stamp["commit"]
    if stamp["sdist"] is not None:
        assert (stamp["sha256"], stamp["commit"]) == (PINNED, "0c1e57098")
