"""Addresses of servers: how they are written, and those that nobody answers at."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ggmlprobe import endpoint
from ggmlprobe.endpoint import endpoint_of, reach
from ggmlprobe.errors import NoServer, SilentServer, UsageError


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A socket of the loopback that takes one connection and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_has_an_address_and_another_device_has_none() -> None:
    assert endpoint_of("rpc://10.0.0.5:50052") == "10.0.0.5:50052"
    assert [endpoint_of(name) for name in ("CPU", "RPC0", "all", "", None)] == [None] * 5


def test_one_server_has_one_address_however_it_is_written() -> None:
    assert endpoint_of("RPC://Lab-3.Example:050052") == "lab-3.example:50052"


@pytest.mark.parametrize(
    "text",
    ["rpc://", "rpc://host", "rpc://host:", "rpc://:50052", "rpc://host:0", "rpc://host:65536",
     "rpc://host:-1", "rpc://host:http", "rpc://host:50052x", "rpc://host:\u0665"],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match=r"write rpc://HOST:PORT"):
        endpoint_of(text)


@pytest.mark.parametrize("text", ["rpc://[::1]:50052", "rpc://::1:50052", "rpc://[::1]"])
def test_ipv6_which_ggml_cannot_is_refused_as_such(text: str) -> None:
    with pytest.raises(UsageError, match="IPv6"):
        endpoint_of(text)


def answer_once(server: socket.socket, words: bytes) -> None:
    """Do as ggml-rpc-server with a client that says nothing, after words of our own."""
    connection, _ = server.accept()
    with connection:
        connection.sendall(words)
        assert connection.recv(1) == b"", "nothing may be sent to a server that may be busy"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def test_a_server_that_comes_to_it_is_reached(
    listening: socket.socket, pool: ThreadPoolExecutor
) -> None:
    served = pool.submit(answer_once, listening, b"")
    reach(address(listening))
    served.result()


def test_a_server_that_speaks_first_is_another_one(
    listening: socket.socket, pool: ThreadPoolExecutor
) -> None:
    served = pool.submit(answer_once, listening, b"220 mail\x1b[2J\r\n")
    with pytest.raises(NoServer, match=r"no ggml-rpc-server.*it says b'220 mail\\x1b\[2J"):
        reach(address(listening))
    served.result()


def test_a_server_that_takes_the_connection_and_no_more(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS", 0.2)
    with pytest.raises(SilentServer, match=r"connected, but no answer in 0\.2 s"):
        reach(address(listening))


def test_a_port_nobody_listens_on() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(NoServer, match=r"rpc://127\.0\.0\.1:\d+: connection refused") as caught:
            reach(address(bound))
    assert caught.value.verdict == "CRASH"


def test_a_server_that_starts_meanwhile_is_waited_for(pool: ThreadPoolExecutor) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))

        def start() -> None:
            server.listen()
            answer_once(server, b"")

        with pytest.raises(NoServer, match="refused"):
            reach(address(server), 2 * endpoint.POLL_SECONDS)
        served = pool.submit(start)
        reach(address(server), 10.0)
        served.result()


@pytest.mark.parametrize("host", ["nosuch.invalid", "a" * 64, "x..y"])
def test_a_host_that_there_is_not(host: str) -> None:
    with pytest.raises(NoServer, match=f"no host {host}"):
        reach(f"{host}:50052")


def test_a_host_that_does_not_answer(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a firewall: once its queue is full, the kernel leaves connections unanswered."""
    monkeypatch.setattr(endpoint, "CONNECT_SECONDS", 0.2)
    with (
        socket.create_connection(listening.getsockname()),
        pytest.raises(SilentServer, match=r"no answer in 0\.2 s") as caught,
    ):
        reach(address(listening))
    assert caught.value.verdict == "TIMEOUT"
