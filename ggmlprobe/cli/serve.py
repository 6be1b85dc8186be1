"""`ggmlprobe serve`: this machine's devices for `--device rpc://HOST:PORT` elsewhere."""

from __future__ import annotations

import os
import signal
import socket

import click

from ggmlprobe.cli.options import THREADS_MAX
from ggmlprobe.endpoint import PORT_MAX
from ggmlprobe.errors import LibraryNotFound, UsageError
from ggmlprobe.ggml.find import find

# today's name and the one before
PROGRAMS = ("ggml-rpc-server", "rpc-server")
# the server's own
HOST, PORT = "127.0.0.1", 50052


@click.command(short_help="Serve this machine's devices to others (ggml-rpc-server).")
@click.option("-H", "--host", default=HOST, show_default=True, help="Address to listen on.")
@click.option("-p", "--port", type=click.IntRange(1, PORT_MAX), default=PORT, show_default=True,
              help="Port to listen on.")  # fmt: skip
@click.option("-t", "--threads", type=click.IntRange(1, THREADS_MAX),
              help="Threads of a CPU device [the server's default].")  # fmt: skip
@click.option("--device", metavar="A,B", help="Devices to serve [all GPUs, else the CPU].")
@click.option("-c", "--cache", is_flag=True, help="Have the server keep large tensors on disk.")
@click.option("--lib", metavar="PATH", help="Directory of a libggml with its ggml-rpc-server.")
def serve(
    host: str, port: int, threads: int | None, device: str | None, cache: bool, lib: str | None
) -> None:
    """Become the library's ggml-rpc-server, which runs until it is ended.

    It serves one client at a time, and 127.0.0.1 unless -H names another address. Upstream warns:
    it is not secure, never expose it to an open network.

    \b
    Example:
      ggmlprobe serve -p 50052 -t 8
    """
    program = program_of(lib)
    check_address(host, port)
    options = ["-H", host, "-p", str(port)]
    options += ["-t", str(threads)] if threads is not None else []
    options += ["-d", device] if device is not None else []
    options += ["-c"] if cache else []
    if hasattr(signal, "SIGPIPE"):
        # a client that leaves before its answer must not end the server
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.execv(program, [program, *options])


def program_of(lib: str | None) -> str:
    """The server beside a library.

    Raises:
        LibraryNotFound: it has none.
    """
    found = find(lib)
    for name in PROGRAMS:
        program = found.directory / name
        if os.access(program, os.X_OK):
            return str(program)
    raise LibraryNotFound(
        f"no {PROGRAMS[0]} in {found.directory}: give --lib a build with -DGGML_RPC=ON"
    )


def check_address(host: str, port: int) -> None:
    """Listen and stop: the server itself ends with status 0 where it cannot.

    Raises:
        UsageError: the address is not this machine's, or in use.
    """
    try:
        with socket.socket(socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{host}:{port}: {why}: give another -H or -p") from error
