"""What evaluators of products share: src0 in a buffer of its own, one graph for each width."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.ops.base import BlockGraph, Blocks, Session
from ggmlprobe.ops.timed import TimedGraph
from ggmlprobe.ops.weights import Weights, support


class ProductEvaluator(ABC):
    """Weights from a pool of distinct rows; see `base.Evaluator`.

    Args:
        op: the case's parameters, with type_a, type_b, k and source.
        streams: size of what lies outside the tokens in the output.
    """

    def __init__(
        self, op: Any, session: Session, weights_seed: int, widest: int, streams: int = 1
    ) -> None:
        self.op, self.session, self.widest = op, session, widest
        self.weights_seed = weights_seed
        self.weights: Weights | None = None
        self.blocks = Blocks(lambda count: BlockGraph(session, self._block, count, streams))

    @property
    @abstractmethod
    def _stored_ne_a(self) -> tuple[int, ...]:
        """Dimensions of src0 in memory, fastest first."""

    @property
    @abstractmethod
    def _rows_a(self) -> int:
        """Rows of all matrices in src0."""

    @abstractmethod
    def _stored_a(self) -> Iterable[np.ndarray]:
        """src0 in the order of memory, in chunks."""

    @abstractmethod
    def _build(
        self, context: Context, count: int, weights: Weights
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Inputs by name and nodes of one width's graph; the last node is the output."""

    @abstractmethod
    def _inputs(self, first: int, count: int) -> dict[str, np.ndarray]:
        """Data of the inputs for tokens first .. first + count - 1."""

    def open(self) -> None:
        """Allocate src0, ask whether the device runs the op, then fill src0."""
        op = self.op
        self.weights = self._allocated()
        support(self.session, self.blocks, op.type_a, op.type_b)
        self.pool = self.session.pools.get(
            op.type_a, op.k, self._rows_a, self.weights_seed, op.source
        )
        self.weights.fill(self._stored_a())

    def copy_weights(self) -> Weights:
        """Src0 again, in memory of its own."""
        weights = self._allocated()
        weights.fill(self._stored_a())
        return weights

    def _allocated(self) -> Weights:
        return Weights(self.session, self.op.type_a, self._stored_ne_a, self._build)

    def timed(self, count: int, copies: int, sets: Sequence[Weights]) -> TimedGraph:
        """`copies` products of width `count`, over the sets of weights in turn."""
        made = self._inputs(0, count)
        return TimedGraph(
            self.session, count, copies,
            lambda context, i: self._build(context, count, sets[i % len(sets)]),
            lambda i: self._timed_inputs(made, i // len(sets)),
        )  # fmt: skip

    def _timed_inputs(self, made: dict[str, np.ndarray], turn: int) -> dict[str, np.ndarray]:
        """Inputs of a timed evaluation, when the sets of weights have had `turn` turns."""
        return made

    def _block(self, context: Context, count: int) -> tuple[dict[str, Tensor], list[Tensor]]:
        assert self.weights is not None
        return self._build(context, count, self.weights)

    def evaluate(self, first: int, count: int) -> np.ndarray:
        """Tokens first .. first + count - 1 in one product: float32 [count, E]."""
        return self.blocks[count].run(first, **self._inputs(first, count))

    def close(self) -> None:
        """Free the weights and every graph."""
        self.blocks.close()
        if self.weights is not None:
            self.weights.close()
