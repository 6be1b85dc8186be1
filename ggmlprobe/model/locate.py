"""Where two graphs part: nodes whose inputs agree and outputs do not, and the way to the logits.

Pure: it sees names, inputs and a hash per token of nodes on record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A node that both graphs have.

    Attributes:
        inputs: places of earlier steps it is computed from.
        reads: memory beyond the graph, such as a cache, that it looks at. writes: one it writes.
        single: a hash per token from the runs of one token, None where it was not compared: such
            a node agrees where its inputs do. block: the same from the block.
    """

    name: str
    inputs: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    writes: str = ""
    single: tuple[str, ...] | None = None
    block: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Found:
    """A step whose bits differ.

    Attributes:
        step: its place. tokens: those that differ.
        culprit: those of them whose inputs all agree.
        reaches: whether the difference goes on to the last step.
    """

    step: int
    tokens: list[int]
    culprit: list[int]
    reaches: bool = False


@dataclass(frozen=True)
class Trail:
    """What differs between the graphs.

    Attributes:
        found: steps that differ, in order; the first one is where it begins.
        way: places from the first culprit that reaches the last step to there, the fewest there
            can be; empty where none does.
    """

    found: list[Found]
    way: list[int]

    @property
    def culprits(self) -> list[Found]:
        """Steps whose inputs agree in a token in which their output differs."""
        return [each for each in self.found if each.culprit]


Spot = tuple[int, int]
"""A step and a token of it."""


class Agreement:
    """Which tokens of each step agree, and what each was made of."""

    def __init__(self, steps: Sequence[Step], width: int) -> None:
        """Compare all steps."""
        self.steps, self.width = steps, width
        self.agree: list[list[bool]] = []
        self.fed: list[list[bool]] = []
        self._read: list[list[int]] = []
        writers: dict[str, list[int]] = {}
        for place, step in enumerate(steps):
            self._read.append([w for state in step.reads for w in writers.get(state, [])])
            self._compare(place)
            if step.writes:
                writers.setdefault(step.writes, []).append(place)

    def _compare(self, place: int) -> None:
        step = self.steps[place]
        self.fed.append(
            [all(self.agree[i][u] for i, u in self.behind((place, t))) for t in range(self.width)]
        )
        if step.single is None or step.block is None:
            self.agree.append(self.fed[place])
        else:
            self.agree.append([a == b for a, b in zip(step.single, step.block, strict=True)])

    def behind(self, spot: Spot) -> list[Spot]:
        """What a token of a step is made of: it sees what earlier tokens have written, too."""
        place, token = spot
        direct = [(i, token) for i in self.steps[place].inputs]
        return direct + [(w, t) for w in self._read[place] for t in range(token + 1)]

    def differing(self, place: int) -> list[int]:
        """Tokens of a step that do not agree."""
        return [t for t in range(self.width) if not self.agree[place][t]]

    def ahead(self) -> dict[Spot, Spot]:
        """For all that reaches the last step by what differs, the next on the shortest way."""
        last = len(self.steps) - 1
        queue: deque[Spot] = deque((last, t) for t in self.differing(last))
        found = {spot: spot for spot in queue}
        while queue:
            spot = queue.popleft()
            for earlier in self.behind(spot):
                if earlier not in found and not self.agree[earlier[0]][earlier[1]]:
                    found[earlier] = spot
                    queue.append(earlier)
        return found


def locate(steps: Sequence[Step], width: int) -> Trail:
    """Follow differences through the graph.

    Args:
        steps: in the order they are computed; the last one gives the logits.
        width: tokens of the block.
    """
    made = Agreement(steps, width)
    ahead = made.ahead() if steps else {}
    found: list[Found] = []
    way: list[int] = []
    for place, step in enumerate(steps):
        tokens = made.differing(place)
        if step.single is None or not tokens:
            continue
        culprit = [t for t in tokens if made.fed[place][t]]
        found.append(Found(place, tokens, culprit, any((place, t) in ahead for t in tokens)))
        start = next(((place, t) for t in culprit if (place, t) in ahead), None)
        if start is not None and not way:
            way = _follow(ahead, start)
    return Trail(found, way)


def _follow(ahead: dict[Spot, Spot], start: Spot) -> list[int]:
    """Places of the steps from a spot on."""
    made, spot = [start[0]], start
    while ahead[spot] != spot:
        spot = ahead[spot]
        made.append(spot[0])
    return made


def first_differing(count: int, differs: Callable[[int], bool | None]) -> int | None:
    """Find a place that differs and whose predecessor does not, with one run per question.

    Args:
        count: places. differs: None where that place cannot be watched without changing the bits;
            then the next one that can be answers for it.

    Returns:
        None where no place that can be watched differs.
    """
    known: dict[int, bool | None] = {}

    def ask(place: int) -> bool | None:
        if place not in known:
            known[place] = differs(place)
        return known[place]

    low, high = 0, count
    found = None
    while low < high:
        middle = (low + high) // 2
        place = middle
        while place < high and ask(place) is None:
            place += 1
        if place < high and ask(place):
            found, high = place, middle
        elif place < high:
            low = place + 1
        else:
            high = middle
    return found
