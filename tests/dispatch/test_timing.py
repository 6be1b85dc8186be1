"""How copies are planned and widths take turns, and times of a planted slow function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggmlprobe.configs import configs_of
from ggmlprobe.dispatch.timing import (
    BUDGET,
    GRAPH_SECONDS,
    MAX_COPIES,
    MAX_REPEATS,
    MIB,
    MIN_REPEATS,
    REACH,
    Need,
    interleave,
    last_level_cache,
    note,
    plan_copies,
)
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.record import Config, Result, TimeStats
from ggmlprobe.runner import Case, Runner
from ggmlprobe.worker.protocol import Spec
from ggmlprobe.worker.supervisor import Worker

ROOM = 2**40


def test_the_largest_cache_counts(tmp_path: Path) -> None:
    for i, size in enumerate(["48K", "32K", "2048K", "33M"]):
        (tmp_path / f"index{i}").mkdir()
        (tmp_path / f"index{i}" / "size").write_text(size + "\n")
    assert last_level_cache("CPU", tmp_path) == 33 * MIB
    assert last_level_cache("GPU", tmp_path) == 128 * MIB
    # a BLAS computes on the CPU; a scheduler's GPU has a cache of its own
    assert last_level_cache("ACCEL+CPU", tmp_path) == 33 * MIB
    assert last_level_cache("GPU+ACCEL+CPU", tmp_path) == 128 * MIB


def test_a_system_that_tells_no_cache(tmp_path: Path) -> None:
    assert last_level_cache("CPU", tmp_path / "missing") == 32 * MIB
    (tmp_path / "index0").mkdir()
    (tmp_path / "index0" / "size").write_text("\n")
    assert last_level_cache("CPU", tmp_path) == 32 * MIB


def test_a_graph_reads_as_much_as_was_asked() -> None:
    copies = plan_copies({1: Need(30, 1, 1e-3), 2: Need(30, 1, 2e-3)}, 1000, ROOM)
    assert copies == {1: 34, 2: 34}


def test_short_graphs_are_made_longer_in_whole_rounds_of_the_weights() -> None:
    copies = plan_copies({1: Need(500, 1, 1e-4)}, 1000, ROOM)[1]
    assert copies * 1e-4 == pytest.approx(GRAPH_SECONDS, rel=0.1)
    assert copies % 2 == 0


def test_long_graphs_leave_time_for_the_fewest_repeats() -> None:
    needs = {1: Need(10, 1, 0.1), 64: Need(10, 1, 0.05), 512: Need(10, 1, 9.0)}
    copies = plan_copies(needs, 1000, ROOM)
    # the narrowest clears the cache for the others, whatever it takes
    assert copies[1] == 100
    assert 0 < copies[64] * 0.05 <= BUDGET / MIN_REPEATS
    assert copies[512] == 1


def test_memory_and_nodes_are_bounded() -> None:
    assert plan_copies({1: Need(1, 100, 1e-6), 2: Need(1, 50, 1e-6)}, 10**6, 10**4) == {
        1: 50, 2: 100,
    }  # fmt: skip
    assert plan_copies({1: Need(1, 0, 1e-9)}, 10**9, ROOM) == {1: MAX_COPIES}
    assert plan_copies({1: Need(1, 100, 1e-6)}, 10**6, 0) == {1: 1}


def test_widths_take_turns_and_the_cache_is_cleared() -> None:
    ran: list[int] = []

    def runs(width: int) -> Callable[[], float]:
        return lambda: ran.append(width) or float(len(ran))

    graphs = {width: runs(width) for width in (1, 4, 9)}
    samples = interleave(graphs, frozenset({4}), lambda done: done < 2)
    assert ran == [1, 1, 4, 1, 9] * 2
    # the runs between are not samples
    assert samples == {1: [2.0, 7.0], 4: [3.0, 8.0], 9: [5.0, 10.0]}


def stats(samples: list[float], weights: int = REACH * MIB, hot: bool = False) -> TimeStats:
    return TimeStats(
        1.0, 1.0, 1.0, len(samples), 1, weights, MIB, hot=hot, drift=0.5, samples=samples
    )


def test_a_drift_is_noted() -> None:
    assert note(stats([1.0] * 9)) is None
    assert note(stats([1.0] * 3 + [1.2] * 3 + [1.5] * 3)) == "drifted by +50% while it was timed"


def test_weights_that_a_cache_may_hold_are_noted() -> None:
    found = note(stats([1.0] * 9, MIB // 2))
    assert found == "0.5 MiB of weights in turn, the cache has 1 MiB"
    assert note(stats([1.0] * 9, MIB // 2, hot=True)) is None


PRODUCT = MulMat(type_a="f32", m=16, k=256)


@pytest.fixture(scope="module")
def slow(lib_path: str, planted: Path) -> Iterator[tuple[Worker, Config]]:
    """A library whose products of 3 columns and more take a millisecond longer."""
    worker = Worker(Spec(lib_path, {"PLANTED": "slow:3:99"}, None, [str(planted)]), 60.0)
    yield worker, configs_of(worker.ready(), "CPU", (None,), (1,), None, {})[0]
    worker.stop()


def rows(
    slow: tuple[Worker, Config], widths: tuple[int, ...], hot: bool = False
) -> dict[int, Result]:
    worker, config = slow
    runner = Runner({config.id: worker}, (1,), passes=("time",), hot=hot)
    made = runner.run([config], [Case("mul_mat", PRODUCT, widths)])
    return {row.width: row for row in made if isinstance(row, Result)}


def test_a_planted_slow_function_shows_where_it_is(slow: tuple[Worker, Config]) -> None:
    times = {width: row.time for width, row in rows(slow, (1, 2, 3)).items()}
    for width, time in times.items():
        assert time is not None
        assert MIN_REPEATS <= time.repeats <= MAX_REPEATS
        assert len(time.samples) == time.repeats
        assert time.low_seconds <= time.median_seconds <= time.high_seconds
        assert min(time.samples) <= time.low_seconds
        assert min(time.samples) > 0
        assert time.gflops == pytest.approx(
            2 * 16 * 256 * width / time.median_seconds / 1e9, rel=1e-6
        )
        # weights, src1 and dst in f32
        moved = 4 * (16 * 256 + 256 * width + 16 * width)
        assert time.gbps == pytest.approx(moved / time.median_seconds / 1e9, rel=1e-6)
        assert not time.hot
    slowest, others = times.pop(3), list(times.values())
    assert slowest.low_seconds >= 1e-3
    assert all(time.median_seconds < 0.5e-3 for time in others)


def test_hot_times_are_of_one_set_of_weights(slow: tuple[Worker, Config]) -> None:
    row = rows(slow, (1,), hot=True)[1]
    assert row.time is not None
    assert row.time.hot
    assert row.time.weights_bytes == 4 * 16 * 256
    assert row.time_note is None or "drifted" in row.time_note
