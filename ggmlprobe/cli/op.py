"""`ggmlprobe op OP`: one op, lists of parameters, every width against width 1."""

from __future__ import annotations

import click

from ggmlprobe.cli.op_specs import Chosen, add_commands
from ggmlprobe.cli.options import DEFAULT_WIDTHS, ProbeOptions
from ggmlprobe.cli.run import run_and_print
from ggmlprobe.ranges import parse_positive

WIDTHS = parse_positive(DEFAULT_WIDTHS)


@click.group(no_args_is_help=False)
def op() -> None:
    """Probe one op: every width against serial width-1 runs.

    \b
    Example:
      ggmlprobe op mul_mat --type q4_K,iq3_s --m 4096 --k 4096 --widths 1-9
    """


def probe(chosen: Chosen, options: ProbeOptions, check: str | None = None) -> None:
    """Run the cases and print the record."""
    widths = options.widths or WIDTHS
    run_and_print(options, lambda ready: chosen.cases(ready, widths), check)


add_commands(op, probe, "--widths 1-9", checks=True)
