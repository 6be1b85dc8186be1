"""The command line: parse, call, print. The only place that prints or exits."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from ggmlprobe import __version__
from ggmlprobe.cli.ab import ab
from ggmlprobe.cli.bisect import bisect
from ggmlprobe.cli.devices import devices
from ggmlprobe.cli.diff import diff
from ggmlprobe.cli.git_bisect import error_status
from ggmlprobe.cli.gpu_run import gpu_run
from ggmlprobe.cli.journals import INTERRUPTED
from ggmlprobe.cli.model import model
from ggmlprobe.cli.op import op
from ggmlprobe.cli.preset import preset
from ggmlprobe.cli.report import report
from ggmlprobe.cli.repro import repro
from ggmlprobe.cli.selftest import selftest
from ggmlprobe.cli.serve import serve
from ggmlprobe.cli.sweep import sweep
from ggmlprobe.cli.threshold import threshold
from ggmlprobe.errors import ProbeError

# what a shell shows of a program that SIGPIPE ends
CLOSED_PIPE = 141
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextlib.contextmanager
def ended_by_a_closed_pipe() -> Iterator[None]:
    """Exit quietly where nobody reads the output any more; click would exit with 1, a finding."""
    try:
        yield
    except BrokenPipeError:
        sys.exit(CLOSED_PIPE)


class Group(click.Group):
    """Turns every error a user can cause into one line on stderr and exit status 2."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse, which prints --help."""
        with ended_by_a_closed_pipe():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with ended_by_a_closed_pipe():
            return super().invoke(ctx)

    def main(self, args: Sequence[str] | None = None, *more: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        given = sys.argv[1:] if args is None else args
        try:
            return super().main(args, *more, **{**kwargs, "standalone_mode": False})
        except ProbeError as error:
            self._end(str(error), error_status(error, given))
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "ggmlprobe"
            said = f"{error.format_message()} (see {where} --help)"
            self._end(said, error_status(None, given))
        except click.Abort:
            sys.exit(INTERRUPTED)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            notes = getattr(error, "__notes__", [])
            said = "; ".join([f"{error}: free space, or give the output another place", *notes])
            self._end(said, error_status(None, given))

    @staticmethod
    def _end(message: str, status: int) -> NoReturn:
        line = " ".join(message.split())
        with contextlib.suppress(OSError):
            click.echo(f"ggmlprobe: {line}", err=True)
        sys.exit(status)


@click.group(
    cls=Group, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="ggmlprobe")
def main() -> None:
    """Does a ggml op give a token the same bits alone and in a block of W tokens?

    Speculative decoding is lossless only if it does. Each op runs at every width against serial
    width-1 runs, on a real libggml.

    \b
    Example:
      ggmlprobe op flash_attn --widths 1-4 --kv 512,4096,16384

    \b
    Exit status: 0 all invariant, 1 a finding, 2 usage, environment or
    internal error, 130 interrupted, 141 nobody reads the output.
    """


for command in (
    op, sweep, bisect, threshold, ab, model, preset, report, repro, diff, devices, serve,
    selftest, gpu_run,
):  # fmt: skip
    main.add_command(command)
