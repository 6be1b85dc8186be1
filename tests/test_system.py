"""Without what only POSIX or Linux has, everything still imports and a case still runs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ggmlprobe import system

# Python runs a sitecustomize first, the child's interpreter too
ELSEWHERE = """
import os
import signal
import sys

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("fork", "geteuid", "sched_getaffinity"):
    delattr(os, name)
for name in ("SIGHUP", "SIGPIPE"):
    delattr(signal, name)
"""
IMPORT_ALL = """
import pkgutil
import ggmlprobe

for module in pkgutil.walk_packages(ggmlprobe.__path__, "ggmlprobe."):
    __import__(module.name)
    print(module.name)
"""
CASE = ("op", "flash_attn", "--heads", "2", "--kv-heads", "1", "--kv", "256", "--widths", "1-2",
        "--seeds", "1", "-o", "json")  # fmt: skip


@pytest.fixture
def elsewhere(cli_env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment in which Python lacks what Windows does."""
    (tmp_path / "sitecustomize.py").write_text(ELSEWHERE)
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    return cli_env | state | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{cli_env['PYTHONPATH']}"}


def test_the_environment_lacks_it(elsewhere: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import resource"],
        capture_output=True, text=True, check=False, env=elsewhere,
    )  # fmt: skip
    assert "ModuleNotFoundError" in done.stderr


def test_every_module_imports(elsewhere: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL],
        capture_output=True, text=True, check=False, env=elsewhere,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"ggmlprobe.cli", "ggmlprobe.worker.child"} <= set(done.stdout.split())


def test_a_case_runs(elsewhere: dict[str, str], cli_env: dict[str, str], tmp_path: Path) -> None:
    seen = []
    for env in (elsewhere, cli_env | {"XDG_STATE_HOME": str(tmp_path / "other")}):
        done = subprocess.run(
            [sys.executable, "-m", "ggmlprobe", *CASE],
            capture_output=True, text=True, check=False, env=env,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        seen.append(json.loads(done.stdout))
    there, here = seen
    assert [row["seeds"] for row in there["results"]] == [row["seeds"] for row in here["results"]]
    assert there["timing"]["peak_rss_bytes"] is there["timing"]["cpu_seconds"] is None
    assert here["timing"]["peak_rss_bytes"] > 10 * 2**20
    assert here["timing"]["cpu_seconds"] > 0


def test_cores_where_nothing_limits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3}, raising=False)
    assert system.cores() == {1, 3}
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert system.cores() == {0, 1, 2}
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert system.cores() == {0}


@pytest.mark.parametrize(("name", "bytes_"), [("Linux", 5 * 1024), ("Darwin", 5)])
def test_units_of_peak_memory(monkeypatch: pytest.MonkeyPatch, name: str, bytes_: int) -> None:
    used = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: SimpleNamespace(ru_maxrss=5))
    monkeypatch.setattr(system, "_resource", used)
    monkeypatch.setattr(platform, "system", lambda: name)
    assert system.peak_rss_bytes() == bytes_


def test_a_lock_keeps_a_second_writer_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert system.lock(first)
    assert not system.lock(second)
    monkeypatch.setattr(system, "_fcntl", None)
    assert system.lock(second)
    for fd in (first, second):
        os.close(fd)
