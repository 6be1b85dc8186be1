"""`ggmlprobe model speculate`: speculative greedy decoding against plain, text and time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click

from ggmlprobe.cli.journals import AnyJournal, kept, opened, settle
from ggmlprobe.cli.model.compare import start
from ggmlprobe.cli.model.options import ModelOptions, model_options
from ggmlprobe.cli.progress import Progress
from ggmlprobe.cli.rows import check_exports, exit_status, publish, take_all
from ggmlprobe.cli.run import RETRIED, command_line
from ggmlprobe.errors import ProbeError, UsageError
from ggmlprobe.model.program_runs import Programs
from ggmlprobe.model.prompts import Prompt, chosen
from ggmlprobe.model.record import ModelSettings
from ggmlprobe.model.speculated import Speculated
from ggmlprobe.model.speculation_runs import Children, Generate, Plan, record_of, run
from ggmlprobe.record import (
    SCHEMA_VERSION,
    Config,
    DeviceRecord,
    Header,
    LibraryInfo,
    Record,
    collect_environment,
)
from ggmlprobe.report.model_speculate import FORMATS
from ggmlprobe.system import cpu_seconds
from ggmlprobe.worker import upstream
from ggmlprobe.worker.protocol import Event

# Room for the prompt in a program's context, beside what is generated.
CONTEXT = 2048

Ran = tuple[Record, AnyJournal, ProbeError | None]
"""The rows there are, where they are kept, and the error that has ended the run."""


class Margins(click.ParamType):
    """Margins separated by commas."""

    name = "x,y"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Split; a tuple passes."""
        if isinstance(value, tuple):
            return value
        try:
            margins = tuple(dict.fromkeys(float(part) for part in value.split(",")))
        except ValueError:
            self.fail(f"'{value}' is no list of margins: write 0.01,0.1", param, ctx)
        if not all(0 < margin < float("inf") for margin in margins):
            self.fail("a margin is above 0", param, ctx)
        return tuple(sorted(margins))


class SpeculateProgress(Progress):
    """Rows done, and the arm that runs now."""

    def step(self, config: Config, prompt: Prompt, event: Event) -> None:
        """Something begins."""
        self.what = f"{prompt.name}: {event['phase']}, round {event.get('round', 0)}"
        self._show()

    def finished(self) -> None:
        """A row is there."""
        self.done += 1
        self._show()


@click.command(short_help="Generate with and without speculation: is it the same text?")
@model_options
@click.option("--draft", type=click.Path(path_type=Path), metavar="MODEL2",
              help="A smaller model of the same family, which drafts.")  # fmt: skip
@click.option("--ngram", is_flag=True, help="Draft what followed the last tokens earlier on.")
@click.option("--n-max", type=click.IntRange(1, 511), default=3, show_default=True,
              help="Most tokens of a draft; a block is one wider.")  # fmt: skip
@click.option("--prompts", metavar="FILE",
              help="Prompts, one per line, or .json; builtin for 12 short ones.")  # fmt: skip
@click.option("--recheck-margin", "rechecks", type=Margins(), default=(), metavar="X,Y",
              help="Also with verified tokens whose top-2 margin is under X evaluated again "
              "alone.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True,
              help="Timed rounds, after one that warms up.")  # fmt: skip
@click.option("--control/--no-control", default=True, show_default=True,
              help="Also with a draft that is wrong on purpose.")  # fmt: skip
@click.option("--bin", "program", type=click.Path(path_type=Path), metavar="PATH",
              help="Upstream's own llama-server or llama-cli instead, started twice: with and "
              "without speculation.")  # fmt: skip
@click.option("--ignore-eos", is_flag=True, help="Go on behind a token that ends the text.")
@click.option("--retry", is_flag=True, help="With --resume: run CRASH, TIMEOUT and OOM rows again.")
def speculate(
    options: ModelOptions, draft: Path | None, ngram: bool, n_max: int, prompts: str | None,
    rechecks: Sequence[float], repeats: int, control: bool, program: Path | None,
    ignore_eos: bool, retry: bool,
) -> None:  # fmt: skip
    """Generate greedily with and without speculation: the same bytes, how fast, how many accepted.

    \b
    Exit status: 0 the texts are equal, 1 one differs or could not be made.

    \b
    Example:
      ggmlprobe model speculate model.gguf --draft small.gguf -p "Why?" --n-max 3
    """
    if (draft is None) == (not ngram):
        raise UsageError("give either --draft MODEL2 or --ngram")
    if retry and options.resume is None:
        raise UsageError("--retry goes with --resume FILE")
    if program and rechecks:
        raise UsageError("--recheck-margin is not for --bin: upstream's programs do not recheck")
    text = options.text()
    plan = Plan(
        chosen([text] if text else [], prompts), options.n, n_max, options.chat_template,
        "draft" if draft else "ngram", str(draft) if draft else None, (0.0, *rechecks),
        control and program is None, program is None, repeats, ignore_eos,
    )  # fmt: skip
    files = check_exports(options)
    if program:
        record, journal, error = with_programs(options, plan, program, retry)
    else:
        record, journal, error = with_children(options, plan, retry)
    with kept(journal):
        publish(record, options, files, FORMATS)
    settle(journal, record.interrupted, error)
    sys.exit(exit_status(record.speculated, "texts were generated"))


