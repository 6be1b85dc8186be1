"""`ggmlprobe devices`: what a library is and what it can compute on."""

from __future__ import annotations

import click

from ggmlprobe.cli.options import NAMES
from ggmlprobe.endpoint import endpoint_of
from ggmlprobe.errors import UsageError
from ggmlprobe.worker.protocol import Event, Spec
from ggmlprobe.worker.supervisor import Worker

GIB = 2**30


def library_lines(ready: Event) -> list[str]:
    """Path, version, commit and how the library was made."""
    library = ready["library"]
    lines = [
        f"library: {library['path']} ({library['origin']})",
        f"version: {library['version'] or 'not exported'}, "
        f"commit {library['commit'] or 'not exported'}",
    ]
    lines += [f"  {name}: {value}" for name, value in (library["stamp"] or {}).items()]
    return [*lines, f"types: {' '.join(ready['types'])}"]


def device_lines(device: Event) -> list[str]:
    """Name, memory, buffer types and features of a device."""
    free, total = (device[f"memory_{which}"] / GIB for which in ("free", "total"))
    # the CPU device of early 2025 does not tell its total
    memory = f"{free:.1f} of {total:.1f} GiB free" if total else f"{free:.1f} GiB free"
    features = " ".join(f"{name}={value}" for name, value in device["features"].items())
    name = f"{device['name']}: {device['description']} ({device['type']})"
    return [
        ", ".join([name, memory, *device["files"]]),
        f"  buffer types: {', '.join(device['bufts'])}",
        *([f"  features: {features}"] if features else []),
    ]


def described(lib: str | None, endpoint: str | None) -> Event:
    """What a child tells of the library and its devices, those of a server among them."""
    worker = Worker(Spec(lib, endpoint=endpoint), 60.0)
    try:
        return worker.ready()
    finally:
        worker.stop()


@click.command(short_help="Show a library, its devices and their buffer types.")
@click.option("--lib", metavar="PATH", help="Directory or file of a libggml.")
@click.option("--device", "servers", type=NAMES, default=(), metavar="rpc://HOST:PORT",
              help="Servers whose devices are shown too.")  # fmt: skip
def devices(lib: str | None, servers: tuple[str, ...]) -> None:
    """Show the library, its version and features, its devices and buffer types.

    \b
    Example:
      ggmlprobe devices --lib llama.cpp/build/bin
    """
    endpoints = [endpoint_of(name) for name in servers]
    if None in endpoints:
        raise UsageError("all devices of this machine are shown: --device takes rpc://HOST:PORT")
    ready = described(lib, None)
    for line in library_lines(ready):
        click.echo(line)
    there = [described(lib, endpoint)["devices"] for endpoint in dict.fromkeys(endpoints)]
    for device in [*ready["devices"], *(d for each in there for d in each if d["endpoint"])]:
        click.echo("\n".join(device_lines(device)))
    for reason in ready["silent"]:
        click.echo(f"not loaded: {reason}")
