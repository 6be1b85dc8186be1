"""The KV caches of a case, and what the evaluators of both attentions share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ggmlprobe.errors import Unsupported
from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.ops.attention import Attention, AttentionInputs
from ggmlprobe.ops.base import BlockGraph, Blocks, Session
from ggmlprobe.ops.timed import TimedGraph

Shape = tuple[str, tuple[int, ...]]
"""Type, and dimensions in memory, fastest first."""


class Caches:
    """K and V caches in a buffer of their own.

    Attributes:
        v: None where V is a view of K.
        buft: name of the buffer type, the device's default. size: bytes of the buffer.
    """

    def __init__(self, session: Session, k: Shape, v: Shape | None) -> None:
        """Allocate them.

        Raises:
            Unsupported: the session asks for another buffer type, which is for weights.
        """
        self.buft = session.backend.info.bufts[0]
        if session.buft not in (None, self.buft):
            raise Unsupported(
                f"attention has no weights for {session.buft}: its caches are in {self.buft}"
            )
        self._session, self._shapes = session, (k, v)
        self._context = Context(session.library)
        self.k = self._context.new_tensor(*k, "cache_k")
        self.v = self._context.new_tensor(*v, "cache_v") if v else None
        try:
            self.size = self._context.allocate(session.backend).size
        except BaseException:
            self._context.close()
            raise

    def copy(self) -> Caches:
        """The same data in memory of its own."""
        twin = Caches(self._session, *self._shapes)
        for tensor, other in ((self.k, twin.k), (self.v, twin.v)):
            if tensor is not None and other is not None:
                other.set(tensor.get(np.uint8))
        return twin

    def close(self) -> None:
        """Free the buffer."""
        self._context.close()


class AttentionEvaluator(ABC):
    """K and V caches in a buffer of their own; per width a graph with Q, mask, sinks and dst.

    `_build` makes the graph of a width over some caches, `load` fills the caches.
    """

    MASK: type[np.floating] = np.float16

    def __init__(self, op: Attention, session: Session, widest: int) -> None:
        self.op, self.session, self.widest = op, session, widest
        self.blocks = Blocks(lambda count: BlockGraph(session, self._block, count, op.streams))
        self.weights: Caches | None = None

    @abstractmethod
    def _shapes(self) -> tuple[Shape, Shape | None]:
        """The caches in memory."""

    @abstractmethod
    def _build(
        self, context: Context, count: int, caches: Caches
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        """Inputs by name and nodes of one width's graph; the last node is the output."""

    def open(self) -> None:
        """Allocate the caches and ask whether the device runs the ops."""
        self.weights = Caches(self.session, *self._shapes())
        self.k, self.v = self.weights.k, self.weights.v
        self.blocks.support()

    def _block(self, context: Context, count: int) -> tuple[dict[str, Tensor], list[Tensor]]:
        assert self.weights is not None
        return self._build(context, count, self.weights)

    def _take(self, made: AttentionInputs) -> None:
        """Keep the queries and the truth, now that the caches are on the device."""
        self.inputs = made
        self.exact, self.magnitude = made.reference()
        made.drop_caches()

    def evaluate(self, first: int, count: int) -> np.ndarray:
        """Queries first .. first + count - 1 in one graph: float32 [count, E]."""
        return self.blocks[count].run(first, **self._inputs(first, count))

    def _inputs(self, first: int, count: int) -> dict[str, np.ndarray]:
        made = {"q": np.ascontiguousarray(self.inputs.q[:, first : first + count])}
        if self.op.mask:
            made["mask"] = self.inputs.mask(first, count, self.MASK)
        if self.op.sinks:
            made["sinks"] = self.inputs.sinks
        return made

    def reference(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """Float64 output of a token, and sum p |v|: [streams * heads * hsv]."""
        return self.exact[token], self.magnitude[token]

    def copy_weights(self) -> Caches:
        """The caches again, in memory of their own."""
        assert self.weights is not None
        return self.weights.copy()

    def weights_read(self, count: int) -> int:
        """Bytes of the caches."""
        return self.op.bytes_needed(self.session.library, 0)

    def timed(self, count: int, copies: int, sets: Sequence[Caches]) -> TimedGraph:
        """`copies` evaluations of width `count`, over the sets of caches in turn."""
        made = self._inputs(0, count)
        return TimedGraph(
            self.session, count, copies,
            lambda context, i: self._build(context, count, sets[i % len(sets)]), lambda i: made,
        )  # fmt: skip

    def close(self) -> None:
        """Free the caches and every graph."""
        self.blocks.close()
        if self.weights is not None:
            self.weights.close()
