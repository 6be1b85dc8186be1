"""Checks: which pair of cases each compares, and where it does not apply."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ggmlprobe.checks import CHECKS, paired
from ggmlprobe.errors import UsageError
from ggmlprobe.ops.attn_nofa import AttnNofa
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat


def test_no_check_is_one_case() -> None:
    op = MulMat()
    assert paired(None, op) == [op]


@pytest.mark.parametrize("kind", [FlashAttn, AttnNofa])
@pytest.mark.parametrize(
    ("cells", "exact", "n_kv"), [(500, False, (512, 768)), (500, True, (500, 756))]
)
def test_kv_padding_adds_256_unused_cells_to_the_blocks(
    kind: type[Any], cells: int, exact: bool, n_kv: tuple[int, int]
) -> None:
    op = kind(cells=cells, exact=exact, window=64)
    serial, block = paired("kv-padding", op)
    assert serial == op
    assert (serial.n_kv, block.n_kv) == n_kv
    # the used cells, and with them every visible token, stay
    assert dataclasses.replace(block, extra=0) == op


@pytest.mark.parametrize("op", [MulMat(), FlashAttn(mask=False, exact=True)])
def test_kv_padding_needs_a_masked_tail(op: Any) -> None:
    with pytest.raises(UsageError, match="needs flash_attn or attn_nofa with a mask"):
        paired("kv-padding", op)


def test_an_unknown_check_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=f"one of {', '.join(CHECKS)}, not kv"):
        paired("kv", FlashAttn())
