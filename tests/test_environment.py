"""The environment: what it tells, and what it must not tell."""

from __future__ import annotations

import getpass
import os
import socket
import time
from datetime import UTC, datetime

import pytest

from ggmlprobe.environment import (
    collect_environment,
    cpu_model,
    ggml_variables,
    nvidia_version,
    physical_cores,
    without_home,
)
from ggmlprobe.record import dumps


def block(processor: int, package: int, core: int) -> str:
    return (
        f"processor\t: {processor}\nmodel name\t: Example CPU @ 2.0GHz\nphysical id\t: {package}\n"
        f"core id\t\t: {core}\ncpu family\t: 6\nflags\t\t: fpu avx\n"
    )


# two packages of two cores of two threads each
TWO_PACKAGES = "\n".join(block(i, i // 4, i // 2 % 2) for i in range(8))


def test_cpu_model() -> None:
    assert cpu_model(TWO_PACKAGES) == "Example CPU @ 2.0GHz"
    assert cpu_model("processor\t: 0\ncpu\t\t: POWER9, altivec\n") == "POWER9, altivec"
    assert cpu_model("processor\t: 0\nCPU part\t: 0xd0c\n") is None
    assert cpu_model("") is None


@pytest.mark.parametrize(
    ("available", "cores"), [({0, 1, 2, 3, 4, 5, 6, 7}, 4), ({0, 1}, 1), ({0, 4}, 2), ({9}, None)]
)
def test_physical_cores_among_the_available(available: set[int], cores: int | None) -> None:
    assert physical_cores(TWO_PACKAGES, available) == cores


def test_physical_cores_unknown() -> None:
    assert physical_cores("processor\t: 0\nBogoMIPS\t: 50\n", {0}) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct", "535.129.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86  Release", "570.86"),
        ("", None),
    ],
)
def test_nvidia_version(text: str, version: str | None) -> None:
    assert nvidia_version(text) == version


def test_only_variables_that_ggml_reads() -> None:
    environ = {
        "GGML_CPU_TILED_MM": "0",
        "MESA_SHADER_CACHE_DIR": "/home/ann/.cache",
        "LD_LIBRARY_PATH": "/opt/lib:/home/ann/build",
        "LD_PRELOAD": "/home/ann/a.so /home/ann/b.so",
        "LD_BIND_NOW": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "LLAMA_API_KEY": "hunter2",
        "HOME": "/home/ann",
        "USER": "ann",
        "NOT_GGML_X": "1",
        "PATH": "/bin",
    }
    assert ggml_variables(environ) == {
        "CUDA_VISIBLE_DEVICES": "",
        "GGML_CPU_TILED_MM": "0",
        "LD_LIBRARY_PATH": "/opt/lib:~/build",
        "LD_PRELOAD": "~/a.so ~/b.so",
        "LLAMA_API_KEY": "(set)",
        "MESA_SHADER_CACHE_DIR": "~/.cache",
    }


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/home/ann", "~"),
        ("/home/ann/x:/home/ann/y", "~/x:~/y"),
        ("/home/anna/x", "/home/anna/x"),
        ("relative", "relative"),
    ],
)
def test_home_is_hidden(text: str, hidden: str) -> None:
    assert without_home(text, {"HOME": "/home/ann/"}) == hidden


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "/"}])
def test_no_home_to_hide(environ: dict[str, str]) -> None:
    assert without_home("/usr/lib", environ) == "/usr/lib"


def test_this_machine() -> None:
    around = collect_environment({"GGML_X": "1"})
    assert around.cpu
    assert 1 <= around.cores_available <= (os.cpu_count() or 1)
    assert around.cores_physical is None or around.cores_physical <= around.cores_available
    assert around.env == {"GGML_X": "1"}
    assert abs(datetime.fromisoformat(around.date) - datetime.now(UTC)).total_seconds() < 60


def test_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # distinct names, so that a user called "python" does not fail this
    monkeypatch.setenv("HOME", "/home/zq-somebody")
    monkeypatch.setenv("USER", "zq-somebody")
    monkeypatch.setenv("GGML_CACHE", "/home/zq-somebody/cache")
    text = dumps(collect_environment(os.environ))
    assert "zq-somebody" not in text
    names = {socket.gethostname(), getpass.getuser()} - {"", "localhost", "linux", "debian"}
    assert not [name for name in names if f'"{name}"' in text or f" {name} " in text]


def test_collecting_is_quick() -> None:
    collect_environment()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        collect_environment()
        times.append(time.perf_counter() - start)
    assert min(times) < 0.010
