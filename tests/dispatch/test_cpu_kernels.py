"""Tallies of samples made up here: what counts, what is dropped, and what is uncertain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ggmlprobe.dispatch import cpu_kernels
from ggmlprobe.dispatch.cpu_kernels import ENOUGH, WANTED, Tally, described, sample, tally

PLACES = {
    1: ("libggml-cpu.so", "ggml_vec_dot_f32"),
    2: ("libggml-cpu.so", "_ZN4gemmILi4EEEvv"),
    3: ("libggml-cpu.so", "ggml_barrier"),
    4: ("libgomp.so.1", None),
}


class Places:
    """Stands for symbols.Objects."""

    def locate(self, pc: int) -> tuple[str, str | None]:
        return PLACES[pc]


PLACED: Any = Places()


class Source:
    """Stands for the sampler: some samples for each evaluation, kept until they are taken."""

    def __init__(self, each: int) -> None:
        self.each, self.computes, self.late, self.lost = each, 0, 0, 0
        self.waiting: list[tuple[int, int]] = []

    @contextmanager
    def armed(self) -> Iterator[None]:
        yield

    def take(self) -> list[tuple[int, int]]:
        waiting, self.waiting = self.waiting, []
        return waiting

    def evaluate(self) -> None:
        self.waiting += [(1, 7)] * self.each
        self.computes += 1


def test_library_counts_and_waiting_and_others_are_dropped() -> None:
    seen = Tally()
    tally(PLACED, [(1, 7), (1, 8), (2, 7), (3, 9), (4, 9), (4, 9)], seen)
    assert seen.kernels == Counter({"ggml_vec_dot_f32": 2, "_ZN4gemmILi4EEEvv": 1})
    assert seen.dropped == Counter({"libgomp.so.1": 2, "ggml_barrier": 1})
    assert seen.threads == {7, 8}, "a thread that only waits is none"
    fields = described(seen, 2)
    assert [(k["name"], k["samples"]) for k in fields["kernels"]] == [
        ("ggml_vec_dot_f32", 2),
        ("void gemm<4>()", 1),
    ]
    assert fields["kernels"][0]["share"] == pytest.approx(2 / 3)
    assert fields["samples_dropped"] == {"libgomp.so.1": 2, "ggml_barrier": 1}


IDLE = ("libgomp.so.1.0.0", "libc.so.6", "libpython3.11.so.1.0", "[vdso]", "ggml_barrier")


@pytest.mark.parametrize(
    ("seen", "note"),
    [
        (Tally(Counter(f=ENOUGH), threads={1, 2}), None),
        (Tally(Counter(f=ENOUGH - 1), threads={1, 2}), "fewer than 100 samples in the library"),
        (Tally(Counter(f=ENOUGH), threads={1}), "1 of 2 threads seen in the library"),
        (Tally(Counter(f=ENOUGH), threads={1, 2}, late=3),
         "3 threads came too late to be sampled"),
        (Tally(Counter(f=ENOUGH), threads={1, 2}, lost=5), "5 samples lost"),
        (Tally(Counter(f=ENOUGH), Counter({"libblas.so.3": ENOUGH + 1}), {1, 2}),
         "most of the work was done in libblas.so.3, which is not the library"),
        (Tally(Counter(f=ENOUGH), Counter({"libblas.so.3": ENOUGH}), {1, 2}), None),
        (Tally(Counter(f=ENOUGH), Counter(dict.fromkeys(IDLE, 9 * ENOUGH)), {1, 2}), None),
        (Tally(), "fewer than 100 samples in the library"),
    ],
)  # fmt: skip
def test_notes(seen: Tally, note: str | None) -> None:
    assert described(seen, 2).get("kernels_note") == note


def test_evaluated_until_there_are_enough_after_a_warm_up() -> None:
    source: Any = Source(30)
    seen = sample(source, PLACED, source.evaluate)
    needed = -(-WANTED // 30)
    assert seen.kept == needed * 30
    assert source.computes == needed + 1, "the warm-up's samples are thrown away"


def test_time_ends_what_gives_no_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    stand_in = SimpleNamespace(perf_counter=lambda: float(next(clock)))
    monkeypatch.setattr(cpu_kernels, "time", stand_in)
    few: Any = Source(1)
    assert sample(few, PLACED, few.evaluate).kept < ENOUGH
    assert few.computes == int(cpu_kernels.LONGEST_SECONDS)
    some: Any = Source(ENOUGH)
    assert sample(some, PLACED, some.evaluate).kept < WANTED
    assert some.computes == int(cpu_kernels.SECONDS)
