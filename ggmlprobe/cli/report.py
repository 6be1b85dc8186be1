"""`ggmlprobe report RUN`: a record to paste, as pictures, as a page; an index of runs."""

from __future__ import annotations

from pathlib import Path

import click

from ggmlprobe import record as records
from ggmlprobe import report as writing
from ggmlprobe.errors import UsageError
from ggmlprobe.report import index, page, paste, plot

PATH = click.Path(path_type=Path)


@click.command(short_help="Show a record: to paste, as pictures, as a page; index a folder.")
@click.argument("run", type=PATH)
@click.option("--upstream", is_flag=True, help="Under the headings of upstream's issue form.")
@click.option(
    "--plot",
    "plots",
    type=(click.Choice(list(plot.KINDS)), PATH),
    multiple=True,
    metavar="KIND FILE",
    help=f"Draw a picture, .svg or .png: {', '.join(plot.KINDS)}.",
)
@click.option(
    "--html",
    type=PATH,
    metavar="FILE",
    help="Write one self-contained page with tables and pictures.",
)
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def report(
    run: Path, upstream: bool, plots: tuple[tuple[str, Path], ...], html: Path | None, force: bool
) -> None:  # fmt: skip
    """Print the record RUN as one Markdown block to paste into an issue or a thread.

    RUN is what --export-json wrote. Of a folder: write its README.md, an index of all the runs
    below it. Pictures need matplotlib: pip install 'ggmlprobe[plot]'.

    \b
    Example:
      ggmlprobe report run.json --upstream
      ggmlprobe report run.json --plot classes classes.svg --html run.html
      ggmlprobe report results/
    """
    if run.is_dir():
        if upstream or plots or html:
            raise UsageError(f"{run} is a folder, which gets an index: name a .json file in it")
        own = run / index.NAME
        writing.write(own, index.index(run), force or index.is_own(own))
        return
    pictures = [(kind, path, plot.form_of(path)) for kind, path in plots]
    for path in [*(path for _, path in plots), *([html] if html else [])]:
        writing.check(path, force)
    record = records.load(run)
    for kind, path, form in pictures:
        writing.write(path, plot.image(record, kind, form), force)
    if html is not None:
        writing.write(html, page.page(record), force)
    if not plots and html is None:
        click.echo(paste.block(record, upstream), nl=False)
