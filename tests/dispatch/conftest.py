"""What the tests of dispatch share: small libraries built from C, and native/'s sampler."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ggmlprobe.errors import LibraryNotFound
from ggmlprobe.ggml.native import ENVIRONMENT, native_library

ROOT = Path(__file__).parents[2]


def compiled(source: Path, target: Path, *flags: str) -> Path:
    """Compile one C file to a shared library."""
    common = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command = ["cc", *common, *flags, "-shared", "-fPIC", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


@pytest.fixture(scope="session")
def sampler_built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """See that the sampler can be found: the one that is there, else one built from native/."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            native_library("sampler")
        except LibraryNotFound:
            folder = tmp_path_factory.mktemp("native")
            compiled(ROOT / "native" / "sampler.c", folder / "libggmlprobe_sampler.so", "-lrt")
            patch.setenv(ENVIRONMENT, str(folder))
        yield


@pytest.fixture(scope="session")
def burn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tests/c/burn.c as a library."""
    return compiled(ROOT / "tests" / "c" / "burn.c", tmp_path_factory.mktemp("burn") / "burn.so")


INTERPOSERS = {
    "cuda": "interpose_cuda.cpp", "sgemm": "interpose_sgemm.c",
    "vec_dot": "interpose_vec_dot.c", "mul_mat": "interpose_mul_mat.c",
}  # fmt: skip


def compiled_cpp(source: Path, target: Path, *flags: str) -> Path:
    """Compile one C++ file to a shared library."""
    common = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = ["c++", *common, *flags, "-shared", "-fPIC", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


@pytest.fixture(scope="session")
def interposers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the interposing libraries by name, built from native/ as it is now."""
    folder = tmp_path_factory.mktemp("interposers")
    made = {}
    for name, source in INTERPOSERS.items():
        target = folder / f"libggmlprobe_interpose_{name}.so"
        build = compiled_cpp if source.endswith("cpp") else compiled
        made[name] = build(ROOT / "native" / source, target)
    return made


@pytest.fixture(scope="session")
def standins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return tests/c/standin_cuda.cpp linked in several ways."""
    folder = tmp_path_factory.mktemp("standin")
    ways = {
        "stock": [],
        "hidden": ["-fvisibility=hidden"],
        "symbolic": ["-Wl,-Bsymbolic"],
        "other": ["-DOTHER_SIGNATURE"],
    }
    source = ROOT / "tests" / "c" / "standin_cuda.cpp"
    return {
        name: compiled_cpp(source, folder / f"libggml-cuda-{name}.so", *flags)
        for name, flags in ways.items()
    }
