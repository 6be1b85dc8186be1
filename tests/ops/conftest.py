"""A session on the CPU of the library under test, and tensors read back from its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ggmlprobe.compare import UNWRITTEN
from ggmlprobe.ggml import quants
from ggmlprobe.ggml.device import Backend
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.tensor import Tensor
from ggmlprobe.ops.base import Session
from ggmlprobe.pool import PoolStore

Read = Callable[..., np.ndarray]
Check = Callable[[Any, np.ndarray, float], None]


@pytest.fixture(scope="session")
def pools(library: Library) -> PoolStore:
    """Return pools that are kept in memory only."""
    return PoolStore(library, None, threads=2)


@pytest.fixture
def session(library: Library, pools: PoolStore) -> Iterator[Session]:
    """Return the CPU with one thread."""
    backend = Backend(library, "CPU")
    yield Session(library, backend, pools)
    backend.free()


@pytest.fixture(scope="session")
def read(library: Library) -> Read:
    """Return a function from a tensor and its dimensions, slowest first, to float64 of them."""

    def from_memory(tensor: Tensor, *shape: int) -> np.ndarray:
        size = library.row_size(tensor.type, shape[-1])
        rows = tensor.get(np.uint8).reshape(-1, size)
        values = quants.dequantize(library, tensor.type, rows, shape[-1])
        return values.astype(np.float64).reshape(shape)

    return from_memory


def nmse(out: np.ndarray, exact: np.ndarray) -> float:
    """Return the error of `out` relative to the power of `exact`."""
    return float(((out - exact) ** 2).sum() / (exact**2).sum())


@pytest.fixture(scope="session")
def check() -> Check:
    """Return a check of an evaluator against the exact outputs [tokens, E] of its inputs."""

    def against(evaluator: Any, exact: np.ndarray, bound: float) -> None:
        tokens = len(exact)
        block = evaluator.evaluate(0, tokens)
        assert (block.dtype, block.shape) == (np.float32, exact.shape)
        assert not (block.view(np.uint32) == UNWRITTEN).any()
        assert nmse(block, exact) < bound
        # block columns must not be mixed up among themselves
        for token in range(tokens):
            assert nmse(block[token], exact[token]) < 4 * bound
            assert nmse(evaluator.evaluate(token, 1)[0], exact[token]) < 4 * bound
            reference, magnitude = evaluator.reference(token)
            assert nmse(reference, exact[token]) < 1e-24
            assert (magnitude >= np.abs(reference) * (1 - 1e-12)).all()
        assert nmse(evaluator.evaluate(1, tokens - 1), exact[1:]) < bound

    return against
