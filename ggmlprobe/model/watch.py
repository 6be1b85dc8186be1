"""What an evaluation callback does in one run: take nodes down, hash their tokens, keep some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggmlprobe.compare import hash_token
from ggmlprobe.model.graph import Cut, Graph, Seen

WORDS = {
    "f32": np.uint32, "i32": np.uint32, "f16": np.uint16, "bf16": np.uint16, "i16": np.uint16,
    "f64": np.uint64, "i64": np.uint64, "i8": np.uint8,
}  # fmt: skip
"""Types whose values stand alone, as words that keep their bits."""

Eyes = Callable[[Any, bool], bool]
"""An evaluation callback, see ggml.llama.context.Callback."""


class Watch:
    """The callback of one run.

    Attributes:
        graph: the nodes shown so far.
    """

    def __init__(
        self, wanted: Callable[[int], bool] = lambda index: False,
        before: Callable[[int, Any], None] | None = None,
        after: Callable[[int, Any], None] | None = None,
    ) -> None:  # fmt: skip
        """Watch some nodes of a graph.

        Args:
            wanted: tells by index which nodes are to be computed one by one.
            before: called with (index, node) of every node; where the one before it was wanted,
                its sources are there.
            after: called with those wanted, once computed.
        """
        self.graph = Graph()
        self._wanted, self._before, self._after = wanted, before, after
        self._last = -1

    def __call__(self, node: Any, ask: bool) -> bool:
        """Be ggml_backend_sched_eval_callback."""
        if ask:
            self._last = self.graph.add(node)
            if self._before is not None:
                self._before(self._last, node)
            return self._wanted(self._last)
        if self._after is not None and self._wanted(self._last):
            self._after(self._last, node)
        return True


class Switch:
    """A context's callback for good: hands on to the one of the moment.

    Attributes:
        now: watches, None for nothing.
        tamper: changes nodes, as a fault under test; sees them before `now` does.
    """

    def __init__(self, tamper: Eyes | None = None) -> None:
        """Start watching nothing."""
        self.now: Watch | None = None
        self.tamper = tamper

    def __call__(self, node: Any, ask: bool) -> bool:
        """Be ggml_backend_sched_eval_callback."""
        touched = self.tamper(node, ask) if self.tamper is not None else False
        if self.now is not None:
            return self.now(node, ask) or touched
        return touched if ask else True


def values(node: Any) -> NDArray[Any] | None:
    """A node's values as words, [ne3, ne2, ne1, ne0] with its strides; None for blocks."""
    word = WORDS.get(node.type)
    if word is None:
        return None
    return np.ndarray(node.ne[::-1], word, node.get().data, 0, node.nb[::-1])


def hashes(node: Any, seen: Seen, how: Cut | None, tokens: int) -> list[str] | None:
    """A hash for each token of a node, in order; None where tokens cannot be told.

    Args:
        how: from graph.cut. tokens: how many the run has.
    """
    if seen.kind == "SET_ROWS":
        return written_rows(node, tokens)
    if how is None or (data := values(node)) is None:
        return None
    return [hash_token(part) for part in parts(data, how, tokens)]


def parts(data: NDArray[Any], how: Cut, tokens: int) -> list[NDArray[Any]]:
    """What belongs to each token, without what one of the graphs does not have.

    Args:
        data: [ne3, ne2, ne1, ne0].
    """
    shared = [slice(None) if d == how.axis else slice(n) for d, n in enumerate(how.ne)]
    data = data[tuple(reversed(shared))]
    if how.axis is None:
        return [data] * tokens
    axis = 3 - how.axis
    return [data.take(range(t * how.each, (t + 1) * how.each), axis=axis) for t in range(tokens)]


def written_rows(node: Any, tokens: int) -> list[str] | None:
    """Hashes of the rows that SET_ROWS has written for each token."""
    index = values(node.sources[1])
    if index is None:
        return None
    rows = index.astype(np.int64).ravel()
    if rows.size % tokens or node.ne[2] * node.ne[3] != 1:
        return None
    table = node.get()[: node.ne[1] * node.nb[1]].reshape(node.ne[1], node.nb[1])
    return [hash_token(table[of_token]) for of_token in rows.reshape(tokens, -1)]


def kept(nodes: Sequence[int]) -> Callable[[int], bool]:
    """Wants these nodes, and the ones before them, so that their sources can be read."""
    wanted = {*nodes, *(index - 1 for index in nodes)}
    return lambda index: index in wanted
