"""The pass `time`: seconds of the op alone at each width.

Many evaluations over distinct weights stand in one graph; the widths take turns, round after
round, so that whatever changes on the machine changes for all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ggmlprobe.dispatch import price
from ggmlprobe.ggml.device import BETWEEN
from ggmlprobe.ops.base import Evaluator, Op, Session, WeightSet
from ggmlprobe.ops.timed import TimedGraph
from ggmlprobe.record import TimeStats

MIB = 2**20
# weights read between two reads of the same, in last-level caches
REACH = 4
# no device tells its cache; the largest in sight are 50 MiB (H100) to 128 MiB (RTX 5090 and up)
DEVICE_CACHE = 128 * MIB
CPU_CACHE = 32 * MIB
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}

BUDGET = 1.0
"""Seconds a width may take in all, as long as it gets the fewest repeats."""
MIN_REPEATS, MAX_REPEATS = 7, 50
# short graphs would measure how one is launched
GRAPH_SECONDS = 0.01
MAX_COPIES = 2048
# of a first estimate
TRIALS, TRIAL_SECONDS = 6, 0.1
MEMORY_SHARE = 0.25
# free memory of a device that does not tell it
UNTOLD = 4 * 2**30


def last_level_cache(device_type: str, folder: Path = CACHES) -> int:
    """Bytes of the largest cache of the first CPU; a fixed size for a device with one of its own.

    Args:
        device_type: of a scheduler's devices with + between; an ACCEL computes on the CPU.
    """
    if set(device_type.split(BETWEEN)) - {"CPU", "ACCEL"}:
        return DEVICE_CACHE
    sizes = [path.read_text(encoding="ascii").strip() for path in folder.glob("index*/size")]
    return max((int(s[:-1]) * UNITS[s[-1]] for s in sizes if s[-1:] in UNITS), default=CPU_CACHE)


@dataclass(frozen=True)
class Need:
    """What a width's evaluations take.

    Attributes:
        weights: bytes of weights one evaluation reads.
        memory: bytes of its inputs and outputs.
        seconds: of one evaluation, roughly.
    """

    weights: int
    memory: int
    seconds: float


def plan_copies(needs: Mapping[int, Need], reach: int, room: int) -> dict[int, int]:
    """Evaluations in each width's graph.

    As many as read `reach` bytes of weights, in whole multiples up to about 10 ms; fewer where
    they would take too long for the fewest repeats (not at the narrowest width, whose graph clears
    the cache for the others), or more than an equal share of `room` bytes.
    """
    copies: dict[int, int] = {}
    for width, need in sorted(needs.items()):
        whole = max(1, -(-reach // need.weights))
        wanted = whole * max(1, round(GRAPH_SECONDS / (whole * need.seconds)))
        if copies:
            wanted = min(wanted, int(BUDGET / MIN_REPEATS / need.seconds))
        fits = room // len(needs) // max(1, need.memory)
        copies[width] = max(1, min(wanted, fits, MAX_COPIES))
    return copies


def interleave(
    runs: Mapping[int, Callable[[], float]],
    partial: frozenset[int],
    more: Callable[[int], bool],
) -> dict[int, list[float]]:
    """Samples of each width, one a round.

    The narrowest width runs once untimed at the start of a round, and after each width whose graph
    does not read all weights, so that a cache never holds what comes next.

    Args:
        runs: runs a width's graph; seconds.
        partial: widths whose graphs read only some of the weights.
        more: called with the rounds done.
    """
    samples: dict[int, list[float]] = {width: [] for width in runs}
    clear = runs[min(runs)]
    done = 0
    while more(done):
        clear()
        for width, run in runs.items():
            samples[width].append(run())
            if width in partial:
                clear()
        done += 1
    return samples


class Rig:
    """Sets of weights and a graph for each width, all in memory at once.

    Attributes:
        graphs: by width. partial: see `interleave`.
        read: bytes of distinct weights read between two reads of the same.
    """

    def __init__(self, session: Session, evaluator: Evaluator, widths: Sequence[int]) -> None:
        self.cache = last_level_cache(session.backend.info.type)
        reach = 1 if session.hot else REACH * self.cache
        room = int((session.backend.memory_free() or UNTOLD) * MEMORY_SHARE)
        self._stack = contextlib.ExitStack()
        with self._stack:
            needs = {width: _need(session, evaluator, width) for width in widths}
            self.sets = self._copies(evaluator, reach, room)
            room = max(0, room - sum(each.size for each in self.sets[1:]))
            copies = plan_copies(needs, reach, room)
            self.graphs = {w: self._graph(evaluator, w, copies[w]) for w in sorted(widths)}
            self.partial = frozenset(w for w, n in needs.items() if copies[w] * n.weights < reach)
            once = needs[min(widths)].weights * copies[min(widths)]
            self.read = min(once, sum(each.size for each in self.sets))
            self._stack = self._stack.pop_all()

    def _copies(self, evaluator: Evaluator, reach: int, room: int) -> list[WeightSet]:
        """The case's own weights, and copies of them up to `reach` bytes within `room`."""
        sets: list[WeightSet] = [evaluator.weights]
        size = max(1, evaluator.weights.size)
        while len(sets) * size < min(reach, room) and len(sets) < MAX_COPIES:
            sets.append(evaluator.copy_weights())
            self._stack.callback(sets[-1].close)
        return sets

    def _graph(self, evaluator: Evaluator, width: int, copies: int) -> TimedGraph:
        graph = evaluator.timed(width, copies, self.sets)
        self._stack.callback(graph.close)
        return graph

    def warm_up(self) -> float:
        """Run every graph twice; seconds of a round."""
        first = {width: graph.run() for width, graph in self.graphs.items()}
        second = {width: graph.run() for width, graph in self.graphs.items()}
        return sum(min(first[width], second[width]) for width in self.graphs)

    def close(self) -> None:
        """Free all of it."""
        self._stack.close()


