"""`ggmlprobe ab OP`: verdicts of two libraries, devices or settings, and what one costs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from ggmlprobe import plan
from ggmlprobe.caserun import CaseRun
from ggmlprobe.cli.baseline import Baseline
from ggmlprobe.cli.fleet import cache_dir, cores
from ggmlprobe.cli.git_bisect import row_status
from ggmlprobe.cli.journals import kept, opened, settle
from ggmlprobe.cli.op import WIDTHS
from ggmlprobe.cli.op_specs import Chosen, add_commands
from ggmlprobe.cli.options import NAMES, THREADS_MAX, ProbeOptions
from ggmlprobe.cli.rows import check_exports, exit_status, publish
from ggmlprobe.cli.run import RETRIED, collect, command_line
from ggmlprobe.configs import configs_of, only_device
from ggmlprobe.dispatch import ab as duel
from ggmlprobe.errors import UsageError
from ggmlprobe.record import (
    SCHEMA_VERSION,
    Config,
    Header,
    Record,
    Result,
    Slowdown,
    collect_environment,
)
from ggmlprobe.runner import Case, Runner
from ggmlprobe.system import cpu_seconds
from ggmlprobe.worker.protocol import Event, Spec
from ggmlprobe.worker.supervisor import Worker

A, B = "c0", "c1"


class Variable(click.ParamType):
    """VAR=VALUE; an empty value is unset."""

    name = "setting"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | None]:
        """Split; a tuple passes."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            self.fail(f"'{value}' is no setting: write VAR=VALUE, or VAR= for unset", param, ctx)
        return name, text or None


@dataclass(frozen=True)
class Side:
    """What one side's child is and computes with."""

    lib: str | None
    device: str | None
    threads: int
    env: dict[str, str | None]

    def worker(self, options: ProbeOptions) -> Worker:
        """A child for it."""
        spec = Spec(self.lib, dict(self.env), cache_dir(), kernels=options.kernels)
        return Worker(spec, options.timeout)

    def config(self, ready: Event, options: ProbeOptions, number: int) -> Config:
        """Its config."""
        batch = options.threads_batch
        bufts = options.buft or (None,)
        return configs_of(
            ready, self.device, bufts, (self.threads,), batch, self.env, number
        )[0]  # fmt: skip


def sides(options: ProbeOptions, given: Mapping[str, Any]) -> tuple[Side, Side]:
    """Sides A and B; what is not given for one of them is that of --lib, --device, --threads.

    Raises:
        UsageError: they are the same, or an option has several values where one is compared.
    """
    for name in ("threads", "threads_batch", "buft"):
        if len(getattr(options, name) or ()) > 1:
            raise UsageError(f"ab compares two sides: give --{name.replace('_', '-')} one value")
    if options.env or options.time:
        raise UsageError("ab always times, and has --set-env-a and --set-env-b for settings")
    env_a, env_b = dict(given["set_env_a"]), dict(given["set_env_b"])
    # what only one side sets is unset on the other, whatever the shell has
    names = [*env_a, *env_b]
    both = [{name: env.get(name) for name in names} for env in (env_a, env_b)]
    threads = (options.threads or (cores(),))[0]
    a, b = (
        Side(
            given[f"lib_{side}"] or options.lib,
            only_device(given[f"device_{side}"], "ab", f"--device-{side}")
            or only_device(options.device, "ab"),
            given[f"threads_{side}"] or threads, env,
        )
        for side, env in zip("ab", both, strict=True)
    )  # fmt: skip
    if a == b:
        raise UsageError("A and B are the same: give --lib-b, --device-b or --set-env-b, say")
    return a, b


def side_options() -> list[Any]:
    """--lib-a, --lib-b and so on."""
    kinds: list[tuple[str, dict[str, Any], str]] = [
        ("lib", {"metavar": "PATH"}, "Directory or file of side {0}'s libggml [as --lib]."),
        ("device", {"type": NAMES, "metavar": "NAME"}, "Side {0}'s device [as --device]."),
        ("threads", {"type": click.IntRange(1, THREADS_MAX)}, "Side {0}'s threads [as --threads]."),
        (
            "set-env",
            {"type": Variable(), "multiple": True, "metavar": "VAR=VALUE"},
            "Set a variable for side {0}; it is unset on the other unless set there.",
        ),
    ]
    return [
        click.option(f"--{name}-{side}", help=text.format(side.upper()), **more)
        for name, more, text in kinds
        for side in "ab"
    ]


