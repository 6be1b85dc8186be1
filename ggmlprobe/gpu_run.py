"""A long run of many commands within a given time, which can go on where it was cut short.

Nothing here starts a process or asks a clock: both are callables, so all of it is tested without.
"""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ggmlprobe.errors import RecordError
from ggmlprobe.gpu_steps import Step
from ggmlprobe.report.table import command_line, pipe_table

FINISHED = (0, 1)
"""Exit statuses of a step that came to its end: all invariant, a finding."""
INTERRUPTED = 130
GRACE = 10.0
"""Seconds a step gets after SIGINT, in which it writes what it has; then SIGKILL."""
LEAST = 5.0
"""Seconds below which no step is begun: the library would hardly be loaded."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: exit status, negative for a signal. said: the last line on stderr, "" for none.
        stop: whether the user wants no more steps.
    """

    status: int
    said: str = ""
    stop: bool = False


@dataclass(frozen=True)
class Attempt:
    """A step that ran, to its end or not.

    Attributes:
        command: as a shell takes it. seconds: of wall time.
    """

    step: str
    command: str
    status: int
    seconds: float
    said: str = ""

    @property
    def cut_short(self) -> bool:
        """Whether it was ended before its end."""
        return self.status in (INTERRUPTED, -signal.SIGKILL)


def load(path: Path) -> list[Attempt]:
    """Earlier attempts, oldest first; a torn last line is left out.

    Raises:
        RecordError: the file is something else.
    """
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        whole = text[: text.rfind("\n") + 1].splitlines()
        return [Attempt(**json.loads(line)) for line in whole]
    except (ValueError, TypeError) as error:
        raise RecordError(f"{path} is no list of steps: name another folder") from error


def dump(attempt: Attempt) -> str:
    """The line of an attempt."""
    return json.dumps(dataclasses.asdict(attempt)) + "\n"


def latest(attempts: Iterable[Attempt]) -> dict[str, Attempt]:
    """The last attempt of each step."""
    return {attempt.step: attempt for attempt in attempts}


def unfinished(
    steps: Sequence[Step], commands: Mapping[str, str], attempts: Iterable[Attempt]
) -> list[Step]:
    """Steps that did not come to their end yet with the very command they have now."""
    done = {(a.step, a.command) for a in attempts if a.status in FINISHED}
    return [step for step in steps if (step.name, commands[step.name]) not in done]


def play(
    steps: Sequence[Step],
    commands: Mapping[str, str],
    seconds: float,
    clock: Callable[[], float],
    run: Callable[[Step, float], Ended],
) -> Iterator[Attempt]:
    """Run steps in order, each for its share of the time; then go on with those cut short.

    Where few steps are left, their shares grow to fill the time.

    Args:
        commands: by step name.
        seconds: for all of them, the grace of the last one included.
        clock: seconds from anywhere.
        run: runs a step with a limit in seconds, after which it ends within `GRACE`.
    """
    end = clock() + seconds - GRACE
    todo, first = list(steps), True
    shares = min(1.0, sum(step.share for step in steps))
    while todo:
        cut = []
        for step in todo:
            began = clock()
            if end - began < LEAST:
                return
            share = max(step.share / shares * seconds, LEAST) if first else seconds
            limit = min(share, end - began)
            ended = run(step, limit)
            took = clock() - began
            yield Attempt(step.name, commands[step.name], ended.status, took, ended.said)
            if ended.stop:
                return
            if ended.status not in FINISHED and took >= limit:
                cut.append(step)
        todo, first = cut, False


def outcome(attempt: Attempt | None) -> str:
    """What came of a step, in words."""
    if attempt is None:
        return "not reached"
    if attempt.status in FINISHED:
        return "findings" if attempt.status else "all invariant"
    if attempt.cut_short:
        return "cut short: rows are missing"
    return "failed"


def summary(steps: Sequence[Step], attempts: Sequence[Attempt], about: Sequence[str]) -> str:
    """Markdown: every step with what came of it, its command, status, time and last words.

    Args:
        attempts: oldest first; the times of one step are added up.
        about: lines on the machine.
    """
    last = latest(attempts)
    rows = [(step, last.get(step.name)) for step in steps]
    total = {step.name: sum(a.seconds for a in attempts if a.step == step.name) for step in steps}
    columns = {
        "step": [step.name for step, _ in rows],
        "outcome": [outcome(attempt) for _, attempt in rows],
        "exit status": [str(a.status) if a else "-" for _, a in rows],
        "seconds": [f"{total[step.name]:.0f}" if a else "-" for step, a in rows],
        "command": [command_line(a.command) if a else "-" for _, a in rows],
        "said": [command_line(a.said) if a and a.status == 2 else "-" for _, a in rows],
    }
    lines = "".join(f"- {line}\n" for line in [*about, conclusion(steps, attempts)])
    return f"# gpu-run\n\n{lines}\n{pipe_table(columns)}\n"


def conclusion(steps: Sequence[Step], attempts: Iterable[Attempt]) -> str:
    """How many steps came to their end, and which did not."""
    last = latest(attempts)
    left = [s.name for s in steps if s.name not in last or last[s.name].status not in FINISHED]
    rest = f"; not finished: {', '.join(left)}" if left else ""
    return f"{len(steps) - len(left)} of {len(steps)} steps finished{rest}"


def exit_status(steps: Sequence[Step], attempts: Iterable[Attempt]) -> int:
    """2 where a step failed or none has run, else 1 where one has a finding, else 0."""
    last = latest(attempts)
    mine = [last[step.name] for step in steps if step.name in last]
    if not mine or any(a.status not in FINISHED and not a.cut_short for a in mine):
        return 2
    return int(any(a.status == 1 for a in mine))
