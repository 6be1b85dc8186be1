"""`ggmlprobe repro RUN.json`: one case of a record as something others can run."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ggmlprobe import report
from ggmlprobe.errors import LibraryNotFound
from ggmlprobe.ggml.find import find
from ggmlprobe.record import load
from ggmlprobe.report import repro as made
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

EMITTED = ("c", "test-file", "test-case")
TIMEOUT = 60.0


@click.command("repro", short_help="Print a case as a program or test that needs no ggmlprobe.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--case",
    "number",
    type=int,
    metavar="N",
    help="Number of the case, see --list [the first in which a column differs].",
)
@click.option("--list", "listed", is_flag=True, help="List the cases with their numbers.")
@click.option(
    "--emit",
    type=click.Choice(EMITTED),
    default="c",
    show_default=True,
    help="A C program; a line for test-backend-ops --test-file; a struct for test-backend-ops.cpp.",
)
@click.option(
    "--width",
    type=click.IntRange(min=1),
    metavar="W",
    help="Width, for what holds just one [the first that differs, else the widest].",
)
@click.option("--lib", metavar="PATH", help="Libggml to build against [the record's].")
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to a file instead of stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
def repro(
    run: Path, number: int | None, listed: bool, emit: str, width: int | None, lib: str | None,
    export: Path | None, force: bool,
) -> None:  # fmt: skip
    """Print one case of a run as something that runs without ggmlprobe.

    c: a program that makes the same inputs bit for bit and prints the columns that differ; one cc
    line builds it against any libggml. test-file: correctness of one width, which cannot show that
    two widths differ. test-case: a struct to paste into test-backend-ops.cpp.

    \b
    Example:
      ggmlprobe repro run.json --case 3 > repro.c
    """
    cases = made.cases_of(load(run))
    if listed:
        for case in cases:
            click.echo(f"{case.number}: {case.name} in {case.config.id}: {'; '.join(case.found())}")
        return
    case = made.chosen(cases, number)
    text, note = _emitted(case, emit, width, lib, export)
    click.echo(f"case {case.number} of {len(cases)}: {case.name}\n{note}", err=True)
    if export is None:
        click.echo(text, nl=False)
    else:
        report.write(export, text, force)


def _emitted(
    case: made.Case, emit: str, width: int | None, lib: str | None, export: Path | None
) -> tuple[str, str]:  # fmt: skip
    """The text, and how to use it."""
    backend = f"test-backend-ops -b {case.config.device.name}"
    if emit == "c":
        source = made.SOURCE if export is None else str(export)
        return made.program(case, Path(source).name), _how_to_build(case, lib, source)
    if emit == "test-case":
        return made.struct(case, width), (
            f"run: {backend} -o {case.op}_WIDTH, which takes half of the cores as threads"
        )
    text = made.lines(case, _numbers(lib or _recorded(case)), width)
    return text, f"run: {backend} --test-file FILE, of this library's version\n{made.LABEL}"


def _recorded(case: made.Case) -> str | None:
    """The record's library as find() takes it; None for the packaged one."""
    library = case.config.library
    return None if library.origin == "packaged" else library.path


def _how_to_build(case: made.Case, lib: str | None, source: str) -> str:
    """How to build and run the program, with the library where it is on this machine."""
    try:
        found = find(lib or _recorded(case))
    except LibraryNotFound:
        if lib is not None:
            raise
        return "build and run: see the head of the program; the record's library is not here"
    files, folder = [str(path) for path in found.files], str(found.directory)
    plugins = f"PLUGINS={shlex.quote(str(found.plugin_dir))} " if found.plugin_dir else ""
    build, run = made.link_line(files, folder, source), made.run_line(case, source)
    return f"build: {build}\nrun: {plugins}{run}"


def _numbers(lib: str | None) -> made.Numbers:
    """Op ids and type sizes of a library, asked of it in a child."""
    worker = Worker(Spec(lib, {}, None), TIMEOUT)
    try:
        ready = worker.ready()
    finally:
        worker.stop()
    sizes = {
        name: made.TypeSize(info["id"], info["blck_size"], info["type_size"])
        for name, info in ready["types"].items()
    }
    return made.Numbers(ready["ops"], sizes)
