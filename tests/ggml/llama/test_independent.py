"""Logits against a C program that shares no code with the package, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ggmlprobe.ggml.llama.context import ModelContext
from ggmlprobe.ggml.llama.model import Model

PROMPT = "Explain the Pythagorean theorem"
N, WIDTH = 4, 3


def fnv1a(row: np.ndarray) -> str:
    """FNV-1a of 64 bits over a row's bytes."""
    value = 0xCBF29CE484222325
    for byte in row.tobytes():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def seen(ctx: ModelContext, tokens: list[int], n: int, width: int) -> Iterator[list[str]]:
    """The program's cells by ModelContext: its method once more."""
    tokens, start = list(tokens), len(tokens) - 1

    def restart(count: int) -> None:
        ctx.clear()
        if count:
            ctx.decode(tokens[:count], 0, "none")

    ar = []
    restart(start)
    for i in range(n):
        ar.append(ctx.decode(tokens[-1:], start + i)[0])
        tokens.append(int(ar[-1].argmax()))
    for t in range(n):
        first, count = start + t, min(width, n - t)
        restart(first)
        single = [ctx.decode([tokens[first + j]], first + j)[0] for j in range(count)]
        restart(first)
        block = ctx.decode(tokens[first : first + count], first, "all")
        for j in range(count):
            token, rows = tokens[first + j + 1], (ar[t + j], single[j], block[j])
            numbers = [t, j, token, *(float(row[token]).hex() for row in rows)]
            numbers += [int(row.argmax()) for row in rows]
            yield [str(number) for number in numbers] + [fnv1a(row) for row in rows]


def canonical(cells: list[list[str]]) -> list[list[str]]:
    """C and Python write the same hexadecimal float in different ways."""
    return [[*c[:3], *(float.fromhex(x).hex() for x in c[3:6]), *c[6:]] for c in cells]


@pytest.mark.parametrize("fa", [False, True])
def test_smollm2(
    smol: Model, context: Callable[..., ModelContext], smollm2: Path,
    model_compare: Callable[..., list[list[str]]], fa: bool,
) -> None:  # fmt: skip
    cells = canonical(model_compare(smollm2, PROMPT, n=N, width=WIDTH, fa=fa))
    ctx = context(smol, n_ctx=1024, fa="on" if fa else "off")
    mine = list(seen(ctx, smol.tokenize(PROMPT), N, WIDTH))
    assert mine == cells
    assert len(cells) == 3 * N - 3
