"""A node of a model's graph on its own: the same op over the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggmlprobe.ggml import replay
from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.ops.base import Session

# Every float of these bytes is NaN.
UNWRITTEN = 0xFF


@dataclass(frozen=True)
class Array:
    """A tensor's bytes, strides included.

    Attributes:
        ne: four sizes, fastest first. nb: four strides in bytes.
        data: uint8, from its first to its last value.
        buft: buffer type of a weight that needs one of its own, "" for the device's.
    """

    name: str
    type: str
    ne: tuple[int, ...]
    nb: tuple[int, ...]
    data: np.ndarray
    weight: bool = False
    buft: str = ""


@dataclass(frozen=True)
class Recorded:
    """A node as one run computed it.

    Attributes:
        op_id: the op's number in the library that ran it. params: the op's 64 bytes.
        ne: sizes of its output. out: uint8, its bytes.
    """

    op_id: int
    params: bytes
    type: str
    ne: tuple[int, ...]
    sources: Sequence[Array]
    out: np.ndarray


class Replayer:
    """Computes recorded nodes; weights stay on the device from one to the next."""

    def __init__(self, session: Session) -> None:
        """Start without weights."""
        self.session = session
        self._weights: dict[str, tuple[Context, Tensor]] = {}

    def run(self, recorded: Recorded, width: int) -> np.ndarray:
        """Compute a node of that many tokens; its bytes, uint8.

        Raises:
            Unsupported: the device does not run it by itself.
            OutOfMemory: no room.
        """
        session, library = self.session, self.session.library
        with Context(library) as context:
            tensors, filled = [], []
            for array in recorded.sources:
                if array.weight:
                    tensors.append(self._weight(array))
                    continue
                made = replay.strided(library, context, array.type, array.ne, array.nb)
                filled.append((made, array.data))
                tensors.append(made)
            out = replay.node(
                library, context, recorded.op_id, recorded.params, recorded.type, recorded.ne,
                tensors,
            )  # fmt: skip
            placed = session.backend.place(context, [({}, [out])])
            for tensor, data in filled:
                tensor.set(data)
            out.set(np.full(out.nbytes, UNWRITTEN, np.uint8))
            session.compute(placed, width)
            read: np.ndarray = out.get(np.uint8)
            return read

    def _weight(self, array: Array) -> Tensor:
        if array.name not in self._weights:
            context = Context(self.session.library)
            made = context.new_tensor(array.type, array.ne, array.name)
            try:
                context.allocate(self.session.backend, array.buft or None, usage="weights")
                made.set(array.data)
            except BaseException:
                context.close()
                raise
            self._weights[array.name] = context, made
        return self._weights[array.name][1]

    def close(self) -> None:
        """Free the weights."""
        for context, _ in self._weights.values():
            context.close()
        self._weights.clear()
