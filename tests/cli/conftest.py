"""The pinned source's files, and a stand-in for a CUDA device built on its headers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe.ggml.library import Library

PINNED = ("llama_cpp_python", "0.3.36", "0.25.3")
WANTED = ("ggml/include/", "ggml/src/ggml-backend-impl.h", "tests/test-backend-ops.cpp")
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack files of the pinned source: what the build downloaded, else a download."""
    name, version, _ = PINNED
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    archive = base / "ggmlprobe" / f"{name}-{version}.tar.gz"
    if not archive.exists():
        archive = base / "ggmlprobe-tests" / archive.name
    if not archive.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "llama-cpp-python", "--dest", str(archive.parent)]
        subprocess.run([*command, f"llama-cpp-python=={version}"], check=True)
    folder = tmp_path_factory.mktemp("upstream")
    root = f"{name}-{version}/vendor/llama.cpp"
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name.startswith(tuple(f"{root}/{each}" for each in WANTED)):
                tar.extract(member, folder)
    return folder / root


@pytest.fixture(scope="session")
def cuda_lib(
    library: Library, lib_path: str, upstream: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the library under test with tests/c/standin_backend.cpp beside it as libggml-cuda.

    The stand-in has the structs of the pinned source's backends, which other versions change.
    """
    if library.version != PINNED[2] or not (Path(lib_path) / "libggml-cpu.so").exists():
        pytest.skip("the stand-in for a CUDA device fits the packaged build only")
    folder = tmp_path_factory.mktemp("cuda")
    for path in Path(lib_path).glob("libggml*.so"):
        if "cuda" not in path.name:
            shutil.copy(path, folder)
    sources = [str(TESTS / "c" / f"standin_{name}.cpp") for name in ("backend", "cuda")]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    flags += [f"-I{upstream}/ggml/include", f"-I{upstream}/ggml/src"]
    link = [f"-L{folder}", "-lggml-cpu", "-lggml-base", "-Wl,-rpath,$ORIGIN"]
    target = ["-o", str(folder / "libggml-cuda.so")]
    subprocess.run(["c++", *flags, *sources, *target, *link], check=True)
    return folder


@pytest.fixture
def cuda(cli: Callable[..., Any], cli_env: dict[str, str], cuda_lib: Path) -> Callable[..., Any]:
    """Return `cli` on the stand-in for a CUDA device, with one for cupti-python."""
    path = os.pathsep.join([cli_env["PYTHONPATH"], str(TESTS / "standin")])

    def run(*arguments: object, env: dict[str, str] | None = None, **more: Any) -> Any:
        own = {"GGMLPROBE_LIB": str(cuda_lib), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        return cli(*arguments, env=own | (env or {}), **more)

    return run
