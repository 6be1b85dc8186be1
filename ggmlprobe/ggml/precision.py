"""The precision a product accumulates in: which function sets it, and which number asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ggmlprobe.errors import SymbolMissing, Unsupported, UsageError

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library
    from ggmlprobe.ggml.symbols import Symbols

PRECISIONS = ("default", "f32")


def number_of_f32(c: Symbols) -> int:
    """Return GGML_PREC_F32 of enum ggml_prec in ggml.h: 1 in March 2025, 10 in June of that year.

    Raises:
        Unsupported: a library from between.
    """
    if c.has("ggml_gelu_erf"):
        return 10
    if c.has("ggml_is_contiguous_channels"):
        raise Unsupported(
            "this libggml is of April or May 2025, when the number of precision f32 changed; "
            "give another build, or --prec default"
        )
    return 1


def set_acc(lib: Library, product: Any, prec: str) -> None:
    """Ask for a product's accumulation precision.

    Args:
        product: ggml_tensor pointer.
        prec: one of `PRECISIONS`.

    Raises:
        UsageError: another precision.
        SymbolMissing: the library cannot set it for this op.
        Unsupported: which number stands for it there is not known.
    """
    if prec not in PRECISIONS:
        raise UsageError(f"precision {prec} is unknown; use {' or '.join(PRECISIONS)}")
    c = lib.c
    number = number_of_f32(c) if prec == "f32" else 0
    if c.has("ggml_prec_set_acc"):
        if not c.ggml_prec_set_acc(product, number):
            raise SymbolMissing(
                f"ggml_prec_set_acc refuses {prec} for this op; use another precision"
            )
    elif lib.text(c.ggml_op_desc(product)).upper() == "FLASH_ATTN_EXT":
        c.ggml_flash_attn_ext_set_prec(product, number)
    else:
        c.ggml_mul_mat_set_prec(product, number)
