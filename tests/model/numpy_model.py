"""A small causal model in numpy, with the faults that a test plants."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import numpy as np

VOCABULARY = 40
DEPTH = 16
Planted = Callable[[np.ndarray, int, int], None]


class NumpyModel:
    """A decoder whose logits depend on all tokens so far, the same however they are batched.

    Args:
        block: changes the logits [n_vocab] of a decode of several tokens in place; gets the
            position and the offset in the batch.
        single: the same for decodes of one token.
        prefilled: what a token adds to the memory if it came in a batch and not alone: makes the
            drift of prefill against incremental decode.
        recurrent: the memory cannot be rolled back.
    """

    def __init__(
        self, block: Planted | None = None, single: Planted | None = None,
        prefilled: float = 0.0, recurrent: bool = False,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(5)
        self.embed = rng.standard_normal((VOCABULARY, DEPTH))
        self.head = rng.standard_normal((DEPTH, VOCABULARY))
        self.block, self.single = block, single
        self.prefilled, self.recurrent = prefilled, recurrent
        self.memory: list[np.ndarray] = []
        self.calls: list[tuple[int, int]] = []
        self.cleared = self.saved = 0

    def clear(self) -> None:
        self.memory = []
        self.cleared += 1

    def decode(self, tokens: Sequence[int], first_pos: int, logits: str = "last") -> np.ndarray:
        assert first_pos == len(self.memory), "a position skipped or written twice"
        assert tokens
        self.calls.append((first_pos, len(tokens)))
        rows = []
        for offset, token in enumerate(tokens):
            batched = self.prefilled if len(tokens) > 1 else 0.0
            self.memory.append(self.embed[token] + batched)
            ages = np.arange(len(self.memory))[::-1]
            state = (np.array(self.memory) * (0.8**ages)[:, None]).sum(axis=0)
            row = (np.tanh(state) @ self.head).astype(np.float32)
            planted = self.block if len(tokens) > 1 else self.single
            if planted is not None:
                planted(row, first_pos + offset, offset)
            rows.append(row)
        kept = {"all": rows, "last": rows[-1:], "none": []}[logits]
        return np.array(kept, dtype=np.float32).reshape(len(kept), VOCABULARY)

    def rollback(self, pos: int) -> bool:
        if self.recurrent:
            return False
        del self.memory[pos:]
        return True

    def save(self) -> bytes:
        self.saved += 1
        return pickle.dumps(self.memory)

    def restore(self, state: bytes) -> None:
        self.memory = pickle.loads(state)
