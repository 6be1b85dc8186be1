"""Two rows of logits for the same position: which bits, which argmax, how much it matters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# where exp(delta) - 1 is worth computing by itself
SMALL = 1.0


class Row:
    """A row of logits and what is derived from it once.

    Args:
        logits: float32 [n_vocab].
    """

    def __init__(self, logits: np.ndarray) -> None:
        self.logits = np.ascontiguousarray(logits, dtype=np.float32)

    def __getitem__(self, token: int) -> float:
        """The logit of a token."""
        return float(self.logits[token])

    @cached_property
    def top(self) -> int:
        """The token greedy decoding takes; of equal logits the first."""
        return int(np.argmax(self.logits))

    @cached_property
    def margin(self) -> float:
        """The largest logit minus the second."""
        if self.logits.size < 2:
            return float("inf")
        second, first = np.partition(self.logits, -2)[-2:]
        return float(first) - float(second)

    @cached_property
    def nan(self) -> bool:
        """Whether any logit is NaN."""
        return bool(np.isnan(self.logits).any())

    def log_probabilities(self) -> np.ndarray:
        """Logarithm of the softmax, float64 [n_vocab]; made anew, so that kept rows stay small."""
        shifted = self.logits.astype(np.float64) - float(self.logits.max())
        return np.asarray(shifted - np.log(np.exp(shifted).sum()))

    def same_bits(self, other: Row) -> bool:
        """Whether both rows have the same bits throughout."""
        return np.array_equal(self.logits.view(np.uint32), other.logits.view(np.uint32))


@dataclass(frozen=True)
class Change:
    """What the block path changed in one row.

    Attributes:
        elements_differing: logits that differ in bits.
        centred: change of the AR token's logit, each row's mean taken off.
        centred_max: the largest such change of any logit.
        probability: largest change of any token's probability.
        kl: divergence of the block's distribution from the single path's, in nats.
    """

    elements_differing: int = 0
    centred: float = 0.0
    centred_max: float = 0.0
    probability: float = 0.0
    kl: float = 0.0


def change(single: Row, block: Row, token: int) -> Change:
    """Compare two rows over the whole vocabulary; NaN rows give only the count of bits.

    Args:
        token: the AR token.
    """
    differing = int(np.count_nonzero(single.logits.view(np.uint32) != block.logits.view(np.uint32)))
    if not differing or single.nan or block.nan:
        return Change(differing)
    with np.errstate(invalid="ignore"):
        delta = block.logits.astype(np.float64) - single.logits
    # models may mask tokens with -inf: where both paths do, nothing changed
    delta[single.logits == block.logits] = 0.0
    finite = np.isfinite(delta)
    centred = np.where(finite, np.abs(delta - delta[finite].mean()), 0.0)
    log_p = single.log_probabilities()
    if finite.all() and np.abs(delta).max() < SMALL:
        probability, kl = _small_change(np.exp(log_p), delta)
    else:
        probability, kl = _any_change(log_p, block.log_probabilities())
    return Change(differing, float(centred[token]), float(centred.max()), probability, kl)


def _small_change(p: np.ndarray, delta: np.ndarray) -> tuple[float, float]:
    """(largest |p - q|, KL(p || q)) for q proportional to p exp(delta).

    From the differences themselves, so that nothing is lost to the size of the logits.
    """
    growth = np.expm1(delta)
    excess = float(p @ growth)
    q_minus_p = p * (growth - excess) / (1.0 + excess)
    kl = float(np.log1p(excess)) - float(p @ delta)
    return float(np.abs(q_minus_p).max()), max(0.0, kl)


def _any_change(log_p: np.ndarray, log_q: np.ndarray) -> tuple[float, float]:
    """(largest |p - q|, KL(p || q)); infinite where q lost a token that p has."""
    p = np.exp(log_p)
    there = p > 0
    kl = float((p[there] * (log_p[there] - log_q[there])).sum())
    return float(np.abs(p - np.exp(log_q)).max()), max(0.0, kl)
