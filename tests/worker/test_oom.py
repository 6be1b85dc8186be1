"""Counts of the kernel's out-of-memory killer, in trees of files laid out as the kernel does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggmlprobe.worker import oom

VMSTAT = "nr_free_pages 7\noom_kill 5\ndrop_pagecache 0\n"
EVENTS = "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, None),
        ({"proc/vmstat": "nr_free_pages 7\n"}, None),
        ({"proc/vmstat": VMSTAT}, 5),
        ({"proc/vmstat": VMSTAT, "proc/self/cgroup": "4:memory:/a\n0::/\n"}, 5),
        (
            {"proc/vmstat": VMSTAT, "proc/self/cgroup": "0::/a/b\n",
             "sys/fs/cgroup/a/b/memory.events": EVENTS},
            2,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": EVENTS}, 2),
    ],
)  # fmt: skip
def test_kills(tmp_path: Path, files: dict[str, str], count: int | None) -> None:
    assert oom.kills(tree(tmp_path, files)) == count


@pytest.mark.parametrize(
    ("before", "after", "struck"),
    [(2, 2, False), (2, 3, True), (None, None, None), (None, 3, None), (2, None, None)],
)
def test_watch(
    monkeypatch: pytest.MonkeyPatch, before: int | None, after: int | None, struck: bool | None
) -> None:
    counts = iter([before, after])
    monkeypatch.setattr(oom, "kills", lambda: next(counts))
    assert oom.KillerWatch().struck() is struck
