"""The weights of a case: one tensor in a buffer of its own, as llama.cpp places a model's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ggmlprobe.errors import Unsupported
from ggmlprobe.ggml.computing import WeightPlace
from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.weights_file import tensor_name

if TYPE_CHECKING:
    from ggmlprobe.ops.base import Blocks, Session

Use = Callable[[Context, int, "Weights"], tuple[dict[str, Tensor], list[Tensor]]]
TRIED = 512
"""Tokens of the op that llama.cpp asks a buffer type about (weight_buft_supported)."""


def real(source: str) -> dict[str, str]:
    """What a case says of weights that are not random: the tensor's name."""
    return {"weights": tensor_name(source)} if source else {}


def support(session: Session, blocks: Blocks, type_a: str, type_b: str) -> None:
    """Raise Unsupported where the device does not run the op with its weights where they are.

    A buffer type that repacks, such as CPU_REPACK, takes only some types and shapes.
    """
    try:
        blocks.support()
    except Unsupported as error:
        if session.buft in (None, session.backend.info.bufts[0]):
            raise
        times = "" if type_b == "f32" else f" times {type_b}"
        raise Unsupported(
            f"{session.buft} does not take {type_a} weights of this shape{times}"
        ) from error


class Weights:
    """A tensor with usage WEIGHTS in the session's buffer type, never a view.

    Args:
        ne: dimensions in memory, fastest first.
        use: (context, tokens, these weights) to (inputs, nodes): the op over them.

    Attributes:
        buft: name of the buffer type. size: bytes of the buffer.
    """

    def __init__(self, session: Session, type_name: str, ne: Sequence[int], use: Use) -> None:
        self._session, self._type, self._ne = session, type_name, ne
        *others, last = session.backend.weight_places(session.buft)
        # the last one is taken whatever comes: whether the op runs there is asked with the graph
        if not any(self._put(place, use) for place in others):
            self._put(last)

    def _put(self, place: WeightPlace, use: Use | None = None) -> bool:
        """Give the tensor memory; where its use cannot be computed there, take it away again."""
        session, self.buft = self._session, place.buft
        self._context = Context(session.library)
        self.tensor = self._context.new_tensor(self._type, self._ne, "a")
        try:
            buffer = self._context.allocate(session.backend, place.buft, usage="weights")
            fits = use is None or self._runs(place, use)
        except BaseException:
            self.close()
            raise
        self.size = buffer.size
        if not fits:
            self.close()
        return fits

    def _runs(self, place: WeightPlace, use: Use) -> bool:
        with Context(self._session.library) as scratch:
            _, nodes = use(scratch, TRIED, self)
            # views have a buffer only once they are allocated
            scratch.allocate(self._session.backend)
            return place.supports(nodes[-1])

    def fill(self, chunks: Iterable[np.ndarray]) -> None:
        """Set the data; buffer types that repack (CPU_REPACK, AMX) take a tensor only whole."""
        if self.buft != self._session.backend.info.bufts[0]:
            chunks = [np.concatenate([np.ravel(chunk) for chunk in chunks])]
        offset = 0
        for chunk in chunks:
            self.tensor.set(chunk, offset)
            offset += chunk.nbytes

    def close(self) -> None:
        """Free the buffer."""
        self._context.close()
