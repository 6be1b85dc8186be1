"""Nodes without a case of the op probe: the same op over a block's own values, at every width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggmlprobe.errors import Unsupported
from ggmlprobe.model.graph import VIEWS, WRITERS, Cut, Seen, Source, cut, states
from ggmlprobe.model.ops import op_of
from ggmlprobe.model.watch import WORDS, parts

COPIES = frozenset({"GET_ROWS", "CONT", "DUP", "CONCAT", "REPEAT", "PAD"}) | WRITERS
"""Ops that move values: there is no arithmetic whose order could differ."""


def why_not(node: Seen, nodes: Sequence[Seen]) -> str | None:
    """Why a node cannot be probed here; None if it can."""
    if node.kind in VIEWS | COPIES:
        return "moves values"
    if op_of(node) is not None:
        return "has a case of its own"
    if any(source.state in set(states(nodes)) for source in node.sources):
        return "reads a state"
    if node.type != "f32":
        return f"gives {node.type}"
    return None


@dataclass(frozen=True)
class Filled:
    """A source as it is laid out at some width, with the values of some tokens."""

    like: Source
    data: NDArray[np.uint8]


@dataclass
class Tokens:
    """The sources of one node in graphs of several widths, and the values of the widest.

    Attributes:
        at: the node by width. data: bytes of its sources in the graph of the widest.
    """

    at: Mapping[int, Seen]
    data: Sequence[NDArray[np.uint8]]

    def sources(self, first: int, count: int) -> list[Filled]:
        """Sources of tokens first .. first + count - 1, as a graph of that many has them.

        Raises:
            Unsupported: tokens of a source cannot be told.
        """
        pairs = zip(self.at[count].sources, self._widest.sources, self.data, strict=True)
        return [self._filled(like, wide, data, first, count) for like, wide, data in pairs]

    @property
    def _width(self) -> int:
        return max(self.at)

    @property
    def _widest(self) -> Seen:
        return self.at[self._width]

    def cut_of(self, ne: Callable[[Seen], Sequence[int]]) -> Cut:
        """How tokens are cut out of a tensor that all widths have.

        Raises:
            Unsupported: they cannot be told, or n_kv is not the same at every width.
        """
        one, all_ = ne(self.at[1]), ne(self._widest)
        how = cut([one], all_, self._width)
        if how is None or any(one[d] != all_[d] for d in range(len(one)) if d != how.axis):
            raise Unsupported("its sizes differ in more than the number of tokens")
        return how

    def _filled(
        self, like: Source, wide: Source, data: NDArray[np.uint8], first: int, count: int
    ) -> Filled:
        place = self._widest.sources.index(wide)
        how = self.cut_of(lambda seen: seen.sources[place].ne)
        if how.axis is None:
            return Filled(like, data)
        word = WORDS.get(like.type)
        if word is None:
            raise Unsupported(f"tokens in rows of {like.type} cannot be told")
        picked = parts(_view(wide, word, data), how, self._width)[first : first + count]
        made = np.zeros(_nbytes(like, word), np.uint8)
        _view(like, word, made)[...] = np.concatenate(picked, axis=3 - how.axis)
        return Filled(like, made)


def _view(source: Source, word: Any, data: NDArray[np.uint8]) -> NDArray[Any]:
    return np.ndarray(source.ne[::-1], word, data.data, 0, source.nb[::-1])


def _nbytes(source: Source, word: Any) -> int:
    """As ggml_nbytes: from the first to the last value."""
    last = sum((n - 1) * stride for n, stride in zip(source.ne, source.nb, strict=True))
    return last + int(np.dtype(word).itemsize)


def evaluator(
    tokens: Tokens, compute: Callable[[Seen, list[Filled], int], NDArray[np.uint8]]
) -> Callable[[int, int], NDArray[np.float32]]:
    """The node as the measurement takes it.

    Args:
        compute: (node, sources, tokens) to the bytes of the output.

    Returns:
        (first, count) to float32 [count, values of a token].
    """
    how = tokens.cut_of(lambda seen: seen.ne)

    def evaluate(first: int, count: int) -> NDArray[np.float32]:
        node = tokens.at[count]
        out = compute(node, tokens.sources(first, count), count)
        data = out.view(np.float32).reshape(node.ne[::-1])
        rows = parts(data, replace(how, ne=node.ne), count)
        return np.stack([np.ascontiguousarray(row).ravel() for row in rows])

    return evaluate
