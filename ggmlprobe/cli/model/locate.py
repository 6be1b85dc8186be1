"""`ggmlprobe model locate`: the node of the graph where block decode first parts from single."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import click

from ggmlprobe.cli.journals import INTERRUPTED
from ggmlprobe.cli.model.compare import model_settings
from ggmlprobe.cli.model.options import ModelOptions, model_options
from ggmlprobe.cli.options import Range
from ggmlprobe.cli.progress import Progress
from ggmlprobe.cli.rows import check_exports, exit_status, publish
from ggmlprobe.cli.run import command_line
from ggmlprobe.codec import to_dict
from ggmlprobe.configs import configs_of
from ggmlprobe.errors import UsageError
from ggmlprobe.gather import Gathered
from ggmlprobe.model.campaign import context_settings
from ggmlprobe.model.located import Location
from ggmlprobe.ops import OPS
from ggmlprobe.record import SCHEMA_VERSION, Config, Header, collect_environment, from_dict
from ggmlprobe.report.model_locate import FORMATS
from ggmlprobe.runner import Case, Runner
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.model_client import ask
from ggmlprobe.worker.protocol import Event, ModelRequest
from ggmlprobe.worker.supervisor import Worker

SEEDS = (1, 2, 3)
Cases = list[tuple[str | None, Case]]


class LocateProgress(Progress):
    """Widths done, and what runs now."""

    def step(self, phase: str, width: int) -> None:
        """Something begins."""
        self.what = f"width {width}: {phase}"
        self._show()

    def finished(self) -> None:
        """A width is done."""
        self.done += 1
        self._show()


@click.command(short_help="Find the node where a block first parts from single tokens.")
@model_options
@click.option(
    "--block-width", "widths", type=Range(), default="5", show_default=True,
    help="Tokens of a block, at least 2.",
)  # fmt: skip
@click.option(
    "--window", type=click.IntRange(min=0), default=0, show_default=True,
    help="Generated tokens before the block, as t of model compare.",
)  # fmt: skip
def locate(options: ModelOptions, widths: Sequence[int], window: int) -> None:
    """Find the node where a block's bits first part from those of single tokens.

    Every node of both graphs is compared. A culprit is one whose inputs agree and whose output
    does not; it is computed again by itself, from its real weights and activations.

    \b
    Example:
      ggmlprobe model locate model.gguf -p "Why is the sky blue?" --block-width 5
    """
    text = options.text()
    if text is None:
        raise UsageError("no prompt: give -p TEXT or -f FILE")
    if min(widths) < 2:
        raise UsageError("--block-width 1 is no block: give 2 or more")
    if options.resume is not None:
        raise UsageError("--resume is not for locate, which is one run")
    files = check_exports(options)
    worker = options.worker()
    locations: list[Location] = []
    interrupted = False
    progress = LocateProgress(len(widths))
    try:
        config = configure(worker, options)
        cases: dict[str | None, dict[str, Case]] = {None: {}}
        for width in widths:
            blank = Location(
                config.id, width, window, options.chat_template, 0, [], Verdict.INVARIANT
            )
            try:
                made, found = run(worker, options, config, blank, text, progress)
            except KeyboardInterrupt:
                interrupted = True
                break
            locations.append(made)
            for buft, case in found:
                cases.setdefault(buft, {})[case.op.case()] = case
        configs = [replace(config, id=f"c{i}", buft=buft) for i, buft in enumerate(cases)]
        header = Header(SCHEMA_VERSION, command_line(), configs, collect_environment())
        gathered = Gathered({})
        runner = Runner({each.id: worker for each in configs}, SEEDS)
        for each in [] if interrupted else configs:
            for row in runner.run([each], list(cases[each.buft].values())):
                gathered.take(row)
    finally:
        progress.end()
        worker.stop()
    record = replace(gathered.record(header, interrupted), locations=locations)
    publish(record, options, files, FORMATS)
    sys.exit(INTERRUPTED if interrupted else exit_status(locations, "blocks ran"))


def configure(worker: Worker, options: ModelOptions) -> Config:
    """The one config of the run."""
    for name in ("fa", "ctk", "ctv", "threads", "threads_batch"):
        options.single(name)
    ready = worker.ready()
    (config,) = configs_of(
        ready, options.device, (None,), options.values("threads"),
        options.values("threads_batch"), {},
    )  # fmt: skip
    (settings,) = model_settings(worker, options)
    return replace(config, model=settings)


def run(
    worker: Worker, options: ModelOptions, config: Config, blank: Location, text: str,
    progress: LocateProgress,
) -> tuple[Location, Cases]:  # fmt: skip
    """Locate at one width; the op probe's cases of the culprits, with the weights' buffer type."""
    args = {"blank": to_dict(blank), "text": text, "context": context_settings(config)}
    made = replace(blank, verdict=Verdict.UNSUPPORTED, detail="nothing was located")
    cases: Cases = []
    for event in ask(worker, ModelRequest("locate", options.spec(), args)):
        if event["event"] == "begin":
            progress.step(event["phase"], blank.width)
        elif event["event"] == "located":
            made = from_dict(Location, event["data"])
            cases = list(as_cases(event["cases"], blank.width))
        elif event["event"] in ("failed", "died"):
            made = failed(blank, event)
    progress.finished()
    return made, cases


def failed(blank: Location, event: Event) -> Location:
    """The location of a width that could not be run."""
    return replace(
        blank, verdict=event["verdict"], detail=event["detail"], signal=event.get("signal"),
        stderr_tail=event.get("stderr", []),
    )  # fmt: skip


def as_cases(given: Sequence[dict[str, Any]], width: int) -> Iterator[tuple[str | None, Case]]:
    """Cases to probe at every width of the block."""
    for each in given:
        params = {k: tuple(v) if isinstance(v, list) else v for k, v in each["params"].items()}
        op = OPS[each["op"]](**params)
        yield each["buft"], Case(each["op"], op, tuple(range(1, width + 1)))
