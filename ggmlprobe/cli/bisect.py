"""`ggmlprobe bisect OP`: where the classes change along an axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import click
from click.core import ParameterSource

from ggmlprobe.cli.fleet import cores
from ggmlprobe.cli.op_specs import Chosen, add_commands
from ggmlprobe.cli.options import DEFAULT_WIDTHS, THREADS_MAX, ProbeOptions, Whole
from ggmlprobe.cli.run import run_and_print
from ggmlprobe.dispatch.axes import AXES, FIELDS, Axis, check_axis, moved
from ggmlprobe.dispatch.axes import bisect as along
from ggmlprobe.errors import UsageError
from ggmlprobe.ops import OPS
from ggmlprobe.ranges import parse_positive
from ggmlprobe.record import Config, Row
from ggmlprobe.runner import Case, Runner
from ggmlprobe.worker.protocol import Event

LAST = {"width": 512, "m": 512, "k": 4096, "kv": 4096}
OTHER_SIDE = 4096
SEEDS = "1"


@click.group(no_args_is_help=False)
def bisect() -> None:
    """Find where the classes change along an axis, with few runs.

    Between two values that were run and are of one class no change is assumed; what lies there is
    listed as not probed, and --exhaustive runs it. Axes width and threads compare bits. On m, k
    and kv the inputs change: there verdicts and class letters at --widths are compared.

    \b
    Example:
      ggmlprobe bisect mul_mat --type q4_K --m 4096 --k 4096 --axis width
    """


@dataclass
class Plan:
    """What is bisected.

    Attributes:
        blocks: block size by type, once the library is known.
    """

    chosen: Chosen
    options: ProbeOptions
    axis: Axis
    blocks: dict[str, int] = field(default_factory=dict)

    def cases(self, ready: Event) -> list[Case]:
        """The cases, each at the last value of the axis."""
        axis = self.axis
        self.blocks = {name: info["blck_size"] for name, info in ready["types"].items()}
        if axis.name == "width":
            made = self.chosen.cases(ready, [1])
            return [replace(case, tokens=axis.last) for case in made]
        widths = self.options.widths or parse_positive(DEFAULT_WIDTHS)
        return [self._moved(case) for case in self.chosen.cases(ready, widths)]

    def _moved(self, case: Case) -> Case:
        if self.axis.name not in FIELDS:
            return case
        last = self.axis.values(self.axis.step_for(case, self.blocks))[-1]
        return moved(case, self.axis, last)

    def drive(
        self, runner: Runner, configs: Sequence[Config], cases: Sequence[Case]
    ) -> Iterator[Row]:
        """Rows of every case."""
        return along(runner, configs, cases, self.axis, self.blocks)


def excluded(axis: Axis) -> dict[str, str]:
    """Parameters of the command that the axis itself sets, each with its option."""
    others = {"width": {"widths": "--widths"}, "threads": {
        "threads": "--threads", "threads_batch": "--threads-batch"}}  # fmt: skip
    return others.get(axis.name, {FIELDS.get(axis.name, ""): f"--{axis.name}"})


def refuse_excluded(axis: Axis) -> None:
    """Raise UsageError where an option was given that the axis sets."""
    context = click.get_current_context()
    for name, option in excluded(axis).items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--axis {axis.name} takes --from and --to, not {option}")


def other_side(chosen: Chosen, axis_name: str) -> dict[str, tuple[int]]:
    """k where m is the axis and it was not given, and the reverse."""
    sides = {"m": "k", "k": "m"}
    side = sides.get(axis_name, "")
    return {side: (OTHER_SIDE,)} if side and chosen.given[side] is None else {}


def along_axis(chosen: Chosen, options: ProbeOptions, **given: Any) -> None:
    """Bisect and print the record."""
    name, last = given["axis"], given["last"]
    axis = Axis(name, given["first"], last or LAST.get(name) or max(cores(), given["first"]),
                given["step"], given["exhaustive"])  # fmt: skip
    check_axis(axis, {f.name for f in fields(OPS[chosen.spec.name])}, chosen.spec.name)  # type: ignore[arg-type]
    refuse_excluded(axis)
    if name in FIELDS:
        chosen = chosen.having(**{FIELDS[name]: (axis.last,)}, **other_side(chosen, name))
    if name == "threads":
        if axis.last > THREADS_MAX:
            raise UsageError(f"--to {axis.last}: ggml runs at most {THREADS_MAX} threads")
        threads = tuple(axis.values(axis.step or 1))
        options = replace(options, threads=threads, threads_batch=None)
    task = Plan(chosen, options, axis)
    run_and_print(options, task.cases, drive=task.drive)


add_commands(
    bisect, along_axis, "--axis width --to 512",
    own=(
        click.option("--axis", type=click.Choice(AXES), default="width", show_default=True,
                     help="What is varied."),
        click.option("--from", "first", type=Whole(1), default=1,
                     show_default=True, help="First value."),
        click.option("--to", "last", type=Whole(1),
                     help="Last value [512; k and kv 4096; threads: all cores]."),
        click.option("--step", type=Whole(1),
                     help="Only multiples of this [1; kv 256; k the block size]."),
        click.option("--exhaustive", is_flag=True, help="Run every value."),
    ),
    defaults={"seeds": SEEDS},
)  # fmt: skip
