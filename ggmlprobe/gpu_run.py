"""A long run of many commands within a given time, which can go on where it was cut short.

Nothing here starts a process or asks a clock: both are callables, so all of it is tested without.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ggmlprobe.errors import RecordError
from ggmlprobe.gpu_steps import Step
from ggmlprobe.report.table import command_line, pipe_table

FINISHED = (0, 1)
"""Exit statuses of a step that came to its end: all invariant, a finding."""
FAILED = 2
UNFINISHED = 3
"""Exit status of a run that has no finding so far, but steps that did not come to their end."""
INTERRUPTED = 130
KILLED = -9
"""What subprocess tells of SIGKILL, which Windows does not have."""
GRACE = 10.0
"""Seconds a step gets after SIGINT, in which it writes what it has; then SIGKILL."""
LEAST = 5.0
"""Seconds below which no step is begun: the library would hardly be loaded."""


@dataclass(frozen=True)
class Setup:
    """What all steps of a folder run with.

    Attributes:
        device: name. description: of the device.
        lib: where the library was found. identity: of its files, which a rebuild changes.
        threads: of the CPU.
    """

    device: str
    description: str
    lib: str
    identity: str | None
    threads: int

    def other_than(self, wanted: Setup) -> str:
        """What differs from what is wanted, with the values here; "" for nothing."""
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(wanted)
        return ", ".join(f"{name} {mine[name]}" for name in mine if mine[name] != theirs[name])


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: exit status, negative for a signal. said: the last line on stderr, "" for none.
        finding: whether the rows hold one though the step did not come to its end.
        stop: whether the user wants no more steps.
    """

    status: int
    said: str = ""
    finding: bool = False
    stop: bool = False


@dataclass(frozen=True)
class Attempt:
    """A step that ran, to its end or not.

    Attributes:
        args: of the step, which tell it from one of that name in another version.
        command: as a shell takes it, with options and files. seconds: of wall time.
        finding: as in `Ended`.
    """

    step: str
    args: str
    command: str
    status: int
    seconds: float
    said: str = ""
    finding: bool = False

    @property
    def cut_short(self) -> bool:
        """Whether it was ended before its end."""
        return self.status in (INTERRUPTED, KILLED)


def load(path: Path) -> tuple[Setup | None, list[Attempt]]:
    """What a folder's steps ran with, None without a file, and its attempts, oldest first.

    A torn last line is left out.

    Raises:
        RecordError: the file is something else.
    """
    if not path.exists():
        return None, []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        first, *rest = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        return Setup(**first), [Attempt(**each) for each in rest]
    except (OSError, ValueError, TypeError) as error:
        raise RecordError(f"{path} is no list of steps: name another folder") from error


def dump(setup: Setup, attempts: Iterable[Attempt]) -> str:
    """The text that `load` reads."""
    lines = [dataclasses.asdict(setup), *map(dataclasses.asdict, attempts)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def latest(steps: Iterable[Step], attempts: Iterable[Attempt]) -> dict[str, Attempt]:
    """The last attempt of each step, by name; none that had other arguments."""
    args = {step.name: step.line for step in steps}
    return {each.step: each for each in attempts if args.get(each.step) == each.args}


def unfinished(steps: Sequence[Step], attempts: Iterable[Attempt]) -> list[Step]:
    """Steps that did not come to their end yet."""
    last = latest(steps, attempts)
    return [s for s in steps if s.name not in last or last[s.name].status not in FINISHED]


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
            yield Attempt(
                step.name, step.line, commands[step.name], ended.status, took, ended.said,
                ended.finding,
            )  # fmt: skip
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
        return "cut short: rows are missing" + ("; findings so far" if attempt.finding else "")
    return "failed"


def summary(steps: Sequence[Step], attempts: Sequence[Attempt], about: Sequence[str]) -> str:
    """Markdown: every step with what came of it, its command, status, time and last words.

    Args:
        attempts: oldest first; the times of one step are added up.
        about: lines on the machine.
    """
    last = latest(steps, attempts)
    rows = [(step, last.get(step.name)) for step in steps]
    total = {
        name: sum(a.seconds for a in attempts if (a.step, a.args) == (name, end.args))
        for name, end in last.items()
    }
    columns = {
        "step": [step.name for step, _ in rows],
        "outcome": [outcome(attempt) for _, attempt in rows],
        "exit status": [str(a.status) if a else "-" for _, a in rows],
        "seconds": [f"{total[step.name]:.0f}" if a else "-" for step, a in rows],
        "command": [command_line(a.command) if a else "-" for _, a in rows],
        "said": [command_line(a.said) if a and a.status == FAILED else "-" for _, a in rows],
    }
    lines = "".join(f"- {line}\n" for line in [*about, conclusion(steps, attempts)])
    return f"# gpu-run\n\n{lines}\n{pipe_table(columns)}\n"


def conclusion(steps: Sequence[Step], attempts: Iterable[Attempt]) -> str:
    """How many steps came to their end, and which did not."""
    left = [step.name for step in unfinished(steps, attempts)]
    rest = f"; not finished: {', '.join(left)}" if left else ""
    return f"{len(steps) - len(left)} of {len(steps)} steps finished{rest}"


def exit_status(steps: Sequence[Step], attempts: Sequence[Attempt]) -> int:
    """Of the whole run, the first of these that holds.

    2 a step failed, 1 a finding, 2 no step came to its end, 0 all did, else 3.
    """
    last = latest(steps, attempts).values()
    if any(each.status not in FINISHED and not each.cut_short for each in last):
        return FAILED
    if any(each.status == 1 or each.finding for each in last):
        return 1
    left = len(unfinished(steps, attempts))
    if left == len(steps):
        return FAILED
    return UNFINISHED if left else 0
