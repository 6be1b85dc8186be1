"""`ggmlprobe preset`: named matrices."""

from __future__ import annotations

import click

from ggmlprobe.cli.options import ProbeOptions, probe_options
from ggmlprobe.cli.run import run_and_print
from ggmlprobe.presets import PRESETS, named


@click.group(no_args_is_help=False)
def preset() -> None:
    """Named matrices: those of upstream reports, and model shapes.

    \b
    Example:
      ggmlprobe preset run issue-28111
    """


@preset.command("list")
def list_presets() -> None:
    """List the presets with their cases, source and what was reported.

    \b
    Example:
      ggmlprobe preset list
    """
    for each in PRESETS.values():
        cases = each.cases()
        widths = ",".join(map(str, each.widths))
        click.echo(f"{each.name}: {len(cases)} cases at widths {widths}")
        click.echo(f"    source:   {each.source}")
        if each.reported:
            click.echo(f"    reported: {each.reported}")


@preset.command("run")
@click.argument("name")
@probe_options
def run_preset(options: ProbeOptions, name: str) -> None:
    """Run a preset, at its own widths unless --widths is given.

    \b
    Example:
      ggmlprobe preset run pr-28108 --threads 1,2
    """
    chosen = named(name)
    run_and_print(options, lambda ready: chosen.cases(options.widths))
