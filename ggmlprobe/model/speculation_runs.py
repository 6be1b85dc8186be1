"""Prompts times configs generated in every way asked for, and all of them put together."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ggmlprobe.codec import to_dict
from ggmlprobe.dispatch.price import Ratio, Z
from ggmlprobe.model.campaign import context_settings
from ggmlprobe.model.equivalence import mean_length
from ggmlprobe.model.pooling import interval
from ggmlprobe.model.prompts import Prompt, text_hash
from ggmlprobe.model.speculated import Speculated, SpeculationTotal
from ggmlprobe.record import Config, Header, Record, Timing, from_dict
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.model_client import ask
from ggmlprobe.worker.protocol import Event, ModelRequest, ModelSpec
from ggmlprobe.worker.supervisor import Worker

COMPARED = (Verdict.INVARIANT, Verdict.MISMATCH, Verdict.WRONG)


@dataclass(frozen=True)
class Plan:
    """What to generate in every config.

    Attributes:
        n, n_max: tokens of a text, and of a draft. chat: use the model's chat template.
        arm: draft or ngram. draft: the draft model's file. rechecks: margins, 0 for none.
        control, user: whether these arms run. repeats: timed rounds.
    """

    prompts: Sequence[Prompt]
    n: int
    n_max: int
    chat: bool
    arm: str
    draft: str | None
    rechecks: Sequence[float]
    control: bool = True
    user: bool = True
    repeats: int = 3
    ignore_eos: bool = False

    def rows(self, config: Config, prompt: Prompt) -> list[Speculated]:
        """The rows to make of a prompt, still empty."""
        blank = Speculated(
            config.id, prompt.name, prompt.kind, text_hash(prompt.text), self.chat, self.n,
            self.n_max, self.arm, Verdict.INVARIANT, self.draft,
        )  # fmt: skip
        rows = [replace(blank, recheck=margin) for margin in self.rechecks]
        rows += [replace(blank, arm="wrong", draft=None)] * self.control
        return rows + [replace(blank, arm="user", draft=None)] * self.user

    def total(self, configs: int) -> int:
        """Rows in all."""
        return configs * len(self.prompts) * (len(self.rechecks) + self.control + self.user)


Finished = Mapping[tuple[Any, ...], Speculated]
Generate = Callable[[Config, Prompt, list[Speculated]], Iterator[Speculated]]
"""Makes the rows of one prompt, those that died too."""


def run(
    plan: Plan, configs: Sequence[Config], finished: Finished, generate: Generate
) -> Iterator[Speculated]:
    """Every row, those of the journal too; arms of a prompt run together, as they take turns."""
    for config in configs:
        for prompt in plan.prompts:
            rows = plan.rows(config, prompt)
            if all(row.key in finished for row in rows):
                yield from (finished[row.key] for row in rows)
            else:
                yield from generate(config, prompt, rows)


@dataclass
class Children:
    """Generates in child processes.

    Attributes:
        workers: a child for each config id. spec: the target. draft: the second model.
        step: called with config, prompt and event as they go by.
        fault: name of a planted fault in model_speculate.VERIFIERS.
    """

    workers: Mapping[str, Worker]
    spec: ModelSpec
    draft: ModelSpec | None
    plan: Plan
    step: Callable[[Config, Prompt, Event], None] = lambda config, prompt, event: None
    fault: str | None = None
    began: float = field(default_factory=time.perf_counter)
    compute_seconds: float = 0.0
    peak_rss_bytes: int = 0

    def generate(
        self, config: Config, prompt: Prompt, rows: list[Speculated]
    ) -> Iterator[Speculated]:  # fmt: skip
        """One request; what does not come back is a row that says why."""
        args = {
            "blanks": [to_dict(row) for row in rows], "text": prompt.text,
            "context": context_settings(config), "rounds": self.plan.repeats + 1,
            "draft": None if self.draft is None else asdict(self.draft),
            "ignore_eos": self.plan.ignore_eos, "fault": self.fault,
        }  # fmt: skip
        left = list(rows)
        for event in ask(self.workers[config.id], ModelRequest("speculate", self.spec, args)):
            match event["event"]:
                case "begin":
                    self.step(config, prompt, event)
                case "speculated":
                    yield from_dict(Speculated, event["data"])
                    left.pop(0)
                case "failed" | "died":
                    yield from (unfinished(row, event) for row in left)
                    left = []
                case "done":
                    self.compute_seconds += event["compute_seconds"]
                    self.peak_rss_bytes = max(self.peak_rss_bytes, event["peak_rss_bytes"])

    def timing(self, cpu_seconds: float | None) -> Timing:
        """What the run has cost so far."""
        wall = time.perf_counter() - self.began
        return Timing(wall, self.compute_seconds, cpu_seconds, self.peak_rss_bytes or None)


def unfinished(row: Speculated, event: Event) -> Speculated:
    """The row of a text that could not be generated."""
    return replace(
        row, verdict=event["verdict"], detail=event["detail"], signal=event.get("signal"),
        stderr_tail=event.get("stderr", []),
    )  # fmt: skip


def totals(rows: Sequence[Speculated]) -> list[SpeculationTotal]:
    """All prompts of each config, arm and margin together."""
    groups: dict[tuple[str, str, float], list[Speculated]] = {}
    for row in rows:
        if row.verdict in COMPARED:
            groups.setdefault((row.config, row.arm, row.recheck), []).append(row)
    return [total(group) for group in groups.values()]


def total(rows: Sequence[Speculated]) -> SpeculationTotal:
    """Some prompts together."""
    equal = sum(row.verdict == Verdict.INVARIANT for row in rows)
    drafted, accepted, drafts = (
        None if any(value is None for value in values) else sum(v or 0 for v in values)
        for values in zip(*((r.drafted, r.accepted, r.drafts) for r in rows), strict=True)
    )
    ratio = spread([row.ratio for row in rows if row.ratio is not None], rows)
    return SpeculationTotal(
        rows[0].config, rows[0].arm, rows[0].recheck, len(rows), equal,
        *interval(equal, len(rows)), sum(row.tokens for row in rows), drafted, accepted,
        mean_length(drafts, accepted), sum(row.rechecked for row in rows), *ratio,
    )  # fmt: skip


def spread(
    ratios: Sequence[float], rows: Sequence[Speculated]
) -> tuple[float | None, float | None, float | None]:
    """(geometric mean, low, high): of the rounds' errors in these very prompts."""
    if not ratios:
        return None, None, None
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    each = [Ratio(1.0, r.ratio_low, r.ratio_high) for r in rows
            if r.ratio_low is not None and r.ratio_high is not None]  # fmt: skip
    if len(each) < len(ratios):
        return mean, None, None
    errors = [math.log(r.high / r.low) / (2 * Z) for r in each]
    half = Z * math.sqrt(sum(error**2 for error in errors)) / len(errors)
    return mean, mean * math.exp(-half), mean * math.exp(half)


def record_of(header: Header, rows: Sequence[Speculated], interrupted: bool) -> Record:
    """The record of a run."""
    return Record(
        header.schema, header.command, header.configs, header.environment,
        speculated=list(rows), speculation_totals=totals(rows), interrupted=interrupted,
    )  # fmt: skip
