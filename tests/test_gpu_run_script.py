"""results/gpu-run.sh in a copy of its own, with a python3 that stands in for a machine's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "results" / "gpu-run.sh"
# writes what gpu-run would, and ends as it does with a finding
PYTHON = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in *gpu-run*) for folder; do :; done; echo row > "$folder/row"; exit 1 ;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script, the programs it calls, and what an earlier fetch left."""
    folder = tmp_path / "checkout"
    for name in ("results", "bin", ".gpu"):
        (folder / name).mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "results")
    for name in ("python3", "nvidia-smi", "nvcc"):
        (folder / "bin" / name).write_text(PYTHON)
        (folder / "bin" / name).chmod(0o755)
    (folder / ".gpu" / "kept").write_text("")
    # the archive that fetch looks for
    (folder / "llama_cpp_python-0.3.36.tar.gz").write_text("")
    return folder


def run(checkout: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "CALLS": str(checkout / "calls"), "GGMLPROBE_CACHE_DIR": str(checkout),
    }  # fmt: skip
    script = os.path.relpath(checkout / "results" / "gpu-run.sh", cwd)
    return subprocess.run([script, *args], cwd=cwd, env=env, capture_output=True, text=True,
                          check=False)  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [(), ("fetch",), ("fetch", ""), ("run",), ("run", ""), ("run", "a", "b"), ("build", "x"),
     ("echo", "x")],
)  # fmt: skip
def test_a_wrong_call_is_told_the_right_ones_and_does_nothing(
    checkout: Path, args: tuple[str, ...]
) -> None:
    done = run(checkout, checkout, *args)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert [line.split()[2] for line in lines] == ["fetch", "build", "run"]
    assert all(line.startswith("usage: results/gpu-run.sh ") for line in lines)
    assert (checkout / ".gpu" / "kept").exists()
    assert not (checkout / "calls").exists()


@pytest.mark.parametrize("written", ["h2", "h2/", "./h2//", "deep/h2"])
def test_the_folder_and_its_archive_lie_where_the_caller_is(
    checkout: Path, tmp_path: Path, written: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(checkout, elsewhere, "run", written)
    assert done.returncode == 1, done.stderr
    folder = elsewhere / written
    with tarfile.open(folder.parent / "h2.tar.gz") as archive:
        assert sorted(archive.getnames()) == ["h2", "h2/machine.txt", "h2/row"]
    assert f"gpu-run {written}\n" in (checkout / "calls").read_text()
    assert not (checkout / "h2").exists()
