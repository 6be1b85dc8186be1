"""Width classes: which widths give a token the same bits, and where that is not transitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

Key = TypeVar("Key")
Signature = Sequence[Sequence[str]]
"""Per seed, the hashes of the tokens one width evaluated (width 1: the serial reference of all)."""


@dataclass(frozen=True)
class Classes:
    """Widths grouped by agreement; class A, the first group, holds the serial reference.

    Attributes:
        groups: widths of each class, ascending; every two members of a group agree.
        transitive: no two widths of different groups agree.
        pairs: the (smaller, larger) widths of different groups that agree all the same.
    """

    groups: list[list[int]]
    transitive: bool
    pairs: list[tuple[int, int]]

    def letter(self, width: int) -> str:
        """Name of the class of ``width``: A to Z, then AA, AB, ...

        Raises:
            KeyError: the width was not probed.
        """
        for number, group in enumerate(self.groups):
            if width in group:
                return letters(number)
        raise KeyError(width)

    @property
    def first_differing(self) -> int | None:
        """Smallest width that is not in class A, or None."""
        return min((w for group in self.groups[1:] for w in group), default=None)


def agree(a: Signature, b: Signature) -> bool:
    """Whether two widths gave the tokens they share the same bits, in every seed.

    Raises:
        ValueError: the signatures are of different numbers of seeds.
    """
    pairs = zip(a, b, strict=True)
    return all(x == y for s, t in pairs for x, y in zip(s, t, strict=False))


def width_classes(signatures: Mapping[int, Signature]) -> Classes:
    """Group widths, ascending: each joins the first class with whose every member it agrees.

    Args:
        signatures: ``signatures[width][seed_index]`` lists a hash per token; width 1 must be there
            and list the serial reference of all tokens.

    Raises:
        ValueError: width 1 is missing, or widths have different numbers of seeds.
    """
    if 1 not in signatures:
        raise ValueError("no serial reference: width classes need the signature of width 1")
    widths = sorted(signatures)
    agreeing = {p for p in combinations(widths, 2) if agree(signatures[p[0]], signatures[p[1]])}
    groups: list[list[int]] = []
    for width in widths:
        for group in groups:
            if all((member, width) in agreeing for member in group):
                group.append(width)
                break
        else:
            groups.append([width])
    together = {pair for group in groups for pair in combinations(group, 2)}
    pairs = sorted(agreeing - together)
    return Classes(groups=groups, transitive=not pairs, pairs=pairs)


def joint_letters(signatures: Mapping[Key, Signature]) -> dict[Key, str]:
    """Class letters of several runs of the same tokens, over all of them together.

    Args:
        signatures: in the order in which classes open; the first opens class A.
    """
    groups: list[list[Key]] = []
    for key, signature in signatures.items():
        for group in groups:
            if all(agree(signature, signatures[member]) for member in group):
                group.append(key)
                break
        else:
            groups.append([key])
    return {key: letters(number) for number, group in enumerate(groups) for key in group}


def letters(number: int) -> str:
    """0 is A, 25 Z, 26 AA: bijective base 26."""
    name = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        name = chr(ord("A") + digit) + name
    return name
