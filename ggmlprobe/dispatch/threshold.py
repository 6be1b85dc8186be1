"""Arms side by side: widths each can serve, those it is proven to, and their times in turns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ggmlprobe.dispatch.ab import Player, request, stats, take_turns
from ggmlprobe.dispatch.arms import Arm
from ggmlprobe.dispatch.proof import claimed_only, judged
from ggmlprobe.record import CaseClasses, Config, Result, Row
from ggmlprobe.runner import Case, Runner
from ggmlprobe.verdict import Verdict

Key = tuple[str, str, int]


@dataclass
class Trial:
    """Runs cases with every arm; the first config is the library's own choice.

    Attributes:
        arms: by config id; the own choice has none.
        files: the library's files that are loaded.
        timed: whether to time what is proven. hot: with weights that a cache may hold.
    """

    arms: Mapping[str, Arm]
    files: Sequence[str]
    timed: bool = True
    hot: bool = False

    def drive(
        self, runner: Runner, configs: Sequence[Config], cases: Sequence[Case]
    ) -> Iterator[Row]:
        """Rows of every case; those of a case once more when it has been timed."""
        began = time.perf_counter()
        runner.finished = {**self.refusals(cases), **runner.finished}
        for case in cases:
            rows: dict[Key, Result] = {}
            for row in self._verdicts(runner, configs, case):
                if isinstance(row, Result):
                    rows[row.key] = row
                yield row
            if self.timed:
                yield from self._times(runner, configs, case, rows)
            runner.wall_seconds = time.perf_counter() - began

    def refusals(self, cases: Sequence[Case]) -> dict[Key, Result]:
        """A row for each width that an arm cannot serve, with the reason: it is never run."""
        rows = [
            Result(
                config=config, case=case.op.case(), upstream_case=case.op.upstream_case(width),
                op=case.op.OP, params=case.op.params(), width=width,
                verdict=str(Verdict.UNSUPPORTED), detail=why,
            )
            for config, arm in self.arms.items() for case in cases for width in case.widths
            if (why := arm.refusal(case.op, width, self.files)) is not None
        ]  # fmt: skip
        return {row.key: row for row in rows}

    def _verdicts(self, runner: Runner, configs: Sequence[Config], case: Case) -> Iterator[Row]:
        """Rows and classes of a case in every config, without what is not proven."""
        own: dict[int, Result] = {}
        for config in configs:
            arm = self.arms.get(config.id)
            rows: list[Result] = []
            for row in runner.run([config], [case]):
                if isinstance(row, CaseClasses):
                    yield claimed_only(row, rows)
                    continue
                rows.append(judged(row, arm, own))
                if arm is None:
                    own[row.width] = row
                yield rows[-1]

    def _times(
        self, runner: Runner, configs: Sequence[Config], case: Case, rows: Mapping[Key, Result]
    ) -> Iterator[Result]:
        """Rows with times, of the widths about which something is claimed."""
        players: dict[str, Player] = {}
        for config in configs:
            mine = [row for row in rows.values() if row.config == config.id]
            widths = sorted(row.width for row in mine if row.seeds and row.time is None)
            if widths:
                asked = request(config, case, widths, runner.seeds, self.hot)
                players[config.id] = Player(runner.workers[config.id], asked)
        if players:
            take_turns(list(players.values()))
        for name, player in players.items():
            for width, data in player.measured.items():
                row = rows[name, case.op.case(), width]
                yield replace(row, time=stats(data), time_note=data.get("time_note"))
