"""`ggmlprobe model compare`: every window of a greedy run, token by token and as a block."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import click

from ggmlprobe.cli.fleet import cache_dir
from ggmlprobe.cli.journals import AnyJournal, kept, opened, settle
from ggmlprobe.cli.model.options import ModelOptions, model_options
from ggmlprobe.cli.options import Finite, Names, Range, Setting
from ggmlprobe.cli.progress import Progress
from ggmlprobe.cli.rows import check_exports, exit_status, publish, take_all
from ggmlprobe.cli.run import RETRIED, command_line
from ggmlprobe.configs import configs_of, environments
from ggmlprobe.errors import NothingRan, ProbeError, UsageError
from ggmlprobe.model.campaign import Campaign, Plan
from ggmlprobe.model.pooling import NEAR_TIE
from ggmlprobe.model.prompts import Prompt, chosen
from ggmlprobe.model.rates import record_of
from ggmlprobe.model.record import BlockComparison, ModelSettings
from ggmlprobe.record import SCHEMA_VERSION, Config, Header, Record, collect_environment
from ggmlprobe.system import cpu_seconds
from ggmlprobe.worker.model_client import ask
from ggmlprobe.worker.protocol import Event, ModelRequest, Spec
from ggmlprobe.worker.supervisor import Worker

N_UBATCH = 512
PREFIXES = ("prefill", "ar")


class Prefixes(Names):
    """Names of prefixes separated by commas."""

    name = "prefill|ar"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Split, and refuse any other word."""
        names = tuple(dict.fromkeys(super().convert(value, param, ctx)))
        for name in names:
            if name not in PREFIXES:
                self.fail(f"'{name}' is not one of {', '.join(PREFIXES)}", param, ctx)
        return names


class CompareProgress(Progress):
    """Comparisons done, and the window that runs now."""

    def step(self, config: Config, prompt: Prompt, event: Event) -> None:
        """Something begins."""
        width = f" width {event['width']}" if event["width"] else ""
        self.what = f"{prompt.name}: {event['phase']}{width}, t={event.get('window', 0)}"
        self._show()

    def finished(self) -> None:
        """A comparison is there."""
        self.done += 1
        self._show()


@click.command(short_help="Compare single and block decode: logits, flips, rates.")
@model_options
@click.option(
    "--block-width",
    "widths",
    type=Range(),
    default="5",
    show_default=True,
    help="Tokens of a block.",
)
@click.option(
    "--prompts",
    metavar="FILE",
    help="Prompts, one per line, or a .json list; builtin for 12 short ones.",
)
@click.option(
    "--prefix",
    "prefixes",
    type=Prefixes(),
    default="prefill",
    show_default=True,
    help="What writes the prefix: prefill, before every window, or ar, the AR run.",
)
@click.option(
    "--near-tie",
    type=Finite(1e9),
    default=NEAR_TIE,
    show_default=True,
    help="Top-2 margin under which a cell is a near-tie.",
)
@click.option("--cells", is_flag=True, help="Put every cell into the record.")
@click.option(
    "--set-env",
    "env",
    type=Setting(),
    multiple=True,
    metavar="VAR=A,B",
    help="Run with each value of a variable; an empty one is unset, always run.",
)
@click.option("--retry", is_flag=True, help="With --resume: run CRASH, TIMEOUT and OOM rows again.")
def compare(
    options: ModelOptions, widths: Sequence[int], prompts: str | None, prefixes: Sequence[str],
    near_tie: float, cells: bool, env: Sequence[tuple[str, tuple[str, ...]]], retry: bool,
) -> None:  # fmt: skip
    """Compare single and block decode of a greedy run: logits, argmaxes, what flips.

    Window t of n decodes the next W tokens of the run one by one, and as one block, after the
    same prefix. A cell (t, j) is the logits that predict token t+j.

    \b
    Example:
      ggmlprobe model compare model.gguf -p "Why is the sky blue?" --block-width 5
    """
    if retry and options.resume is None:
        raise UsageError("--retry goes with --resume FILE")
    if max(widths) > N_UBATCH:
        raise UsageError(f"--block-width {max(widths)} is more than one graph takes ({N_UBATCH})")
    text = options.text()
    wanted = Plan(
        chosen([text] if text else [], prompts), sorted(widths), list(prefixes), options.n,
        options.chat_template, near_tie, cells,
    )  # fmt: skip
    files = check_exports(options)
    configs, workers = start(options, env)
    try:
        record, journal, error = run(options, wanted, configs, workers, retry)
    finally:
        for worker in workers.values():
            worker.stop()
    with kept(journal):
        publish(record, options, files)
    settle(journal, record.interrupted, error)
    sys.exit(exit_status(record.comparisons, "comparisons ran"))


