"""Option types, and the options that every probe has."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from ggmlprobe.errors import UsageError
from ggmlprobe.ranges import parse_range
from ggmlprobe.report import FORMATS

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_WIDTHS = "1-9,16,17"
DEFAULT_SEEDS = "1-3"
# inputs.normal takes 64 bits
SEED_MAX = 2**64 - 1
# GGML_MAX_N_THREADS in ggml.h
THREADS_MAX = 512
# beyond any tensor's dimension, and its bytes still fit 64 bits
LARGEST = 10**12


class Range(click.ParamType):
    """llama-bench's ranges of integers: 1,2,4 or 1-8 or 1-8+2 or 1-64*2."""

    name = "range"

    def __init__(self, least: int = 1, most: int = LARGEST) -> None:
        self.least, self.most = least, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Parse; a tuple passes."""
        if isinstance(value, tuple):
            return value
        try:
            values = parse_range(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if min(values) < self.least:
            self.fail(f"'{value}': values must be at least {self.least}", param, ctx)
        if max(values) > self.most:
            self.fail(f"'{value}': values must be at most {self.most}", param, ctx)
        return values


class Pair(click.ParamType):
    """Integers of a fixed number, separated by commas."""

    name = "ints"

    def __init__(self, count: int) -> None:
        self.count = count

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Split; a tuple passes."""
        if isinstance(value, tuple):
            return value
        parts = value.split(",")
        if len(parts) != self.count or not all(part.strip().isdigit() for part in parts):
            self.fail(f"'{value}' is not {self.count} integers, such as 1,1", param, ctx)
        numbers = tuple(int(part) for part in parts)
        if max(numbers) > LARGEST:
            self.fail(f"'{value}': values must be at most {LARGEST}", param, ctx)
        return numbers


class Names(click.ParamType):
    """Names separated by commas."""

    name = "names"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split; a tuple passes."""
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"'{value}' has an empty name", param, ctx)
        return names


class Setting(click.ParamType):
    """An environment variable and the values to run with."""

    name = "setting"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        """Split into name and values; a tuple passes."""
        if isinstance(value, tuple):
            return value
        name, equals, values = value.partition("=")
        if not equals or not name.isidentifier():
            self.fail(f"'{value}' is no setting: write VAR=A,B", param, ctx)
        return name, tuple(values.split(","))


class Whole(click.IntRange):
    """An integer from a bound on that a tensor's dimension can have."""

    def __init__(self, least: int) -> None:
        super().__init__(min=least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse; too large a number would not fit a C integer."""
        number = int(super().convert(value, param, ctx))
        if number > LARGEST:
            self.fail(f"'{value}': at most {LARGEST}", param, ctx)
        return number


class Finite(click.FloatRange):
    """A number from 0 to a bound, so neither `inf` nor `nan`."""

    def __init__(self, most: float, positive: bool = False) -> None:
        super().__init__(min=0, min_open=positive, max=most)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse; `nan` is in no range, but click's test lets it pass."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"'{value}' is no number", param, ctx)
        return number


RANGE, NAMES = Range(), Names()
THREADS = Range(most=THREADS_MAX)
SECONDS = Finite(1e9, positive=True)


@dataclass(frozen=True)
class ProbeOptions:
    """What every probe takes; see `probe_options` for their help."""

    widths: tuple[int, ...] | None
    seeds: tuple[int, ...]
    threads: tuple[int, ...] | None
    threads_batch: tuple[int, ...] | None
    device: tuple[str, ...] | None
    lib: str | None
    buft: tuple[str, ...] | None
    env: tuple[tuple[str, tuple[str, ...]], ...]
    kernels: bool
    time: bool
    hot: bool
    timeout: float
    resume: Path | None
    retry: bool
    output: str
    export_md: Path | None
    export_csv: Path | None
    export_json: Path | None
    export_jsonl: Path | None
    export_junit: Path | None
    baseline: Path | None
    force: bool
    git_bisect: bool


def probe_options(function: F) -> F:
    """Add the options of every probe; the command receives them as one ProbeOptions."""
    path = click.Path(path_type=Path)
    options = [
        click.option("--widths", type=RANGE, help=f"Tokens per evaluation [{DEFAULT_WIDTHS}]."),
        click.option("--seeds", type=Range(0, SEED_MAX), default=DEFAULT_SEEDS,
                     show_default=True, help="Seeds of the inputs; the first makes the weights."),
        click.option("-t", "--threads", type=THREADS, help="Threads at width 1 [all cores]."),
        click.option("-tb", "--threads-batch", type=THREADS,
                     help="Threads at widths above 1 [as --threads]."),
        click.option("--device", type=NAMES, help="Devices, one after the other, such as "
                     "CPU,Vulkan0, all, BLAS+CPU (scheduled), or rpc://HOST:PORT "
                     "[first GPU, else CPU]."),
        click.option("--lib", metavar="PATH", help="Directory or file of a libggml "
                     "[$GGMLPROBE_LIB, the packaged build, llama_cpp's]."),
        click.option("--buft", type=NAMES,
                     help="Buffer types of the weights, such as CPU_REPACK [the device's own]."),
        click.option("--set-env", "env", type=Setting(), multiple=True, metavar="VAR=A,B",
                     help="Run with each value of a variable, in a child of its own; an empty one "
                     "is unset, which is always run. Several make a product."),
        click.option("--kernels", is_flag=True, help="Name the kernels that ran, in a pass apart."),
        click.option("--time", is_flag=True, help="Time the op alone, in a pass apart."),
        click.option("--hot", is_flag=True, help="With --time: weights that a cache may hold."),
        click.option("--timeout", type=SECONDS, default=300.0,
                     show_default=True, help="Seconds after which a run counts as hung."),
        click.option("--resume", type=path, metavar="FILE",
                     help="Go on with this journal (.jsonl); started where it is not there."),
        click.option("--retry", is_flag=True,
                     help="With --resume: run CRASH, TIMEOUT and OOM rows again."),
        click.option("-o", "--output", type=click.Choice(list(FORMATS)), default="md",
                     show_default=True, help="Format on stdout."),
        *(click.option(f"--export-{kind}", type=path, metavar="FILE",
                       help=f"Also write the record as {kind}.") for kind in FORMATS),
        click.option("--export-junit", type=path, metavar="FILE",
                     help="Also write a JUnit XML: a test case per row."),
        click.option("--baseline", type=path, metavar="FILE",
                     help="Findings of this run's earlier --export-json are expected: exit status "
                     "1 only if one is new or gone."),
        click.option("--force", is_flag=True, help="Overwrite files that exist."),
        click.option("--git-bisect", is_flag=True,
                     help="Exit status for git bisect run: 0 good, 1 bad, 125 cannot tell."),
    ]  # fmt: skip

    @functools.wraps(function)
    def gathered(**given: Any) -> Any:
        common = {field.name: given.pop(field.name) for field in fields(ProbeOptions)}
        return function(options=ProbeOptions(**common), **given)

    decorated: Any = gathered
    for option in reversed(options):
        decorated = option(decorated)
    result: F = decorated
    return result
