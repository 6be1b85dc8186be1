"""Nodes on a block's own values: the sources of some tokens as a narrower graph has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ggmlprobe.errors import Unsupported
from ggmlprobe.model.graph import Seen, Source
from ggmlprobe.model.inplace import Filled, Tokens, evaluator, why_not

CELLS, HEADS, WIDEST = 4, 3, 5


def strides(ne: tuple[int, ...]) -> tuple[int, ...]:
    """Of a tensor without gaps."""
    return (4, 4 * ne[0], 4 * ne[0] * ne[1], 4 * ne[0] * ne[1] * ne[2])


def seen(width: int) -> Seen:
    """A soft_max over [cells, tokens, heads] with a scale for each cell."""
    ne = (CELLS, width, HEADS, 1)
    fixed = (CELLS, 1, 1, 1)
    sources = (
        Source(0, "kq", "f32", ne, strides(ne), "CPU", ""),
        Source(None, "w", "f32", fixed, strides(fixed), "CPU", "w"),
    )
    return Seen("p", "MUL", "MUL", "f32", ne, strides(ne), "CPU", bytes(64), "", sources)


KQ = np.arange(HEADS * WIDEST * CELLS, dtype=np.float32).reshape(HEADS, WIDEST, CELLS)
W = np.array([1, 2, 3, 4], np.float32)
TOKENS = Tokens(
    {width: seen(width) for width in (1, 2, WIDEST)}, [KQ.view(np.uint8).ravel(), W.view(np.uint8)]
)


def multiply(node: Seen, sources: list[Filled], width: int) -> np.ndarray:
    """The op, exactly."""
    kq = sources[0].data.view(np.float32).reshape(HEADS, width, CELLS)
    out: np.ndarray = (kq * sources[1].data.view(np.float32)).view(np.uint8).ravel()
    return out


@pytest.mark.parametrize(("first", "count"), [(0, 1), (3, 1), (4, 1), (0, 2), (2, 2), (0, 5)])
def test_tokens_are_taken_out_of_the_widest_block(first: int, count: int) -> None:
    out = evaluator(TOKENS, multiply)(first, count)
    expected = (KQ * W).transpose(1, 0, 2).reshape(WIDEST, -1)
    assert np.array_equal(out, expected[first : first + count])


def test_what_has_no_tokens_is_the_same_at_every_width() -> None:
    assert np.array_equal(TOKENS.sources(1, 1)[1].data.view(np.float32), W)


def test_tokens_that_cannot_be_told_are_refused() -> None:
    odd = replace(seen(1), ne=(CELLS + 1, 1, HEADS, 1))
    with pytest.raises(Unsupported):
        evaluator(Tokens({1: odd, WIDEST: seen(WIDEST)}, TOKENS.data), multiply)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"kind": "CONT"}, "moves values"),
        ({"kind": "VIEW"}, "moves values"),
        ({"type": "f16"}, "gives f16"),
    ],
)
def test_what_is_not_probed(changes: dict[str, str], why: str | None) -> None:
    node = replace(seen(1), **changes)
    assert why_not(node, [node]) == why


def test_a_state_is_not_handed_on_so_its_readers_are_not_probed() -> None:
    writer = replace(seen(1), kind="CPY", state="w")
    assert why_not(seen(1), [seen(1), writer]) == "reads a state"