def start(
    options: ModelOptions, env: Sequence[tuple[str, tuple[str, ...]]]
) -> tuple[list[Config], dict[str, Worker]]:
    """A child for each environment, and the configs that run in it."""
    configs: list[Config] = []
    workers: dict[str, Worker] = {}
    settings: list[ModelSettings] = []
    for values in environments(env):
        worker = Worker(Spec(options.lib, values, cache_dir()), options.timeout)
        try:
            ready = worker.ready()
            settings = settings or model_settings(worker, options)
            made = configs_of(
                ready, options.device, (None,), options.values("threads"),
                options.threads_batch, values,
            )  # fmt: skip
        except BaseException:
            for each in (worker, *workers.values()):
                each.stop()
            raise
        if workers:
            worker.stop()
        for config, model in product(made, settings):
            configs.append(replace(config, id=f"c{len(configs)}", model=model))
            workers[configs[-1].id] = worker
    return configs, workers


def model_settings(worker: Worker, options: ModelOptions) -> list[ModelSettings]:
    """The model with every combination of the settings that are swept."""
    about: Event = {}
    for event in ask(worker, ModelRequest("describe", options.spec())):
        if event["event"] == "model":
            about = event
    if not about:
        raise NothingRan(f"{options.path}: the model could not be described")
    pairs = [(k, v) for k in options.ctk for v in (options.ctv or (k,))]
    return [
        ModelSettings(
            str(options.path), about["desc"], about["size_bytes"], about["n_vocab"], options.ngl,
            fa, type_k, type_v, options.extra_bufts, N_UBATCH,
        )
        for fa, (type_k, type_v) in product(options.fa, pairs)
    ]  # fmt: skip


def run(
    options: ModelOptions, wanted: Plan, configs: list[Config], workers: dict[str, Worker],
    retry: bool,
) -> tuple[Record, AnyJournal, ProbeError | None]:  # fmt: skip
    """Run the plan; each comparison goes to the journal at once.

    Ctrl-C ends with what there is; so does an error, which is returned.
    """
    header = Header(SCHEMA_VERSION, command_line(), configs, collect_environment())
    progress = CompareProgress(wanted.total(len(configs)))
    rows: list[BlockComparison] = []
    with opened(options.resume, header) as journal:
        again = RETRIED if retry else ()
        finished = {row.key: row for row in journal.partial.comparisons if row.verdict not in again}
        campaign = Campaign(workers, options.spec(), wanted, finished, progress.step)

        def take(row: BlockComparison) -> None:
            if finished.get(row.key) is not row:
                journal.append(row)
            rows.append(row)
            progress.finished()

        interrupted, error = take_all(campaign.run(configs), take, progress)
    record = record_of(header, in_order(rows, configs, wanted), interrupted)
    return replace(record, timing=campaign.timing(cpu_seconds())), journal, error


def in_order(
    rows: Sequence[BlockComparison], configs: Sequence[Config], wanted: Plan
) -> list[BlockComparison]:
    """By config, prompt, width and prefix, as the plan has them."""
    config_place = {config.id: i for i, config in enumerate(configs)}
    prompt_place = {prompt.name: i for i, prompt in enumerate(wanted.prompts)}
    prefix_place = {prefix: i for i, prefix in enumerate(wanted.prefixes)}
    return sorted(
        rows,
        key=lambda row: (
            config_place[row.config], prompt_place[row.prompt], row.width,
            prefix_place[row.prefix],
        ),
    )  # fmt: skip
