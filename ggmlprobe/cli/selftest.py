"""`ggmlprobe selftest`: planted faults, each of which must be caught."""

from __future__ import annotations

import sys

import click

from ggmlprobe import selftest as planted
from ggmlprobe.configs import configs_of
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker


@click.command(short_help="Plant faults and show each caught.")
@click.option("--lib", metavar="PATH", help="Directory or file of a libggml.")
def selftest(lib: str | None) -> None:
    """Plant faults and show each caught, and an exact path passing (on the CPU).

    \b
    Example:
      ggmlprobe selftest
    """
    worker = Worker(Spec(lib), 60.0)
    missed = 0
    try:
        config = configs_of(worker.ready(), "CPU", (None,), (1,), None, {})[0]
        for expected, caught in planted.run(worker, config):
            missed += not caught
            click.echo(f"{'ok    ' if caught else 'MISSED'} {expected.says}")
    finally:
        worker.stop()
    click.echo(f"{missed} of {len(planted.EXPECTED)} missed")
    sys.exit(int(missed > 0))
