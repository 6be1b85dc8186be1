"""Dispatch classes: widths served by the same kernels, beside the width classes of the same case.

GPU kernels are told launch by launch, so two widths are served alike if the lists are equal: names,
template arguments, grid, block and calls, combine and fix-up kernels among them. CPU kernels are
shares of samples, in which a kernel that ran for a moment may be missing and one that every width
runs takes more time at some: there two widths differ only if a kernel that has a good part of one
is as good as absent from the other, in more samples than chance explains.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from ggmlprobe.record import Kernel

MAIN = 0.10
"""Share from which a kernel is a good part of a width."""
ABSENT = 0.01
"""Share below which it is as good as absent. Of 400 samples, 3 or fewer where 40 were expected."""
EXPECTED = 10.0
"""Samples that a kernel of the one width's share must lead one to expect at the other; seeing 1 or
fewer of 10 expected happens by chance once in 2000 comparisons (Poisson)."""
# The frame around every op: its time follows from how short the op is and how threads meet.
FRAME = re.compile(
    r"^(\[|_init$|ggml_(graph|threadpool|barrier|critical_section|backend|numa|is_numa|cpu_init|"
    r"cpu_extra)(_|\.|$|\())"
)


def dispatch_classes(kernels: Mapping[int, Sequence[Kernel]]) -> list[list[int]]:
    """Classes of widths; a width with no kernels is in none.

    In ascending width: each joins the first class with whose every member it is served alike, else
    it opens a new one.
    """
    classes: list[list[int]] = []
    for width in sorted(width for width, found in kernels.items() if found):
        for group in classes:
            if all(served_alike(kernels[width], kernels[other]) for other in group):
                group.append(width)
                break
        else:
            classes.append([width])
    return classes


def served_alike(one: Sequence[Kernel], other: Sequence[Kernel]) -> bool:
    """Whether nothing tells the kernels of two widths apart."""
    if any(kernel.samples is None for kernel in (*one, *other)):
        return _launches(one) == _launches(other)
    return not (_only_in(one, other) or _only_in(other, one))


def _launches(kernels: Sequence[Kernel]) -> list[tuple[object, ...]]:
    return sorted(
        (k.name, k.grid or [], k.block or [], k.calls or 0, k.shared_bytes or 0) for k in kernels
    )


def _only_in(one: Sequence[Kernel], other: Sequence[Kernel]) -> list[str]:
    """Kernels that are a good part of one width and as good as absent from the other."""
    total = sum(kernel.samples or 0 for kernel in other)
    there = {kernel.name: kernel.share or 0.0 for kernel in other}
    return [
        kernel.name
        for kernel in one
        if (kernel.share or 0.0) >= MAIN
        and there.get(kernel.name, 0.0) < ABSENT
        and (kernel.share or 0.0) * total >= EXPECTED
        and not FRAME.match(kernel.name)
    ]


def _changes(groups: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> list[list[int]]:
    """Neighbouring widths of one group that are in two of the other groups."""
    place = {width: at for at, group in enumerate(others) for width in group}
    return sorted(
        [low, high]
        for group in groups
        for low, high in pairwise(sorted(width for width in group if width in place))
        if place[low] != place[high]
    )


def same_kernels_other_bits(
    dispatch: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]],
    agreeing: Collection[list[int]] = (),
) -> list[list[int]]:
    """Pairs of neighbouring widths of one dispatch class whose bits differ.

    Args:
        agreeing: pairs of widths in two width classes that agree all the same.
    """
    return [pair for pair in _changes(dispatch, groups) if pair not in agreeing]


def other_kernels_same_bits(
    dispatch: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Pairs of neighbouring widths of one width class that are in two dispatch classes."""
    return _changes(groups, dispatch)