def with_children(options: ModelOptions, plan: Plan, retry: bool) -> Ran:
    """Run the plan in child processes."""
    configs, workers = start(options, ())
    try:
        progress = SpeculateProgress(plan.total(len(configs)))
        second = options.spec(Path(plan.draft)) if plan.draft else None
        children = Children(workers, options.spec(), second, plan, progress.step)
        record, journal, error = collect(options, plan, configs, children.generate, progress, retry)
    finally:
        for worker in workers.values():
            worker.stop()
    return replace(record, timing=children.timing(cpu_seconds())), journal, error


def with_programs(options: ModelOptions, plan: Plan, program: Path, retry: bool) -> Ran:
    """Run the plan with one of upstream's programs."""
    configs = program_configs(options, program)
    progress = SpeculateProgress(plan.total(len(configs)))

    def begin(config: Config, speculates: bool) -> upstream.Program:
        settings = upstream.Settings(
            options.path, program_flags(options, config), CONTEXT + plan.n, plan.n_max,
            plan.arm if speculates else None, Path(plan.draft) if plan.draft else None,
        )  # fmt: skip
        return upstream.start(program, settings, options.timeout)

    programs = Programs(begin, plan.repeats, plan.ignore_eos, progress.step)
    try:
        return collect(options, plan, configs, programs.generate, progress, retry)
    finally:
        programs.close()


def program_configs(options: ModelOptions, program: Path) -> list[Config]:
    """The settings that are swept, for a program; it is the library, and picks its device."""
    upstream.help_of(program)
    library = LibraryInfo(str(program), upstream.version_of(program), None, "--bin")
    name = options.device or "the program's own choice"
    device = DeviceRecord(name, "", "", "")
    pairs = [(k, v) for k in options.ctk for v in (options.ctv or (k,))]
    batch = options.values("threads_batch")
    return [
        Config(
            f"c{i}", library, device, None, threads, batch[0] if len(batch) == 1 else threads, {},
            ModelSettings(str(options.path), options.path.name, options.path.stat().st_size, 0,
                          options.ngl, fa, k, v, options.extra_bufts),
        )
        for i, (threads, fa, (k, v)) in enumerate(
            product(options.values("threads"), options.fa, pairs)
        )
    ]  # fmt: skip


def program_flags(options: ModelOptions, config: Config) -> tuple[str, ...]:
    """Settings of a config as upstream's options, the same for both of a pair."""
    model = config.model
    assert model is not None
    flags = ["-t", str(config.threads), "-tb", str(config.threads_batch), "-fa", model.fa]
    flags += ["-ctk", model.type_k, "-ctv", model.type_v]
    flags += ["-ngl", "999" if model.ngl < 0 else str(model.ngl)]
    flags += [] if model.extra_bufts else ["--no-repack"]
    if options.device:
        flags += ["--device", "none" if options.device.lower() == "cpu" else options.device]
    return tuple(flags)


def collect(
    options: ModelOptions, plan: Plan, configs: list[Config], generate: Generate,
    progress: SpeculateProgress, retry: bool,
) -> Ran:  # fmt: skip
    """Run the plan; each row goes to the journal at once.

    Ctrl-C ends with what there is; so does an error, which is returned.
    """
    header = Header(SCHEMA_VERSION, command_line(), configs, collect_environment())
    rows: list[Speculated] = []
    with opened(options.resume, header) as journal:
        again = RETRIED if retry else ()
        finished = {row.key: row for row in journal.partial.speculated if row.verdict not in again}

        def take(row: Speculated) -> None:
            if finished.get(row.key) is not row:
                journal.append(row)
            rows.append(row)
            progress.finished()

        interrupted, error = take_all(run(plan, configs, finished, generate), take, progress)
    return record_of(header, rows, interrupted), journal, error
