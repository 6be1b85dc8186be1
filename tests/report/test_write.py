"""Writing a report: whole or not at all, and never over a file by accident."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from ggmlprobe import report
from ggmlprobe.errors import FileExists, UsageError
from ggmlprobe.report import check, write


def test_writes_a_new_file_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "run.md", "a\nb\n")
    assert (tmp_path / "run.md").read_bytes() == b"a\nb\n"
    assert os.listdir(tmp_path) == ["run.md"]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(tmp_path / "run.md", "a")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "run.md").stat().st_mode) == 0o640


@pytest.mark.parametrize("attempt", [check, lambda path: write(path, "new")])
def test_an_existing_file_needs_force(tmp_path: Path, attempt: object) -> None:
    path = tmp_path / "run.md"
    path.write_text("old")
    with pytest.raises(FileExists, match=r"run\.md exists: --force replaces it"):
        attempt(path)  # type: ignore[operator]
    assert path.read_text() == "old"
    write(path, "new", force=True)
    assert path.read_text() == "new"


@pytest.mark.parametrize("attempt", [check, lambda path: write(path, "new")])
def test_a_missing_directory_and_a_directory(tmp_path: Path, attempt: object) -> None:
    with pytest.raises(UsageError, match=r"mkdir -p .*missing"):
        attempt(tmp_path / "missing" / "run.md")  # type: ignore[operator]
    with pytest.raises(UsageError, match="is a directory: name a file in it"):
        attempt(tmp_path)  # type: ignore[operator]
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is no directory"):
        attempt(tmp_path / "file" / "run.md")  # type: ignore[operator]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_is_not_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="not writable"):
        write(tmp_path / "run.md", "a")


def test_check_writes_nothing(tmp_path: Path) -> None:
    check(tmp_path / "run.md")
    assert os.listdir(tmp_path) == []


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.md"
    path.write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report.os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write(path, "new", force=True)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.md"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target.md").write_text("old")
    (tmp_path / "link.md").symlink_to("target.md")
    write(tmp_path / "link.md", "new", force=True)
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "target.md").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, "text\n")
    reader.join(timeout=10)
    assert got == ["text\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
