"""To how many rows a library wants the mask of FLASH_ATTN_EXT padded, asked of itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from ggmlprobe.ggml.child import CAN_FORK, in_child
from ggmlprobe.ggml.tensor import Context

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

# GGML_KQ_MASK_PAD of ggml.h until late 2025; 32 before March of that year, which 64 is good for.
KQ_MASK_PAD = 64


@cache
def row_multiple(lib: Library) -> int:
    """Return of what number the rows of a mask are a multiple: 1, or KQ_MASK_PAD.

    A library that wants it padded aborts on any other, so that one is built in a forked child; its
    version does not tell, for 0.9.4 was both. Where nothing can be forked, 1.
    """
    if not CAN_FORK:
        return 1

    def work(say: Callable[[str], None]) -> None:
        with Context(lib) as ctx:
            q, k, v = (ctx.new_tensor("f32", (64, 1, 1, 1)) for _ in "qkv")
            ctx.op("flash_attn_ext", q, k, v, ctx.new_tensor("f16", (1, 1, 1, 1)), 1.0, 0.0, 0.0)
        say("built")

    return 1 if in_child(work) else KQ_MASK_PAD
