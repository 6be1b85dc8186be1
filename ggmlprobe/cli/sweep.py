"""`ggmlprobe sweep OP`: types, shapes, lengths, buffer types and threads against widths."""

from __future__ import annotations

import click

from ggmlprobe import report
from ggmlprobe.cli.op import WIDTHS
from ggmlprobe.cli.op_specs import Chosen, add_commands
from ggmlprobe.cli.options import ProbeOptions
from ggmlprobe.cli.run import run_and_print
from ggmlprobe.report import matrix


@click.group(no_args_is_help=False, short_help="Probe every combination; a letter for each width.")
def sweep() -> None:
    """Probe every combination, and print one compact matrix for each op.

    Rows are types, shapes and settings, columns are widths, cells the class of the width: A holds
    the serial runs. As `op` otherwise; csv, json and jsonl have a row for each width.

    \b
    Example:
      ggmlprobe sweep mul_mat --type all --m 512 --k 1024 --buft CPU,CPU_REPACK
    """


def every(chosen: Chosen, options: ProbeOptions, check: str | None = None) -> None:
    """Run the product and print the matrix."""
    widths = options.widths or WIDTHS
    formats = {**report.FORMATS, "md": matrix.table}
    run_and_print(options, lambda ready: chosen.cases(ready, widths), check, formats=formats)


add_commands(sweep, every, "--widths 1-9", checks=True)
