"""Prompts times widths times configs: asks the children, hands out comparisons as they finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ggmlprobe.codec import to_dict
from ggmlprobe.model.prompts import Prompt, text_hash
from ggmlprobe.model.record import BlockComparison, ModelSettings
from ggmlprobe.record import Config, Timing, from_dict
from ggmlprobe.verdict import Verdict
from ggmlprobe.worker.model_client import ask
from ggmlprobe.worker.protocol import Event, ModelRequest, ModelSpec
from ggmlprobe.worker.supervisor import Worker

Todo = list[tuple[int, str]]
Finished = Mapping[tuple[Any, ...], BlockComparison]


@dataclass(frozen=True)
class Plan:
    """What to compare in every config.

    Attributes:
        prompts: by name. widths: ascending. prefixes: of model.compare.PREFIXES.
        n: tokens to generate. chat: put prompts into the model's chat template.
        near_tie: margin of a near-tie. cells: keep every cell.
    """

    prompts: Sequence[Prompt]
    widths: Sequence[int]
    prefixes: Sequence[str]
    n: int
    chat: bool
    near_tie: float
    cells: bool = False

    def blank(self, config: Config, prompt: Prompt) -> BlockComparison:
        """What all comparisons of a prompt share."""
        return BlockComparison(
            config.id, prompt.name, prompt.kind, text_hash(prompt.text), self.chat, self.n,
            self.widths[0], self.prefixes[0], Verdict.INVARIANT,
        )  # fmt: skip

    def rows(self, config: Config, prompt: Prompt) -> list[BlockComparison]:
        """The comparisons to make of a prompt, still empty."""
        blank = self.blank(config, prompt)
        return [replace(blank, width=w, prefix=p) for w in self.widths for p in self.prefixes]

    def settles(self, row: BlockComparison | None) -> bool:
        """Whether a comparison of an earlier run is what this plan would make."""
        if row is None or not row.cells:
            return row is not None
        kept = row.cell_values is not None or not self.cells
        return row.near_tie == self.near_tie and kept

    def total(self, configs: int) -> int:
        """Comparisons in all."""
        return configs * len(self.prompts) * len(self.widths) * len(self.prefixes)


def context_settings(config: Config) -> dict[str, Any]:
    """What a context is made with."""
    model = config.model
    assert isinstance(model, ModelSettings)
    return {
        "n_ubatch": model.n_ubatch, "threads": config.threads,
        "threads_batch": config.threads_batch, "fa": model.fa, "type_k": model.type_k,
        "type_v": model.type_v,
    }  # fmt: skip


@dataclass
class Campaign:
    """Runs a plan.

    Attributes:
        workers: a child for each config id. spec: the model.
        finished: comparisons of a journal, by key.
        step: called with config, prompt and window as they go by.
    """

    workers: Mapping[str, Worker]
    spec: ModelSpec
    plan: Plan
    finished: Finished = field(default_factory=dict)
    step: Callable[[Config, Prompt, Event], None] = lambda config, prompt, event: None
    wall_seconds: float = 0.0
    compute_seconds: float = 0.0
    peak_rss_bytes: int = 0

    def run(self, configs: Sequence[Config]) -> Iterator[BlockComparison]:
        """Every comparison, those of the journal too."""
        began = time.perf_counter()
        for config in configs:
            for other in self.workers.values():
                if other is not self.workers[config.id]:
                    other.stop()
            for prompt in self.plan.prompts:
                yield from self._prompt(config, prompt)
                self.wall_seconds = time.perf_counter() - began

    def _prompt(self, config: Config, prompt: Prompt) -> Iterator[BlockComparison]:
        rows = {(row.width, row.prefix): row for row in self.plan.rows(config, prompt)}
        # a width's prefixes are compared with each other, so they run together
        settled = self.plan.settles
        missing = {r.width for r in rows.values() if not settled(self.finished.get(r.key))}
        yield from (self.finished[row.key] for row in rows.values() if row.width not in missing)
        todo = [place for place in rows if place[0] in missing]
        while todo:
            yield from self._ask(config, prompt, rows, todo)

    def _ask(
        self, config: Config, prompt: Prompt, rows: Mapping[tuple[int, str], BlockComparison],
        todo: Todo,
    ) -> Iterator[BlockComparison]:  # fmt: skip
        """One request; takes from `todo` what is settled, which is at least one width."""
        args = {
            "blank": to_dict(self.plan.blank(config, prompt)), "text": prompt.text,
            "todo": list(todo), "context": context_settings(config),
            "near_tie": self.plan.near_tie, "cells": self.plan.cells,
        }  # fmt: skip
        for event in ask(self.workers[config.id], ModelRequest("compare", self.spec, args)):
            match event["event"]:
                case "begin":
                    self.step(config, prompt, event)
                case "comparison":
                    made = from_dict(BlockComparison, event["data"])
                    todo.remove((made.width, made.prefix))
                    yield made
                case "failed" | "died":
                    blamed = [p for p in todo if event["width"] in (None, p[0])]
                    for place in blamed:
                        todo.remove(place)
                        yield unfinished(rows[place], event)
                case "done":
                    self.compute_seconds += event["compute_seconds"]
                    self.peak_rss_bytes = max(self.peak_rss_bytes, event["peak_rss_bytes"])

    def timing(self, cpu_seconds: float | None) -> Timing:
        """What the run has cost so far."""
        return Timing(
            self.wall_seconds, self.compute_seconds, cpu_seconds, self.peak_rss_bytes or None
        )


def unfinished(row: BlockComparison, event: Event) -> BlockComparison:
    """The row of a comparison that could not be made."""
    return replace(
        row, verdict=event["verdict"], detail=event["detail"], signal=event.get("signal"),
        stderr_tail=event.get("stderr", []),
    )  # fmt: skip