def _need(session: Session, evaluator: Evaluator, width: int) -> Need:
    seconds, spent = math.inf, 0.0
    for _ in range(TRIALS):
        before = session.backend.compute_seconds
        evaluator.evaluate(0, width)
        last = session.backend.compute_seconds - before
        # the shortest: another process may have had the cores
        seconds, spent = max(min(seconds, last), 1e-9), spent + last
        if spent > TRIAL_SECONDS:
            break
    return Need(evaluator.weights_read(width), evaluator.blocks[width].placed.size, seconds)


def measure(
    session: Session, op: Op, evaluator: Evaluator, widths: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Time each width; see `passes.Measure`."""
    with contextlib.closing(Rig(session, evaluator, widths)) as rig:
        round_seconds = max(rig.warm_up(), 1e-9)
        planned = int(BUDGET * len(widths) / round_seconds)
        planned = min(max(planned, MIN_REPEATS), MAX_REPEATS)
        samples = interleave(
            {width: graph.run for width, graph in rig.graphs.items()}, rig.partial,
            lambda done: session.turn(done, planned),
        )  # fmt: skip
    for width, seconds in samples.items():
        copies = rig.graphs[width].copies
        each = [second / copies for second in seconds]
        moved = evaluator.weights_read(width) + evaluator.blocks[width].moved
        stats = _stats(each, copies, session.hot, rig, moved, op.flops(width))
        said = note(stats, session.backend.info.endpoint)
        yield width, {"time": dataclasses.asdict(stats), "time_note": said}


def _stats(
    each: list[float], copies: int, hot: bool, rig: Rig, moved: int, flops: int
) -> TimeStats:
    low, middle, high = (float(q) for q in np.percentile(each, (25, 50, 75)))
    return TimeStats(
        median_seconds=middle, low_seconds=low, high_seconds=high, repeats=len(each),
        copies=copies, weights_bytes=rig.read, cache_bytes=rig.cache, hot=hot,
        drift=price.drift(each), gbps=moved / middle / 1e9, gflops=flops / middle / 1e9,
        samples=each,
    )  # fmt: skip


def note(stats: TimeStats, endpoint: str | None = None) -> str | None:
    """What is uncertain about a time, or None.

    Args:
        endpoint: of the server that computed.
    """
    found = [f"a round trip to {endpoint} in each graph"] if endpoint else []
    if price.drifts(stats.samples):
        found.append(f"drifted by {stats.drift:+.0%} while it was timed")
    if not stats.hot and stats.weights_bytes < REACH * stats.cache_bytes:
        held, cache = stats.weights_bytes / MIB, stats.cache_bytes / MIB
        found.append(f"{held:.3g} MiB of weights in turn, the cache has {cache:.3g} MiB")
    return "; ".join(found) or None
