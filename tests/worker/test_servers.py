"""Servers that a child registers: what they offer, and how each way to lose one ends."""

from __future__ import annotations

import contextlib
import itertools
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ggmlprobe import endpoint
from ggmlprobe.configs import configs_of
from ggmlprobe.errors import LibraryBroken, NoServer, SilentServer
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.record import CaseClasses, Result
from ggmlprobe.runner import Case, Runner
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

Start = Callable[..., Any]
WIDTHS = tuple(range(1, 10))
# RPC_CONN_CAPS_SIZE of ggml's transport.h
CAPS = 24


def case(type_a: str = "q8_0", m: int = 4096) -> Case:
    """Seconds of work, most of it after the first row."""
    return Case("mul_mat", MulMat(type_a=type_a, m=m, k=4096), WIDTHS)


@contextlib.contextmanager
def child(lib_path: str, address: str, timeout: float = 60.0) -> Iterator[Worker]:
    worker = Worker(Spec(lib_path, endpoint=address), timeout)
    try:
        yield worker
    finally:
        worker.stop()


@contextlib.contextmanager
def rows_of(
    lib_path: str, address: str, *cases: Case, timeout: float = 60.0
) -> Iterator[Iterator[Result | CaseClasses]]:
    """Rows of cases on the server's first device, as they come."""
    with child(lib_path, address, timeout) as worker:
        (config,) = configs_of(worker.ready(), "RPC0", (None,), (1,), None, {})
        yield Runner({config.id: worker}, (1,)).run([config], cases)


@contextlib.contextmanager
def answering(words: bytes | None, after: int = 0) -> Iterator[str]:
    """The address of something that says the same to everybody, and hangs up.

    Args:
        words: None to say nothing and to wait until the other side hangs up.
        after: so many bytes at least that it was told.
    """

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    if words is not None:
                        if len(connection.recv(after)) == after:
                            connection.sendall(words)
                        connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_every_device_of_a_server_is_there(lib_path: str, rpc_server: Start) -> None:
    server = rpc_server(devices="CPU,CPU")
    with child(lib_path, server.endpoint) as worker:
        devices = worker.ready()["devices"]
    own = [device for device in devices if device["endpoint"] is None]
    there = [device for device in devices if device["endpoint"] == server.endpoint]
    assert [device["name"] for device in there] == ["RPC0", "RPC1"]
    assert {device["backend"] for device in there} == {"RPC"}
    assert "CPU" in {device["name"] for device in own}
    assert len(own) + len(there) == len(devices)


def test_a_library_without_the_backend_says_which_build_has_it(
    foreign_libs: dict[str, Path],
) -> None:
    with (
        answering(b"") as address,
        child(str(foreign_libs["wheel"]), address) as worker,
        pytest.raises(LibraryBroken, match=r"no RPC backend.*-DGGML_RPC=ON"),
    ):
        worker.ready()


