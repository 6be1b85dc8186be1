"""Many cases in many configs: rows as they finish, and the record of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ggmlprobe.caserun import CaseRun
from ggmlprobe.ops.base import Op
from ggmlprobe.record import CaseClasses, Config, Result, Timing
from ggmlprobe.worker.supervisor import Worker


@dataclass(frozen=True)
class Case:
    """An op with the widths to run it at.

    Attributes:
        op_name: its name in ops.OPS.
        tokens: how many there are, for widths yet to come; None for as many as the widest width.
    """

    op_name: str
    op: Op
    widths: tuple[int, ...]
    tokens: int | None = None

    @property
    def widest(self) -> int:
        """Tokens of the case."""
        return self.tokens or max(self.widths)


@dataclass
class Runner:
    """Runs cases and hands out rows as they finish.

    Attributes:
        workers: a child process for each config id.
        seeds: in order; the first makes the weights.
        finished: rows of a journal that need not be run again, by Result.key.
        check: see checks.CHECKS. fault: see faults.FAULTS.
        passes: see dispatch.passes. hot: time on one set of weights.
        started: called with each case that is about to run.
    """

    workers: Mapping[str, Worker]
    seeds: Sequence[int]
    finished: Mapping[tuple[str, str, int], Result] = field(default_factory=dict)
    check: str | None = None
    fault: str | None = None
    passes: tuple[str, ...] = ()
    hot: bool = False
    started: Callable[[Config, Case], None] = lambda config, case: None
    wall_seconds: float = 0.0
    compute_seconds: float = 0.0
    peak_rss_bytes: int = 0
    _began: float | None = None

    def run(
        self, configs: Sequence[Config], cases: Sequence[Case]
    ) -> Iterator[Result | CaseClasses]:
        """Rows of every case in every config; a case's classes after its last row."""
        for config in configs:
            for case in cases:
                run = self.begin(config, case)
                yield from self.advance(run)
                if (classes := run.classes()) is not None:
                    yield classes

    def begin(self, config: Config, case: Case) -> CaseRun:
        """A case in a config; other environments' children would hold memory for nothing."""
        for other in self.workers.values():
            if other is not self.workers[config.id]:
                other.stop()
        self.started(config, case)
        if self._began is None:
            self._began = time.perf_counter()
        return CaseRun(
            config, case.op_name, case.op, case.widths, tuple(self.seeds), self.check,
            self.passes, case.tokens,
        )  # fmt: skip

    def advance(self, run: CaseRun) -> Iterator[Result]:
        """Rows of the case's widths that have none: from the journal, then by running."""
        had = set(run.results)
        run.take_finished(self.finished)
        yield from [row for width, row in run.results.items() if width not in had]
        worker = self.workers[run.config.id]
        while run.pending():
            for event in worker.run(run.request(self.fault, self.hot)):
                yield from run.take(event)
                if event["event"] == "done":
                    self.compute_seconds += event["compute_seconds"]
                    self.peak_rss_bytes = max(self.peak_rss_bytes, event["peak_rss_bytes"])
        if self._began is not None:
            self.wall_seconds = time.perf_counter() - self._began

    def timing(self, cpu_seconds: float | None) -> Timing:
        """What the run has cost so far."""
        return Timing(
            wall_seconds=self.wall_seconds, compute_seconds=self.compute_seconds,
            cpu_seconds=cpu_seconds, peak_rss_bytes=self.peak_rss_bytes or None,
        )  # fmt: skip
