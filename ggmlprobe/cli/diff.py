"""`ggmlprobe diff A.json B.json`: what changed from one run to another."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ggmlprobe.errors import NotComparable
from ggmlprobe.record import Record, load
from ggmlprobe.report.changes import changes, check_comparable, paired
from ggmlprobe.report.diff import FORMATS

PATH = click.Path(path_type=Path)


@click.command("diff", short_help="Show what changed from one run to another.")
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@click.option(
    "-o",
    "--output",
    type=click.Choice(list(FORMATS)),
    default="md",
    show_default=True,
    help="Format on stdout.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Compare other devices and seeds, and of other cases those in both.",
)
def diff(a: Path, b: Path, output: str, force: bool) -> None:  # fmt: skip
    """Show what changed from run A to run B: verdict, class, columns, ULP, kernels, time.

    The runs must have the same cases, widths, seeds, settings and device; the library may differ.
    Times have a 95 % interval of the spread inside the two runs, and no part in the exit status.

    Exit status: 0 nothing changed, 1 something did, 2 the runs cannot be compared.

    \b
    Example:
      ggmlprobe diff before.json after.json
    """
    pairs = paired(_plain(a), _plain(b), device=not force)
    if not force:
        check_comparable(pairs)
    if not any(True for _ in pairs.shared()):
        raise NotComparable("no row is in both: name two runs of the same cases and widths")
    click.echo(FORMATS[output](pairs), nl=False)
    sys.exit(int(any(change.before for change in changes(pairs))))


def _plain(path: Path) -> Record:
    record = load(path)
    if not record.results:
        raise NotComparable(f"{path}: no results of ops in it: name a run of `op` or `preset run`")
    return record
