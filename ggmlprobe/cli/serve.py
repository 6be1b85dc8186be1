"""`ggmlprobe serve`: this machine's devices for `--device rpc://HOST:PORT` elsewhere."""

from __future__ import annotations

import os
import signal

import click

from ggmlprobe.errors import LibraryNotFound
from ggmlprobe.ggml.find import find

# today's name and the one before
PROGRAMS = ("ggml-rpc-server", "rpc-server")


@click.command(
    short_help="Serve this machine's devices to others (ggml-rpc-server).",
    context_settings={"ignore_unknown_options": True},
)
@click.option("--lib", metavar="PATH", help="Directory of a libggml with its ggml-rpc-server.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(lib: str | None, arguments: tuple[str, ...]) -> None:
    """Run the library's ggml-rpc-server; `ggmlprobe serve -- --help` shows its ARGUMENTS.

    It serves one client at a time, and 127.0.0.1 unless -H names another address. Upstream warns:
    it is not secure, never expose it to an open network.

    \b
    Example:
      ggmlprobe serve -p 50052 -t 8
    """
    found = find(lib)
    for program in (found.directory / name for name in PROGRAMS):
        if os.access(program, os.X_OK):
            # a client that leaves before its answer must not end the server
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            os.execv(program, [str(program), *arguments])
    raise LibraryNotFound(
        f"no {PROGRAMS[0]} in {found.directory}: give --lib a build with -DGGML_RPC=ON"
    )
