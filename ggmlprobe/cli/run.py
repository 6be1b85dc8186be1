"""From parsed options to a printed record: what `op` and `preset run` share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from ggmlprobe import plan, report
from ggmlprobe.cli.baseline import Baseline
from ggmlprobe.cli.fleet import Fleet
from ggmlprobe.cli.git_bisect import row_status
from ggmlprobe.cli.journals import AnyJournal, kept, opened, settle
from ggmlprobe.cli.options import ProbeOptions
from ggmlprobe.cli.progress import Progress
from ggmlprobe.cli.rows import Formats, check_exports, exit_status, publish, take_all
from ggmlprobe.errors import ProbeError, UsageError
from ggmlprobe.gather import Gathered
from ggmlprobe.record import (
    SCHEMA_VERSION,
    Config,
    Header,
    Record,
    Result,
    Row,
    collect_environment,
)
from ggmlprobe.runner import Case, Runner
from ggmlprobe.system import cpu_seconds
from ggmlprobe.worker.protocol import Event

RETRIED = ("CRASH", "TIMEOUT", "OOM")


def command_line() -> str:
    """The exact command, as a shell takes it."""
    return shlex.join(["ggmlprobe", *sys.argv[1:]])


Drive = Callable[[Runner, list[Config], list[Case]], Iterator[Row]]


def run_and_print(
    options: ProbeOptions,
    cases_of: Callable[[Event], list[Case]],
    check: str | None = None,
    drive: Drive = Runner.run,
    formats: Formats = report.FORMATS,
    fleet: Fleet | None = None,
) -> None:
    """Run the cases in every config, print the record, and exit with its status.

    Args:
        cases_of: makes the cases from the child's description of the library.
        drive: hands out the rows; by default those of every case in every config.
        formats: renderers by name.
        fleet: the children, if not one for each environment.
    """
    files = check_exports(options)
    baseline = Baseline.of(options)
    if options.retry and options.resume is None:
        raise UsageError("--retry goes with --resume FILE")
    if options.hot and not options.time:
        raise UsageError("--hot goes with --time")
    fleet = fleet or Fleet(options)
    try:
        ready = fleet.start()
        cases = cases_of(ready)
        plan.check_cases(cases, ready["types"])
        configs = list(fleet.configs)
        if baseline is not None:
            baseline.check(configs, options.seeds)
        header = Header(SCHEMA_VERSION, command_line(), configs, collect_environment())
        with opened(options.resume, header) as journal:
            finished = journal.partial.finished(RETRIED if options.retry else ())
            runner = Runner(
                fleet.workers, options.seeds, finished, check, passes=passes(options),
                hot=options.hot,
            )  # fmt: skip
            record, error = collect(runner, header, cases, journal, drive)
    finally:
        fleet.stop()
    record = replace(record, timing=runner.timing(cpu_seconds()))
    with kept(journal):
        publish(record, options, files, formats)
    settle(journal, record.interrupted, error)
    status = exit_status(record.results)
    if baseline is not None:
        status = baseline.judge(record)
    sys.exit(row_status(record) if options.git_bisect else status)


def passes(options: ProbeOptions) -> tuple[str, ...]:
    """Passes asked for, in the order they run."""
    asked = {"kernels": options.kernels, "time": options.time}
    return tuple(name for name, wanted in asked.items() if wanted)


def collect(
    runner: Runner,
    header: Header,
    cases: list[Case],
    journal: AnyJournal,
    drive: Drive = Runner.run,
) -> tuple[Record, ProbeError | None]:
    """Run; every row goes to the journal at once.

    Returns:
        The rows there are, and the error that has ended the run. Ctrl-C ends it, too.

    Raises:
        ProbeError: before there was a row.
    """
    gathered = Gathered(runner.finished)
    gathered.take_classes(journal.partial.classes)
    rows = len(header.configs) * sum(len(case.widths) for case in cases)
    progress = Progress(rows if drive is Runner.run else None)
    runner.started = progress.case

    def take(row: Row) -> None:
        if (news := gathered.take(row)) is not None:
            journal.append(news)
        if isinstance(row, Result):
            progress.row(row)

    ending = take_all(drive(runner, header.configs, cases), take, progress)
    return gathered.record(header, ending.interrupted), ending.error