def test_a_stopped_server_is_a_line(
    lib_path: str, rpc_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel takes the connection all the same."""
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 1.0)
    server = rpc_server()
    server.process.send_signal(signal.SIGSTOP)
    with child(lib_path, server.endpoint) as worker:
        with pytest.raises(SilentServer, match=r"no answer in 1 s: it is stopped"):
            worker.ready()
        server.process.send_signal(signal.SIGCONT)
        assert worker.ready()["event"] == "ready"


def test_a_server_busy_with_another_client_is_a_line(
    lib_path: str, rpc_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 1.0)
    server = rpc_server()
    host, _, port = server.endpoint.partition(":")
    with child(lib_path, server.endpoint) as worker:
        with (
            socket.create_connection((host, int(port))),
            pytest.raises(SilentServer, match="one at a time"),
        ):
            worker.ready()
        assert worker.ready()["event"] == "ready"


@pytest.mark.parametrize(
    ("words", "told"),
    [(b"", "malformed response"), (b"SSH-2.0-OpenSSH_9.2\r\n", "it says b'SSH-2.0-OpenSSH")],
)
def test_a_server_of_another_protocol_is_a_line(
    lib_path: str, rpc_server: Start, words: bytes, told: str
) -> None:
    with (
        answering(words) as address,
        child(lib_path, address) as worker,
        pytest.raises(NoServer, match=f"no ggml-rpc-server.*{told}"),
    ):
        worker.ready()


def test_a_server_of_another_version_is_named_with_it(lib_path: str, rpc_server: Start) -> None:
    greeting = struct.pack("<Q4B", 4 + CAPS, 99, 1, 2, 0) + bytes(CAPS)
    with (
        answering(greeting, after=1) as address,
        child(lib_path, address) as worker,
        pytest.raises(NoServer, match=r"version mismatch: 99\.1\.2.*same llama\.cpp"),
    ):
        worker.ready()


def test_a_server_that_is_told_something_and_stays_silent_is_a_line(
    lib_path: str, rpc_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs up on who says nothing, so that only ggml's greeting finds out."""
    monkeypatch.setattr(endpoint, "GREETING_SECONDS", 2.0)
    with (
        answering(None) as address,
        child(lib_path, address) as worker,
        pytest.raises(SilentServer, match=r"no answer in 2 s"),
    ):
        worker.ready()


def test_a_server_that_dies_in_a_case_is_rows(lib_path: str, rpc_server: Start) -> None:
    server = rpc_server()
    cases = case(), case("f16"), case("q4_0")
    with rows_of(lib_path, server.endpoint, *cases) as rows:
        found = [next(rows)]
        server.kill()
        found += [row for row in rows if isinstance(row, Result)]
    assert [(row.params["type_a"], row.width) for row in found] == [
        (type_a, width) for type_a in ("q8_0", "f16", "q4_0") for width in WIDTHS
    ]
    assert found[0].verdict == "INVARIANT"
    (died,) = (row for row in found if row.signal)
    assert (died.verdict, died.signal) == ("CRASH", "SIGABRT")
    assert "Remote RPC server crashed" in " ".join(died.stderr_tail)
    left = found[found.index(died) + 1 :]
    assert len(left) >= 2 * len(WIDTHS)
    assert {row.verdict for row in left} == {"CRASH"}
    assert {row.detail for row in left} == {
        f"rpc://{server.endpoint}: connection refused: start ggml-rpc-server there"
    }


def test_a_server_that_hangs_in_a_case_is_rows(
    lib_path: str, rpc_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 1.0)
    server = rpc_server()
    with rows_of(lib_path, server.endpoint, case(), timeout=2.0) as rows:
        found = [next(rows)]
        server.process.send_signal(signal.SIGSTOP)
        found += [row for row in rows if isinstance(row, Result)]
    lost = [row for row in found if row.verdict == "TIMEOUT"]
    assert [row.width for row in found] == list(WIDTHS)
    assert found[0].verdict == "INVARIANT"
    assert found[-len(lost) :] == lost
    assert lost[0].detail is None
    assert {row.detail for row in lost[1:]} == {str(endpoint.silent(server.endpoint, 1.0))}


def test_a_server_that_comes_back_is_used_again(lib_path: str, rpc_server: Start) -> None:
    server = rpc_server()
    port = int(server.endpoint.partition(":")[2])
    small = case("q4_0", m=64), case("f16", m=64), case("q8_0", m=64)
    with rows_of(lib_path, server.endpoint, *small) as rows:
        # what tells the classes comes once a case has ended
        before = list(itertools.takewhile(lambda row: isinstance(row, Result), rows))
        server.kill()
        lost = [next(rows) for _ in WIDTHS]
        rpc_server(port=port)
        after = [row for row in rows if isinstance(row, Result)]
    assert [bool(row.seeds) for row in before] == [True] * len(WIDTHS)
    assert {row.verdict for row in lost} == {"CRASH"}
    assert [bool(row.seeds) for row in after] == [True] * len(WIDTHS)
