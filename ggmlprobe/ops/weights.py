"""The weights of a case: one tensor in a buffer of its own, as llama.cpp places a model's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ggmlprobe.errors import Unsupported
from ggmlprobe.ggml.tensor import Context
from ggmlprobe.weights_file import tensor_name

if TYPE_CHECKING:
    from ggmlprobe.ops.base import Blocks, Session


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

    Attributes:
        size: bytes of the buffer.
    """

    def __init__(self, session: Session, type_name: str, ne: Sequence[int]) -> None:
        self._whole = session.buft is not None
        self._context = Context(session.library)
        self.tensor = self._context.new_tensor(type_name, ne, "a")
        try:
            buffer = self._context.allocate(session.backend, session.buft, usage="weights")
        except BaseException:
            self._context.close()
            raise
        self.size = buffer.size

    def fill(self, chunks: Iterable[np.ndarray]) -> None:
        """Set the data; buffer types that repack (CPU_REPACK, AMX) take a tensor only whole."""
        if self._whole:
            chunks = [np.concatenate([np.ravel(chunk) for chunk in chunks])]
        offset = 0
        for chunk in chunks:
            self.tensor.set(chunk, offset)
            offset += chunk.nbytes

    def close(self) -> None:
        """Free the buffer."""
        self._context.close()
