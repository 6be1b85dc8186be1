"""Bisection of a case along an axis: the width, threads, or a parameter of the op.

On the width axis one case runs at ever more widths and the width classes are compared. On the
thread axis the same widths run with other thread counts, and their bits are compared. A parameter
changes the inputs, so there the verdicts and class letters at the given widths are compared.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ggmlprobe.caserun import CaseRun
from ggmlprobe.classes import Classes, letters
from ggmlprobe.dispatch.bisect import LIMIT, Found, step_start, wanted, width_start
from ggmlprobe.errors import UsageError
from ggmlprobe.ops.attention import N_KV_PAD
from ggmlprobe.record import AxisRun, Bisection, CaseClasses, Config, Row
from ggmlprobe.runner import Case, Runner
from ggmlprobe.verdict import Verdict, worst

FIELDS = {"m": "m", "k": "k", "kv": "cells"}
"""Axes that are a parameter: name to the field of the op's dataclass."""

AXES = ("width", "threads", *FIELDS)
NO_CLASS = "-"
SERIAL_CLASS = "A"


@dataclass(frozen=True)
class Axis:
    """What to bisect.

    Attributes:
        name: one of AXES. first, last: its ends.
        step: distance of its values; None for 1, for kv 256, for k the block size of the types.
        exhaustive: run every value.
    """

    name: str
    first: int
    last: int
    step: int | None = None
    exhaustive: bool = False

    def step_for(self, case: Case, blocks: Mapping[str, int]) -> int:
        """Distance of the values for a case, by the block sizes of the types."""
        default = {"kv": N_KV_PAD}.get(self.name, 1)
        if self.name == "k":
            default = math.lcm(*(blocks.get(name, 1) for name, _ in case.op.rows()))
        return self.step or default

    def values(self, step: int) -> list[int]:
        """Multiples of the step from first to last.

        Raises:
            UsageError: there is none.
        """
        made = list(range(-(-self.first // step) * step, self.last + 1, step))
        if not made:
            raise UsageError(
                f"no multiple of {step} from {self.first} to {self.last}: "
                "give another --from, --to or --step"
            )
        return made

    def start(self, values: Sequence[int], step: int) -> list[int]:
        """The values to run first."""
        if self.exhaustive:
            return list(values)
        return step_start(values, step) if self.name in FIELDS else width_start(values)

    @property
    def limit(self) -> int | None:
        """The most values to run."""
        return None if self.exhaustive else LIMIT


def check_axis(axis: Axis, fields: set[str], op_name: str) -> None:
    """Refuse an axis the op does not have, or one that runs backwards.

    Args:
        fields: of the op's dataclass.

    Raises:
        UsageError: one line.
    """
    there = [name for name in AXES if FIELDS.get(name, name) in {*fields, "width", "threads"}]
    if axis.name not in there:
        raise UsageError(f"{op_name} has no axis {axis.name}: it has {', '.join(there)}")
    if axis.last < axis.first:
        raise UsageError(f"--to {axis.last} is below --from {axis.first}")


def bisect(
    runner: Runner,
    configs: Sequence[Config],
    cases: Sequence[Case],
    axis: Axis,
    blocks: Mapping[str, int],
) -> Iterator[Row]:
    """Rows of every case as they finish; after each case its runs and its bisection.

    Args:
        configs: axis threads: one for each thread count, each of the others with all of them.
        blocks: block size by type.
    """
    number = 0
    for place in _settings(configs, axis):
        for case in cases:
            step = axis.step_for(case, blocks)
            values = axis.values(step)
            if axis.name == "width":
                search = _widths(runner, place[0], case, axis, values)
            else:
                search = _cases(runner, _placing(place, case, axis), axis, values, step)
            yield from _told(search, f"b{number}", axis, step, case)
            number += 1


def _settings(configs: Sequence[Config], axis: Axis) -> list[list[Config]]:
    """Configs that are bisected together: those that differ in threads alone, or each alone."""
    if axis.name != "threads":
        return [[config] for config in configs]
    alike: dict[Hashable, list[Config]] = {}
    for config in configs:
        alike.setdefault((config.buft, *sorted(config.env.items())), []).append(config)
    return list(alike.values())


Place = Callable[[int], tuple[Config, Case]]


def _placing(configs: Sequence[Config], case: Case, axis: Axis) -> Place:
    """Value on the axis to the config and case it is."""
    if axis.name == "threads":
        by_threads = {config.threads: config for config in configs}
        return lambda value: (by_threads[value], case)
    return lambda value: (configs[0], moved(case, axis, value))


def moved(case: Case, axis: Axis, value: int) -> Case:
    """The case with another value of the parameter that is the axis."""
    op: Any = case.op
    return dataclasses.replace(case, op=dataclasses.replace(op, **{FIELDS[axis.name]: value}))


@dataclass
class Searched:
    """What a search leaves: the values of the axis, their letters, and the run of each."""

    found: Found
    runs: dict[int, CaseRun]
    transitive: bool = True


Search = Iterator[Row | Searched]


def _widths(
    runner: Runner, config: Config, case: Case, axis: Axis, values: Sequence[int]
) -> Search:
    """One case at ever more widths; width 1 is the serial reference and always runs."""
    run = runner.begin(config, case)
    start, found, classes = axis.start(values, 1), dict[int, str](), None
    while new := wanted(values, start, found, axis.limit):
        run.extend([1, *new])
        yield from runner.advance(run)
        classes = run.classes()
        every = width_letters(run, classes)
        found = {value: every[value] for value in values if value in every}
    if classes is not None:
        yield classes
    transitive = classes is None or classes.transitive
    yield Searched(Found(tuple(values), found), dict.fromkeys(found, run), transitive)


def width_letters(run: CaseRun, classes: CaseClasses | None) -> dict[int, str]:
    """Class letter of every width that ran; its verdict where it is in no class."""
    groups = classes.groups if classes else []
    named = Classes(groups, True, [])
    grouped = {width for group in groups for width in group}
    return {
        width: named.letter(width) if width in grouped else row.verdict
        for width, row in sorted(run.results.items())
    }


def _cases(runner: Runner, place: Place, axis: Axis, values: Sequence[int], step: int) -> Search:
    """A case, or a config, for each value."""
    start = axis.start(values, step)
    same = _bits if axis.name == "threads" else _behaviour
    runs: dict[int, CaseRun] = {}
    found: dict[int, str] = {}
    while new := wanted(values, start, found, axis.limit):
        for value in new:
            runs[value] = runner.begin(*place(value))
            yield from runner.advance(runs[value])
            if (classes := runs[value].classes()) is not None:
                yield classes
        found = _named({value: same(runs[value]) for value in sorted(runs)})
    yield Searched(Found(tuple(values), found), dict(sorted(runs.items())))


def _bits(run: CaseRun) -> Hashable:
    """What two thread counts are compared by: hashes of every width, or why there are none."""
    return tuple(
        tuple(tuple(seed.hashes) for seed in row.seeds) or row.verdict
        for _, row in sorted(run.results.items())
    )


def _behaviour(run: CaseRun) -> Hashable:
    """What two values of a parameter are compared by: verdict and class letter of every width."""
    named = width_letters(run, run.classes())
    return tuple((width, run.results[width].verdict, named[width]) for width in named)


def _named(behaviours: Mapping[int, Hashable]) -> dict[int, str]:
    """A letter for each behaviour, in the order they first appear."""
    order = list(dict.fromkeys(behaviours.values()))
    return {value: letters(order.index(each)) for value, each in behaviours.items()}


def _told(search: Search, id: str, axis: Axis, step: int, case: Case) -> Iterator[Row]:
    """The search's rows, then its outcome as rows of the record."""
    for row in search:
        if not isinstance(row, Searched):
            yield row
            continue
        for value, letter in row.found.letters.items():
            yield _axis_run(id, axis, value, letter, row.runs[value])
        first = next(iter(row.runs.values()))
        widths = [] if axis.name == "width" else list(case.widths)
        yield _bisection(id, axis, step, row, first, widths)


def _axis_run(id: str, axis: Axis, value: int, letter: str, run: CaseRun) -> AxisRun:
    """One value's row."""
    if axis.name == "width":
        verdict, classes = run.results[value].verdict, []
    else:
        verdict = str(worst(Verdict(row.verdict) for row in run.results.values()))
        every = width_letters(run, run.classes())
        classes = [NO_CLASS if each in set(Verdict) else each for each in every.values()]
    return AxisRun(id, value, run.config.id, run.case, letter, verdict, classes)


def _bisection(
    id: str, axis: Axis, step: int, searched: Searched, run: CaseRun, widths: list[int]
) -> Bisection:
    """What was found, as a row of the record."""
    found = searched.found
    reference = SERIAL_CLASS if axis.name == "width" else found.letters[found.values[0]]
    return Bisection(
        id=id, axis=axis.name, config=run.config.id, case=run.case, first=found.values[0],
        last=found.values[-1], step=step, exhaustive=axis.exhaustive, values=len(found.values),
        runs=len(found.letters), widths=widths,
        boundaries=[list(pair) for pair in found.boundaries],
        unsettled=[list(pair) for pair in found.unsettled],
        assumed=[list(pair) for pair in found.assumed],
        first_differing=found.first_other(reference, Verdict.UNSUPPORTED),
        returning=found.returning,
        periods=[[p.length, p.first, p.last] for p in found.periods],
        transitive=searched.transitive,
    )  # fmt: skip
