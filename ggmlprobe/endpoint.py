"""Addresses of ggml-rpc-servers, and whether one can be reached before ggml tries it.

ggml ends the process where it cannot connect, and waits without a limit.
"""

from __future__ import annotations

import socket
import time

from ggmlprobe.errors import NoServer, SilentServer, UsageError

SCHEME = "rpc://"
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 10.0
GREETING_SECONDS = 60.0
"""For what ggml and a server say to each other before a run; the machine may be busy."""
RETURN_SECONDS = 3.0
"""For a server that has died to be started again by whatever watches it."""
POLL_SECONDS = 0.1
PORT_MAX = 65535
WORDS = 32


def endpoint_of(device: str | None) -> str | None:
    """`host:port` of a device written rpc://HOST:PORT, None for any other name.

    Raises:
        UsageError: no host, or no port that ggml's RPC backend takes.
    """
    if device is None or not device.lower().startswith(SCHEME):
        return None
    host, colon, port = device[len(SCHEME) :].rpartition(":")
    if ":" in host or host.startswith("["):
        raise UsageError(f"{device}: ggml's RPC backend takes no IPv6: give a name or IPv4 address")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise UsageError(f"{device}: write rpc://HOST:PORT, such as rpc://127.0.0.1:50052")
    return f"{host.lower()}:{int(port)}"


def reach(endpoint: str, patience: float = 0.0) -> None:
    """Try until there is a server, for so many seconds, once at least.

    One that is there and silent is not tried again: few fit into its queue.

    Raises:
        NoServer: see `_try`.
    """
    limit = time.monotonic() + patience
    while True:
        try:
            _try(endpoint)
            return
        except SilentServer:
            raise
        except NoServer:
            if time.monotonic() >= limit:
                raise
        time.sleep(POLL_SECONDS)


def _try(endpoint: str) -> None:
    """Connect, end our side, and wait until the server has come to that and hangs up, too.

    Nothing is sent: SIGPIPE ends a ggml-rpc-server whose client has left before its answer.

    Raises:
        NoServer: nobody listens there, or something else does, or there is no such host.
        SilentServer: no answer in time.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        # the first IPv4 address, as ggml does
        address = socket.gethostbyname(host)
    except (OSError, UnicodeError) as error:
        raise NoServer(f"{SCHEME}{endpoint}: no host {host}: check the name") from error
    try:
        connection = socket.create_connection((address, int(port)), CONNECT_SECONDS)
    except TimeoutError as error:
        raise SilentServer(
            f"{SCHEME}{endpoint}: no answer in {CONNECT_SECONDS:g} s: check host, port and "
            "firewall, and whether it is stopped"
        ) from error
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise NoServer(f"{SCHEME}{endpoint}: {why}: start ggml-rpc-server there") from error
    with connection:
        words = _last_words(connection, endpoint)
    if words:
        raise foreign(endpoint, f"it says {words!a}")


def _last_words(connection: socket.socket, endpoint: str) -> bytes:
    """What the other side says before it ends the connection, which we do first."""
    connection.settimeout(ANSWER_SECONDS)
    try:
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(WORDS)
    except TimeoutError as error:
        raise silent(endpoint, ANSWER_SECONDS) from error
    except OSError:
        return b""  # ggml will say why


def silent(endpoint: str, seconds: float) -> SilentServer:
    """The error of a server that takes the connection and then says nothing."""
    return SilentServer(
        f"{SCHEME}{endpoint}: connected, but no answer in {seconds:g} s: it is stopped, no "
        "ggml-rpc-server, or busy with another client (it serves one at a time)"
    )


def foreign(endpoint: str, words: str) -> NoServer:
    """The error of a server whose answers ggml has given up on, with ggml's last words."""
    return NoServer(
        f"{SCHEME}{endpoint}: no ggml-rpc-server, or one of another protocol version than this "
        f"library's ({words}): run one of the same llama.cpp"
    )
