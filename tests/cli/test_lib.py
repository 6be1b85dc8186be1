"""Which library is probed: the one that was named, of these very files, and the record says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ggmlprobe import record
from ggmlprobe.ggml.find import find, part_of

Cli = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ("op", "mul_mat", "--type", "f32", "--m", "16", "--k", "1", "--widths", "1-3")
SMALL += ("--seeds", "1", "--threads", "1", "-o", "json")


@pytest.fixture
def build(lib_path: str, tmp_path: Path) -> Path:
    """Return a copy of the library under test, to be changed."""
    folder = tmp_path / "build"
    folder.mkdir()
    for path in find(lib_path, {}).directory.iterdir():
        if part_of(path.name) is not None:
            shutil.copy(path, folder / path.name)
    return folder


def test_the_current_folder_is_named_as_given(cli: Cli, build: Path, lib_path: str) -> None:
    other = str(Path(lib_path).resolve())
    for named in (("--lib", "."), ("--lib", "./"), ()):
        env = {"GGMLPROBE_LIB": ".", "LD_LIBRARY_PATH": other}
        done = cli(*SMALL, *named, cwd=build, env=env)
        assert done.returncode == 0, done.stderr
        made = record.loads(done.stdout)
        library = made.configs[0].library
        assert library.path == "."
        assert {part_of(name) for name in library.files} >= {"", "base"}
        assert all(os.sep not in name for name in library.files)
        assert made.environment.env["LD_LIBRARY_PATH"] == other


def test_rows_of_an_older_build_are_not_gone_on_with(cli: Cli, build: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    command = (*SMALL, "--lib", build, "--resume", journal)
    first = cli(*command)
    assert first.returncode == 0, first.stderr
    # touched, but with the same bytes
    for path in build.iterdir():
        os.utime(path, ns=(1, 1))
    assert cli(*command).returncode == 0
    before = journal.read_bytes()
    (name,) = (n for n in record.loads(first.stdout).configs[0].library.files
               if part_of(n) == "base")  # fmt: skip
    with (build / name).open("ab") as file:
        file.write(b"\0")
    done = cli(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the files of library {build} are not those its rows were made with" in done.stderr
    assert done.stderr.count("\n") == 1
    assert journal.read_bytes() == before


def test_devices_names_the_file_of_each_device(cli: Cli, build: Path) -> None:
    done = cli("devices", "--lib", build)
    assert done.returncode == 0, done.stderr
    (cpu,) = (line for line in done.stdout.splitlines() if line.startswith("CPU: "))
    assert (build / cpu.rpartition(", ")[2]).is_file()
    assert (part_of(cpu.rpartition(", ")[2]) or "").startswith("cpu")


@pytest.mark.parametrize("named", [os.devnull, "", "build/libggml-base.so"])
def test_a_library_that_cannot_be_is_one_line(cli: Cli, build: Path, named: str) -> None:
    base = build / "libggml-base.so"
    with base.open("r+b") as file:
        file.truncate(base.stat().st_size // 2)
    done = cli(*SMALL, "--lib", named)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "internal" not in done.stderr
    assert "SIGBUS" not in done.stderr
    assert any(fix in done.stderr for fix in ("give the folder", "copy or build it anew"))


def test_the_file_of_a_backend_that_libggml_links_is_as_good_as_its_folder(
    cli: Cli, build: Path
) -> None:
    file = build / "libggml-rpc.so"
    if not file.exists():
        pytest.skip("this libggml does not link the RPC backend")
    done = cli("devices", "--lib", file)
    assert done.returncode == 0, done.stderr
    assert "CPU: " in done.stdout
