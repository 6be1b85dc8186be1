"""Two configs of the same cases against each other in time, with a twin of the first as the null.

Each side is a child process with its own library. All three hold the case in memory and take turns,
A, B, A', A', B, A, A, ..., so that what changes on the machine changes for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ggmlprobe.caserun import CaseRun
from ggmlprobe.dispatch.price import paired
from ggmlprobe.record import Config, Slowdown, TimeStats
from ggmlprobe.runner import Case
from ggmlprobe.worker.protocol import Event, Request
from ggmlprobe.worker.supervisor import Worker

Measured = dict[int, dict[str, Any]]
"""Fields of record.Result by width."""

NOT_MEASURED = "not measured"


def request(
    config: Config, case: Case, widths: Sequence[int], seeds: Sequence[int], hot: bool
) -> Request:
    """The timing of a case's widths in turns, without the verdicts.

    Args:
        widths: those to time; the tokens are those of the case's widest width all the same.
    """
    run = CaseRun(config, case.op_name, case.op, case.widths, tuple(seeds[:1]), None, ("time",))
    made = run.request(None, hot)
    done = [(seed, width) for seed in made.seeds for width in made.widths]
    return replace(made, done=done, pass_widths=list(widths), turns=True)


class Player:
    """A child that waits for its turn before each round.

    Attributes:
        waits: whether it does now; False once it has ended.
        planned: rounds it would run by itself.
        measured: what it told at its end.
    """

    def __init__(self, worker: Worker, request: Request) -> None:
        self.worker = worker
        self.waits, self.planned = False, 0
        self.measured: Measured = {}
        self._widths = request.pass_widths
        self._events = worker.run(request)

    def advance(self) -> None:
        """Take what it says, up to its next turn or its end."""
        self.waits = False
        for event in self._events:
            if event["event"] == "turn":
                self.waits, self.planned = True, event["planned"]
                return
            self._take(event)

    def play(self, more: bool) -> None:
        """Let it time a round, or end."""
        if self.waits:
            self.worker.answer(more)
            self.advance()

    def _take(self, event: Event) -> None:
        if event["event"] == "measured":
            self.measured[event["width"]] = event["data"]
        elif event["event"] in ("failed", "died"):
            why = event.get("detail") or event.get("signal") or event["verdict"]
            for width in self._widths:
                self.measured.setdefault(width, {"time": None, "time_note": why})


def take_turns(players: Sequence[Player], rounds: int | None = None) -> None:
    """Run all players to their end, in an order that is a palindrome over two rounds.

    The next two rounds begin with the next player, so that none follows directly on itself, on
    caches it has just filled, more often than another.

    Args:
        rounds: made even; by default what the player with the longest plan would run by itself.
    """
    for player in players:
        player.advance()
    rounds = rounds or max(player.planned for player in players)
    for done in range(rounds + rounds % 2):
        # without all of them nothing can be compared
        if not all(player.waits for player in players):
            break
        first = done // 2 % len(players)
        order = [*players[first:], *players[:first]]
        for player in order if done % 2 == 0 else reversed(order):
            player.play(True)
    for player in players:
        player.play(False)


def compare(
    sides: Mapping[str, tuple[Worker, Request]], case: str, rounds: int | None = None
) -> tuple[dict[str, Measured], list[Slowdown]]:
    """Time a case on all sides.

    Args:
        sides: `a`, `b` and `null`, each with a child of its own.
        rounds: see `take_turns`.

    Returns:
        What each side measured, and a comparison of each width that all of them timed.
    """
    players = {name: Player(*side) for name, side in sides.items()}
    take_turns(list(players.values()), rounds)
    measured = {name: player.measured for name, player in players.items()}
    return measured, list(_comparisons(measured, case))


def _comparisons(measured: Mapping[str, Measured], case: str) -> Iterator[Slowdown]:
    for width in measured["a"]:
        times = {name: stats(data.get(width, {})) for name, data in measured.items()}
        a, b, null = times["a"], times["b"], times["null"]
        if a and b and null and a.repeats == b.repeats == null.repeats > 1:
            slower, low, high = paired(b.samples, a.samples)
            twin, null_low, null_high = paired(null.samples, a.samples)
            yield Slowdown(case, width, slower, low, high, twin, null_low, null_high)


def stats(data: Mapping[str, Any]) -> TimeStats | None:
    """The times among a row's fields."""
    return TimeStats(**data["time"]) if data.get("time") else None
