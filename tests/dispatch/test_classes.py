"""Dispatch classes from kernels made up here, and where they part from width classes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ggmlprobe.dispatch.classes import (
    dispatch_classes,
    other_kernels_same_bits,
    same_kernels_other_bits,
    served_alike,
)
from ggmlprobe.record import Kernel


def sampled(total: int = 400, **shares: float) -> list[Kernel]:
    return [Kernel(name, share, round(share * total)) for name, share in shares.items()]


def launch(name: str, grid: int = 1, calls: int = 1) -> Kernel:
    return Kernel(name, 1.0, None, calls, [grid, 1, 1], [32, 1, 1], 0, 1e-6)


def test_cpu_classes_follow_the_main_kernels() -> None:
    dot, tiled = sampled(dot=0.9, quantize=0.1), sampled(tiled=0.7, quantize=0.3)
    classes = dispatch_classes({1: dot, 2: dot, 8: tiled, 9: dot, 16: tiled})
    assert classes == [[1, 2, 9], [8, 16]]


def test_share_that_only_changes_is_no_other_kernel() -> None:
    small, large = sampled(dot=0.98, quantize=0.02), sampled(dot=0.6, quantize=0.4)
    assert served_alike(small, large)


@pytest.mark.parametrize("share", [0.0, 0.009])
def test_kernel_of_a_tenth_that_is_absent_elsewhere_tells_widths_apart(share: float) -> None:
    without = sampled(main=1 - share, **({"rest": share} if share else {}))
    assert not served_alike(without, sampled(main=0.89, rest=0.11))
    assert not served_alike(sampled(main=0.89, rest=0.11), without)


@pytest.mark.parametrize(("here", "there"), [(0.09, 0.0), (0.3, 0.02)])
def test_share_near_the_limits_tells_nothing(here: float, there: float) -> None:
    with_, without = sampled(main=1 - here, rest=here), sampled(main=1 - there, rest=there)
    assert served_alike(with_, without)


def test_too_few_samples_tell_nothing() -> None:
    with_ = sampled(main=0.85, rest=0.15)
    assert served_alike(with_, sampled(total=60, main=1.0)), "9 samples expected"
    assert not served_alike(with_, sampled(total=80, main=1.0)), "12 samples expected"


@pytest.mark.parametrize(
    "frame", ["ggml_graph_compute._omp_fn.0", "ggml_threadpool_chunk_add", "[libggml-cpu.so]"]
)
def test_frame_around_every_op_is_no_kernel(frame: str) -> None:
    around = [Kernel("dot", 0.7, 280), Kernel(frame, 0.3, 120)]
    assert served_alike(around, sampled(dot=1.0))


def test_gpu_launches_are_compared_one_by_one() -> None:
    assert served_alike([launch("q<4>"), launch("fix")], [launch("fix"), launch("q<4>")])
    assert not served_alike([launch("q<4>")], [launch("q<8>")])
    assert not served_alike([launch("q<4>")], [launch("q<4>", grid=2)])
    assert not served_alike([launch("q<4>")], [launch("q<4>", calls=2)])
    assert not served_alike([launch("q<4>")], [launch("q<4>"), launch("fix")])


def test_width_without_kernels_is_in_no_class() -> None:
    assert dispatch_classes({1: sampled(dot=1.0), 2: [], 3: sampled(dot=1.0)}) == [[1, 3]]
    assert dispatch_classes({1: []}) == []


@pytest.mark.parametrize(
    ("dispatch", "groups", "same_kernels", "same_bits"),
    [
        ([[1, 2, 3], [4, 5]], [[1, 2, 3], [4, 5]], [], []),
        ([[1, 2, 3, 4, 5]], [[1, 2, 3, 4], [5]], [[4, 5]], []),
        ([[1, 2], [3, 4, 5]], [[1, 2, 3, 4, 5]], [], [[2, 3]]),
        ([[1, 3, 5], [2, 4]], [[1, 2, 3, 4, 5]], [], [[1, 2], [2, 3], [3, 4], [4, 5]]),
        ([[1, 2, 8], [3, 4]], [[1, 2, 3], [4, 8]], [[2, 8], [3, 4]], [[2, 3], [4, 8]]),
        # 6 was not sampled, 7 not compared: nothing is said of either
        ([[1, 2, 7]], [[1, 6], [2]], [[1, 2]], []),
    ],
)
def test_disagreements(
    dispatch: list[list[int]], groups: list[list[int]],
    same_kernels: list[list[int]], same_bits: list[list[int]],
) -> None:  # fmt: skip
    assert same_kernels_other_bits(dispatch, groups) == same_kernels
    assert other_kernels_same_bits(dispatch, groups) == same_bits


def test_widths_of_two_classes_that_agree_do_not_differ() -> None:
    groups = [[1], [4, 5], [8, 9]]
    assert same_kernels_other_bits([[1], [4, 8], [5, 9]], groups, [[4, 8]]) == [[5, 9]]


def test_width_joins_a_class_only_if_it_is_like_every_member() -> None:
    between = sampled(main=0.95, rest=0.05)
    without, with_ = sampled(main=1.0), sampled(main=0.8, rest=0.2)
    assert served_alike(between, without)
    assert served_alike(between, with_)
    assert dispatch_classes({1: between, 2: without, 3: with_}) == [[1, 2], [3]]


def test_every_width_with_kernels_is_in_one_class() -> None:
    kernels: Mapping[int, list[Kernel]] = {
        width: sampled(**{f"k{width % 3}": 0.6, f"h{width % 2}": 0.4}) for width in range(1, 20)
    }
    classes = dispatch_classes(kernels)
    assert sorted(width for group in classes for width in group) == list(kernels)
    assert len(classes) == 6
