"""A library is the folder's own files and nothing else, and is told apart from its rebuild."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ggmlprobe.ggml.files import READ_WHOLE, identity
from ggmlprobe.ggml.find import find, part_of
from ggmlprobe.ggml.library import Library

LOAD = """
import sys
from ggmlprobe.ggml.find import find
from ggmlprobe.ggml.library import Library
lib = Library.load(find(sys.argv[1], {}))
print(*sorted({str(path.parent) for path in lib.files}), lib.identity)
"""


def load(lib: Path | str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    package = os.pathsep.join(sys.path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(lib)], capture_output=True, text=True, check=False,
        cwd=cwd, env=clean | {"PYTHONPATH": package} | env,
    )  # fmt: skip


def copy(lib_path: str, folder: Path, without: str | None = None) -> Path:
    """Copy a build's ggml under all its names, the links as files, but for one part."""
    folder.mkdir()
    for path in find(lib_path, {}).directory.iterdir():
        if part_of(path.name) not in {None, without}:
            shutil.copy(path, folder / path.name)
    return folder


@pytest.fixture
def linked(lib_path: str) -> str:
    """Return the library under test if its CPU backend is linked into it."""
    if not any(part_of(path.name) == "cpu" for path in find(lib_path, {}).files):
        pytest.skip("this libggml has no CPU backend to be linked with")
    return lib_path


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout
    last = done.stderr.strip().splitlines()[-1]
    assert "LibraryBroken: " in last
    return last.partition("LibraryBroken: ")[2]


def test_a_folder_that_the_loader_fills_up_is_refused(linked: str, tmp_path: Path) -> None:
    whole = copy(linked, tmp_path / "whole")
    part = copy(linked, tmp_path / "part", without="cpu")
    says = refused(load(part, LD_LIBRARY_PATH=f"/nowhere:{whole}"))
    assert says.startswith(f"{part} was asked for, but {whole}/libggml-cpu.so")
    assert says.endswith("; take its folder out of LD_LIBRARY_PATH, and give the folder of a whole "
                         "build")  # fmt: skip
    # a whole folder does not care
    done = load(whole, LD_LIBRARY_PATH=str(Path(linked).resolve()))
    assert done.stdout.split()[:1] == [str(whole)], done.stderr


def test_a_preloaded_part_of_another_build_is_refused(linked: str, tmp_path: Path) -> None:
    whole, other = copy(linked, tmp_path / "whole"), copy(linked, tmp_path / "other")
    base = next(path for path in other.iterdir() if part_of(path.name) == "base")
    says = refused(load(whole, LD_PRELOAD=str(base)))
    assert (
        says == f"{whole} was asked for, but {base} was loaded with it; take it out of LD_PRELOAD"
    )


def test_a_folder_of_links_is_a_library(linked: str, tmp_path: Path) -> None:
    whole, links = copy(linked, tmp_path / "whole"), tmp_path / "links"
    links.mkdir()
    for path in whole.iterdir():
        (links / path.name).symlink_to(path)
    done = load(links)
    assert done.stdout.split()[:1] == [str(whole)], done.stderr


def test_the_current_folder(linked: str, tmp_path: Path) -> None:
    whole, other = copy(linked, tmp_path / "whole"), copy(linked, tmp_path / "other")
    for given in (".", "./", "libggml.so"):
        if (whole / given).exists():
            for env in ({}, {"LD_LIBRARY_PATH": str(other)}):
                done = load(given, cwd=whole, **env)
                assert done.stdout.split()[:1] == [str(whole)], done.stderr


def test_identity_is_that_of_the_bytes(lib_path: str, tmp_path: Path) -> None:
    one, two = copy(lib_path, tmp_path / "one"), copy(lib_path, tmp_path / "two")
    first, second = sorted(one.iterdir()), sorted(two.iterdir())
    os.utime(second[0], ns=(1, 1))
    assert identity(first) == identity(second) == identity(reversed(first))
    assert len(identity(first)) == 16
    data = bytearray(second[0].read_bytes())
    data[-1] ^= 1
    second[0].write_bytes(data)
    assert identity(first) != identity(second)
    renamed = first[0].rename(one / "renamed.so")
    assert identity([renamed]) != identity([two / first[0].name])


def test_of_a_large_file_size_and_time_count(tmp_path: Path) -> None:
    large = tmp_path / "libggml-cuda.so"
    with large.open("wb") as file:
        file.truncate(READ_WHOLE + 1)
    os.utime(large, ns=(5, 5))
    before = identity([large])
    assert identity([large]) == before
    os.utime(large, ns=(5, 6))
    assert identity([large]) != before


def test_identity_of_a_loaded_library(library: Library, tmp_path: Path) -> None:
    assert {part_of(path.name) for path in library.files} >= {
        part_of(path.name) for path in library.found.files
    }
    assert library.identity == library.identity
    copied = [Path(shutil.copy(path, tmp_path)) for path in library.files]
    llama = tmp_path / "libllama.so"
    assert identity(copied) != identity([*copied, Path(shutil.copy(library.files[0], llama))])
