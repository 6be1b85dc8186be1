"""A source distribution holds what git tracks, and no more."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
JUNK = (
    ".pytest_cache/v", "ggmlprobe/__pycache__/x.cpython-311.pyc", "build/CMakeCache.txt",
    "dist/ggmlprobe.whl", "ggmlprobe/lib/libggml.so", "ggmlprobe.egg-info/PKG-INFO",
)  # fmt: skip
BUILD = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"


def tracked() -> set[str]:
    """Names of what git tracks and the working tree has."""
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        pytest.skip("needs a git checkout")
    command = ["git", "-c", "safe.directory=*", "-C", str(REPOSITORY), "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name for name in listed.split("\0") if name and (REPOSITORY / name).exists()}


def test_an_sdist_holds_what_git_tracks(tmp_path: Path) -> None:
    names = tracked()
    tree, out = tmp_path / "tree", tmp_path / "out"
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tree / name)
    for name in JUNK:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("junk")
    subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=tree, check=True)
    (sdist,) = out.iterdir()
    with tarfile.open(sdist) as archive:
        inside = {each.name.partition("/")[2]: each.mode for each in archive if each.isfile()}
    assert set(inside) == names | {"PKG-INFO"}
    assert [name for name, mode in inside.items() if mode & 0o002] == []
    assert {"CMakeLists.txt", "cmake/source.cmake", "native/sampler.c"} <= names