@click.group(
    no_args_is_help=False,
    short_help="Compare two builds, devices or settings, and the time it costs.",
)
def ab() -> None:
    """Compare two builds, devices or settings: verdicts before and after, and the time it costs.

    Exit status: 0 side B has no finding, 1 it has one.

    \b
    Example:
      ggmlprobe ab flash_attn --widths 1-4 --kv 2048 --lib-a old --lib-b new
    """


def probe(chosen: Chosen, options: ProbeOptions, **given: Any) -> None:
    """Run both sides, then time them in turns."""
    files, baseline = check_exports(options), Baseline.of(options)
    if options.retry and options.resume is None:
        raise UsageError("--retry goes with --resume FILE")
    pair = sides(options, given)
    workers = [side.worker(options) for side in (*pair, pair[0])]
    try:
        both = [worker.ready() for worker in workers[:2]]
        cases = chosen.cases(both[0], options.widths or WIDTHS)
        for ready in both:
            plan.check_cases(cases, ready["types"])
        configs = [side.config(both[i], options, i) for i, side in enumerate(pair)]
        if baseline is not None:
            baseline.check(configs, options.seeds)
        header = Header(SCHEMA_VERSION, command_line(), configs, collect_environment())
        with opened(options.resume, header) as journal:
            finished = journal.partial.finished(RETRIED if options.retry else ())
            passes = ("kernels",) if options.kernels else ()
            runner = Runner({A: workers[0], B: workers[1]}, options.seeds, finished, passes=passes)
            record, error = collect(runner, header, cases, journal, Runner.run)
        if not record.interrupted:
            record = timed(record, cases, workers, options)
    finally:
        for worker in workers:
            worker.stop()
    record = replace(record, timing=runner.timing(cpu_seconds()))
    with kept(journal):
        publish(record, options, files)
    settle(journal, record.interrupted, error)
    after = replace(record, results=[row for row in record.results if row.config == B])
    status = exit_status(after.results)
    if baseline is not None:
        status = baseline.judge(record)
    sys.exit(row_status(after) if options.git_bisect else status)


def timed(
    record: Record, cases: Sequence[Case], workers: Sequence[Worker], options: ProbeOptions
) -> Record:
    """The record with times of every width that ran on both sides."""
    rows = {row.key: row for row in record.results}
    comparisons: list[Slowdown] = []
    interrupted = False
    try:
        for case in cases:
            comparisons += time_case(rows, record.configs, case, workers, options)
    except KeyboardInterrupt:
        interrupted = True
    return replace(record, results=list(rows.values()), ab=comparisons, interrupted=interrupted)


def time_case(
    rows: dict[tuple[str, str, int], Result], configs: Sequence[Config], case: Case,
    workers: Sequence[Worker], options: ProbeOptions,
) -> list[Slowdown]:  # fmt: skip
    """Time one case, put the times into its rows, and return the comparisons."""
    name = CaseRun(configs[0], case.op_name, case.op, case.widths, (0,)).case
    widths = [w for w in case.widths if rows[A, name, w].seeds and rows[B, name, w].seeds]
    if not widths:
        return []
    sides = {
        side: (worker, duel.request(config, case, widths, options.seeds, options.hot))
        for side, worker, config in zip(
            ("a", "b", "null"), workers, (*configs, configs[0]), strict=True
        )
    }
    measured, comparisons = duel.compare(sides, name)
    for config, side in ((A, "a"), (B, "b")):
        for width, data in measured[side].items():
            key = (config, name, width)
            note = data.get("time_note")
            rows[key] = replace(rows[key], time=duel.stats(data), time_note=note)
    return comparisons


add_commands(ab, probe, "--lib-b new", own=side_options())
