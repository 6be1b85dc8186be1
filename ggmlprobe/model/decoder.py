"""The few calls a method needs of a model's context, so that it is tested without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ggmlprobe.errors import UsageError
from ggmlprobe.model.logits import Row


class Decoder(Protocol):
    """One sequence of one context."""

    def clear(self) -> None:
        """Wipe the whole memory."""

    def decode(
        self, tokens: Sequence[int], first_pos: int, logits: Literal["last", "all", "none"] = "last"
    ) -> np.ndarray:
        """Evaluate tokens as one batch; float32 [rows, n_vocab]."""

    def rollback(self, pos: int) -> bool:
        """Forget every position from `pos` on; False where the memory cannot."""

    def save(self) -> bytes:
        """The state of the memory."""

    def restore(self, state: bytes) -> None:
        """Put a saved state back."""


@dataclass(frozen=True)
class Run:
    """A greedy run of n tokens; end-of-generation tokens do not stop it.

    Attributes:
        prompt: tokens of the prompt.
        tokens: tokens generated, AR[0..n-1].
        rows: rows[i] is what AR[i] is the argmax of; fewer than n where not all were kept.
        logits: the logit of AR[i] in it, for all i.
    """

    prompt: list[int]
    tokens: list[int]
    rows: list[Row]
    logits: list[float]

    def start(self, window: int) -> int:
        """Position of the first token that window t evaluates."""
        return len(self.prompt) - 1 + window

    def prefix(self, window: int) -> list[int]:
        """Tokens before a window: the prompt without its last token, then AR tokens."""
        return (self.prompt + self.tokens)[: self.start(window)]

    def inputs(self, window: int, width: int) -> list[int]:
        """Tokens that a window evaluates; at the end of the run fewer than its width."""
        begin = self.start(window)
        last = len(self.prompt) + len(self.tokens) - 1
        return (self.prompt + self.tokens)[begin : min(begin + width, last)]


def restart(decoder: Decoder, prefix: Sequence[int]) -> None:
    """Wipe the memory and evaluate a prefix as one batch."""
    decoder.clear()
    if prefix:
        decoder.decode(prefix, 0, "none")


def greedy(
    decoder: Decoder,
    prompt: Sequence[int],
    n: int,
    keep: int | None = None,
    before: Callable[[int], None] = lambda step: None,
) -> Run:
    """Generate n tokens, one evaluation each.

    Args:
        keep: rows to keep; all of them by default.
        before: called with i when the state is that in which AR[i] will be computed.

    Raises:
        UsageError: a prompt without tokens.
    """
    if not prompt:
        raise UsageError("the prompt has no tokens: give a longer one")
    run = Run(list(prompt), [], [], [])
    restart(decoder, prompt[:-1])
    token = prompt[-1]
    for i in range(n):
        before(i)
        row = Row(decoder.decode([token], run.start(i), "last")[0])
        token = row.top
        run.tokens.append(token)
        run.logits.append(row[token])
        if keep is None or i < keep:
            run.rows.append(row)
    return run
