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


# ALiBi's slopes for max_bias 8 (Press et al. 2022, and its authors' rule for 6 heads) and 4
SLOPES = {
    (8.0, 4): [2**-2, 2**-4, 2**-6, 2**-8],
    (8.0, 6): [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
    (4.0, 4): [2**-1, 2**-2, 2**-3, 2**-4],
}


def attend_one(op: Any, q: np.ndarray, k: np.ndarray, v: np.ndarray, at: int, head: int,
               sink: float | None) -> np.ndarray:  # fmt: skip
    """Return the attention of one query at position `at` over cells k [n, hsk] and v [n, hsv]."""
    first = max(0, at + 1 - op.window) if op.window else 0
    seen = range(first, at + 1) if op.mask else range(len(k))
    # the op takes its scale as a C float
    logits = k[seen] @ q * float(np.float32(1) / np.sqrt(np.float32(op.hsk)))
    if op.logit_softcap:
        logits = op.logit_softcap * np.tanh(logits / op.logit_softcap)
    if op.max_bias:
        logits = logits - SLOPES[op.max_bias, op.heads][head] * (at - np.array(seen))
    weights = np.exp(logits)
    total = weights.sum() + (0.0 if sink is None else np.exp(sink))
    out: np.ndarray = weights @ v[seen] / total
    return out


@pytest.fixture(scope="session")
def attend(read: Read) -> Callable[..., np.ndarray]:
    """Return attention by its definition over caches [streams, n_kv, heads, hs]."""

    def definition(evaluator: Any, k: np.ndarray, v: np.ndarray, tokens: int) -> np.ndarray:
        op, made = evaluator.op, evaluator.blocks[tokens].inputs
        evaluator.evaluate(0, tokens)
        outermost = getattr(op, "layout", "cache") == "contiguous"
        order = (op.heads, tokens) if outermost else (tokens, op.heads)
        q = read(made["q"], op.streams, *order, op.hsk)
        q = q.swapaxes(1, 2) if outermost else q
        sinks = read(made["sinks"], op.heads) if op.sinks else [None] * op.heads
        out = np.empty((tokens, op.streams, op.heads, op.hsv))
        for token, stream, head in np.ndindex(tokens, op.streams, op.heads):
            kv = (k[stream, :, head // op.nr2], v[stream, :, head // op.nr2])
            at = op.cells - tokens + token
            query = q[stream, token, head]
            out[token, stream, head] = attend_one(op, query, *kv, at, head, sinks[head])
        return out.reshape(tokens, -1)

    return definition
