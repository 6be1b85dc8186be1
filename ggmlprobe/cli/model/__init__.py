"""`ggmlprobe model`: whole models, one token at a time against blocks."""

from __future__ import annotations

import click

from ggmlprobe.cli.model.compare import compare
from ggmlprobe.cli.model.locate import locate
from ggmlprobe.cli.model.ops import ops
from ggmlprobe.cli.model.options import ModelOptions, model_options
from ggmlprobe.cli.model.speculate import speculate

__all__ = ["ModelOptions", "model", "model_options"]


@click.group(no_args_is_help=False)
def model() -> None:
    """Whole models: from a different bit to a different text.

    \b
    Example:
      ggmlprobe model compare model.gguf -p "Why is the sky blue?" --block-width 5
    """


model.add_command(compare)
model.add_command(locate)
model.add_command(ops)
model.add_command(speculate)
