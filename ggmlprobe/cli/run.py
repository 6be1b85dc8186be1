"""From parsed options to a printed record: what `op` and `preset run` share."""

from __future__ import annotations

import os
import resource
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from ggmlprobe import plan, report
from ggmlprobe.cli.fleet import Fleet
from ggmlprobe.cli.options import ProbeOptions
from ggmlprobe.cli.progress import Progress
from ggmlprobe.errors import UsageError
from ggmlprobe.journal import Journal
from ggmlprobe.record import (
    SCHEMA_VERSION,
    CaseClasses,
    Header,
    Record,
    Result,
    collect_environment,
)
from ggmlprobe.runner import Case, Runner
from ggmlprobe.verdict import FINDINGS, Verdict
from ggmlprobe.worker.protocol import Event

RETRIED = ("CRASH", "TIMEOUT", "OOM")
INTERRUPTED = 130


def command_line() -> str:
    """The exact command, as a shell takes it."""
    return shlex.join(["ggmlprobe", *sys.argv[1:]])


def state_file() -> Path:
    """A new journal under the user's state folder, for runs that name none."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(base) / "ggmlprobe" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"


def check_exports(options: ProbeOptions) -> dict[str, Path]:
    """Formats and files asked for; refused before the run rather than after it."""
    named = {"md": options.export_md, "csv": options.export_csv, "json": options.export_json}
    files = {kind: path for kind, path in named.items() if path is not None}
    for path in files.values():
        report.check(path, options.force)
    return files


def run_and_print(
    options: ProbeOptions, cases_of: Callable[[Event], list[Case]], check: str | None = None
) -> None:
    """Run the cases in every config, print the record, and exit with its status.

    Args:
        cases_of: makes the cases from the child's description of the library.
    """
    files = check_exports(options)
    if options.retry and options.resume is None:
        raise UsageError("--retry goes with --resume FILE")
    if options.hot and not options.time:
        raise UsageError("--hot goes with --time")
    fleet = Fleet(options)
    try:
        ready = fleet.start()
        cases = cases_of(ready)
        plan.check_cases(cases, ready["types"])
        configs = list(fleet.configs)
        header = Header(SCHEMA_VERSION, command_line(), configs, collect_environment())
        with Journal.open(
            options.resume or state_file(), header, resume=options.resume is not None
        ) as journal:
            finished = journal.partial.finished(RETRIED if options.retry else ())
            runner = Runner(
                fleet.workers, options.seeds, finished, check, passes=passes(options),
                hot=options.hot,
            )  # fmt: skip
            record = collect(runner, header, cases, journal)
    finally:
        fleet.stop()
    record = replace(record, timing=runner.timing(cpu_seconds()))
    publish(record, options, files)
    if record.interrupted:
        click.echo(f"interrupted; go on with: --resume {journal.path}", err=True)
        sys.exit(INTERRUPTED)
    if options.resume is None:
        journal.path.unlink(missing_ok=True)
    sys.exit(exit_status(record))


def passes(options: ProbeOptions) -> tuple[str, ...]:
    """Passes asked for, in the order they run."""
    asked = {"kernels": options.kernels, "time": options.time}
    return tuple(name for name, wanted in asked.items() if wanted)


def exit_status(record: Record) -> int:
    """1 where a row is a finding, else 0.

    Raises:
        UsageError: nothing ran; 0 cases is a failure, never a pass.
    """
    if all(row.verdict == Verdict.UNSUPPORTED for row in record.results):
        why = next((row.detail for row in record.results if row.detail), "no rows")
        raise UsageError(f"0 cases ran: {why}")
    return int(any(row.verdict in FINDINGS for row in record.results))


def collect(runner: Runner, header: Header, cases: list[Case], journal: Journal) -> Record:
    """Run; every row goes to the journal at once. Ctrl-C ends with the rows there are."""
    results: dict[tuple[str, str, int], Result] = {}
    classes: dict[tuple[str, str], CaseClasses] = {}
    classes.update({(row.config, row.case): row for row in journal.partial.classes})
    progress = Progress(len(header.configs) * sum(len(case.widths) for case in cases))
    runner.started = progress.case
    interrupted = False
    try:
        for row in runner.run(header.configs, cases):
            if isinstance(row, CaseClasses):
                known = classes.get((row.config, row.case)) == row
                classes[row.config, row.case] = row
            else:
                known = runner.finished.get(row.key) is row
                results[row.key] = row
                progress.row(row)
            if not known:
                journal.append(row)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.end()
    place = {key: i for i, key in enumerate(dict.fromkeys((c, name) for c, name, _ in results))}
    return Record(
        header.schema, header.command, header.configs, header.environment,
        # a width that died has its row before narrower ones that ran on
        sorted(results.values(), key=lambda row: (place[row.config, row.case], row.width)),
        [row for key, row in classes.items() if key in place], interrupted=interrupted,
    )  # fmt: skip


def cpu_seconds() -> float:
    """User and system time of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def publish(record: Record, options: ProbeOptions, files: dict[str, Path]) -> None:
    """Print the record in the chosen format and write the exports."""
    click.echo(report.FORMATS[options.output](record), nl=False)
    for kind, path in files.items():
        report.write(path, report.FORMATS[kind](record), options.force)
