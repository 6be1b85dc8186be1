"""`ggmlprobe model speculate`: speculative greedy decoding against plain, text and time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ggmlprobe import report
from ggmlprobe.cli.model.compare import check_exports, start
from ggmlprobe.cli.model.options import ModelOptions, model_options
from ggmlprobe.cli.progress import Progress
from ggmlprobe.cli.run import INTERRUPTED, RETRIED, command_line, cpu_seconds, state_file
from ggmlprobe.errors import NothingRan, UsageError
from ggmlprobe.journal import Journal
from ggmlprobe.model.prompts import Prompt, chosen
from ggmlprobe.model.speculated import Speculated
from ggmlprobe.model.speculation_runs import Children, Generate, Plan, record_of, run
from ggmlprobe.record import SCHEMA_VERSION, Config, Header, Record, collect_environment
from ggmlprobe.report.model_speculate import FORMATS
from ggmlprobe.verdict import FINDINGS, Verdict
from ggmlprobe.worker.protocol import Event
from ggmlprobe.worker.supervisor import Worker


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


@click.command()
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
@click.option("--ignore-eos", is_flag=True, help="Go on behind a token that ends the text.")
@click.option("--retry", is_flag=True, help="With --resume: run CRASH, TIMEOUT and OOM rows again.")
def speculate(
    options: ModelOptions, draft: Path | None, ngram: bool, n_max: int, prompts: str | None,
    rechecks: Sequence[float], repeats: int, control: bool, ignore_eos: bool, retry: bool,
) -> None:  # fmt: skip
    """Generate greedily with and without speculation: the same bytes, how fast, how many accepted.

    \b
    Exit status: 0 the texts are equal, 1 one differs or could not be made.

    \b
    Example:
      ggmlprobe model speculate model.gguf --draft small.gguf -p "Explain the theorem" --n-max 3
    """
    if (draft is None) == (not ngram):
        raise UsageError("give either --draft MODEL2 or --ngram")
    if retry and options.resume is None:
        raise UsageError("--retry goes with --resume FILE")
    text = options.text()
    plan = Plan(
        chosen([text] if text else [], prompts), options.n, n_max, options.chat_template,
        "draft" if draft else "ngram", str(draft) if draft else None, (0.0, *rechecks),
        control, True, repeats, ignore_eos,
    )  # fmt: skip
    files = check_exports(options)
    configs, workers = start(options, ())
    try:
        record, journal = with_children(options, plan, draft, configs, workers, retry)
    finally:
        for worker in workers.values():
            worker.stop()
    publish(record, options, files)
    end(record, journal.path, options.resume is not None)


def with_children(
    options: ModelOptions, plan: Plan, draft: Path | None, configs: list[Config],
    workers: dict[str, Worker], retry: bool,
) -> tuple[Record, Journal]:  # fmt: skip
    """Run the plan in child processes."""
    progress = SpeculateProgress(plan.total(len(configs)))
    second = options.spec(draft) if draft else None
    children = Children(workers, options.spec(), second, plan, progress.step)
    record, journal = collect(options, plan, configs, children.generate, progress, retry)
    return replace(record, timing=children.timing(cpu_seconds())), journal


def collect(
    options: ModelOptions, plan: Plan, configs: list[Config], generate: Generate,
    progress: SpeculateProgress, retry: bool,
) -> tuple[Record, Journal]:  # fmt: skip
    """Run the plan; each row goes to the journal at once. Ctrl-C ends with what there is."""
    header = Header(SCHEMA_VERSION, command_line(), configs, collect_environment())
    rows: list[Speculated] = []
    interrupted = False
    with Journal.open(
        options.resume or state_file(), header, resume=options.resume is not None
    ) as journal:
        again = RETRIED if retry else ()
        finished = {row.key: row for row in journal.partial.speculated if row.verdict not in again}
        try:
            for row in run(plan, configs, finished, generate):
                if finished.get(row.key) is not row:
                    journal.append(row)
                rows.append(row)
                progress.finished()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            progress.end()
    return record_of(header, rows, interrupted), journal


def publish(record: Record, options: ModelOptions, files: dict[str, Path]) -> None:
    """Print the record, and write the files asked for."""
    click.echo(FORMATS[options.output](record), nl=False)
    for kind, path in files.items():
        report.write(path, FORMATS[kind](record), options.force)


def end(record: Record, journal: Path, resumed: bool) -> None:
    """Exit with the record's status; a journal nobody asked for goes with a finished run."""
    if record.interrupted:
        click.echo(f"interrupted; go on with: --resume {journal}", err=True)
        sys.exit(INTERRUPTED)
    if not resumed:
        journal.unlink(missing_ok=True)
    if all(row.verdict == Verdict.UNSUPPORTED for row in record.speculated):
        why = next((row.detail for row in record.speculated if row.detail), "no prompts")
        raise NothingRan(f"0 texts were generated: {why}")
    sys.exit(int(any(row.verdict in FINDINGS for row in record.speculated)))
