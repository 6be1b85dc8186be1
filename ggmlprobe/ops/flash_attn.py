"""FLASH_ATTN_EXT as llama.cpp builds it: permuted Q, and permuted views of the K and V caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.mask import row_multiple
from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.ops.attention import Attention, AttentionInputs
from ggmlprobe.ops.base import Session, opened
from ggmlprobe.ops.caches import AttentionEvaluator, Caches, Shape

LAYOUTS = ("cache", "contiguous")


@dataclass(frozen=True)
class FlashAttn(Attention):
    """Parameters as in `Attention`; every type the library can quantize to for K and V.

    Attributes:
        layout: "cache" as llama.cpp has it, heads inside cells; "contiguous" with heads outermost.
    """

    OP: ClassVar[str] = "FLASH_ATTN_EXT"

    layout: str = "cache"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layout not in LAYOUTS:
            raise UsageError(f"--layout must be one of {', '.join(LAYOUTS)}, not {self.layout}")

    def _variables(self, width: int | None) -> dict[str, Any]:
        permute = (0, 2, 1, 3) if self.layout == "cache" else (0, 1, 2, 3)
        return super()._variables(width) | {"permute": permute}

    def params(self) -> dict[str, Any]:
        """Parameters under upstream's names, without the width."""
        return super().params() | {"layout": self.layout}

    def prepare(self, session: Session, weights_seed: int, widest: int) -> FlashAttnEvaluator:
        """An open evaluator: caches allocated."""
        return opened(FlashAttnEvaluator(self, session, widest))


class FlashAttnEvaluator(AttentionEvaluator):
    """K and V caches in a buffer of their own; per width a graph with Q, mask, sinks and dst."""

    op: FlashAttn

    def _shapes(self) -> tuple[Shape, Shape | None]:
        op = self.op
        ne = (op.n_kv, op.streams)
        v = None if op.v_is_view_of_k else (op.type_V, (op.hsv * op.nh, *ne))
        return (op.type_K, (op.hsk * op.nh, *ne)), v

    def _cache_view(self, context: Context, cache: Tensor, cache_hs: int, hs: int) -> Tensor:
        """llama_kv_cache::get_k: the cache as [hs, nh, n_kv, streams], then heads outermost."""
        op = self.op
        row = self.session.library.row_size(cache.type, cache_hs)
        if not self._inside:
            nb = (row, row * op.n_kv, row * op.n_kv * op.nh)
            return context.view_4d(cache, (hs, op.n_kv, op.nh, op.streams), nb, 0)
        nb = (row, row * op.nh, row * op.nh * op.n_kv)
        view = context.view_4d(cache, (hs, op.nh, op.n_kv, op.streams), nb, 0)
        return context.permute(view, (0, 2, 1, 3))

    @property
    def _inside(self) -> bool:
        """Whether heads lie inside cells, and inside tokens."""
        return self.op.layout == LAYOUTS[0]

    def _query(self, context: Context, count: int) -> tuple[Tensor, Tensor]:
        """Q in memory, and as the op sees it: [hsk, count, heads, streams]."""
        op = self.op
        if not self._inside:
            q = context.new_tensor("f32", (op.hsk, count, op.heads, op.streams), "q")
            return q, q
        q = context.new_tensor("f32", (op.hsk, op.heads, count, op.streams), "q")
        return q, context.permute(q, (0, 2, 1, 3))

    def _inputs(self, first: int, count: int) -> dict[str, np.ndarray]:
        made = super()._inputs(first, count)
        if not self._inside:
            made["q"] = np.ascontiguousarray(made["q"].swapaxes(1, 2))
        if self.op.mask:
            below = ((0, 0), (0, self._mask_rows(count) - count), (0, 0))
            made["mask"] = np.pad(made["mask"], below, constant_values=-np.inf)
        return made

    def _mask_rows(self, count: int) -> int:
        """Rows of the mask: one for each token, more where the library wants it padded."""
        multiple = row_multiple(self.session.library)
        return -(-count // multiple) * multiple

    def _build(
        self, context: Context, count: int, caches: Caches
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        op = self.op
        stored, q = self._query(context, count)
        made = {"q": stored}
        k = self._cache_view(context, caches.k, op.hsk, op.hsk)
        if caches.v is None:
            v = self._cache_view(context, caches.k, op.hsk, op.hsv)
        else:
            v = self._cache_view(context, caches.v, op.hsv, op.hsv)
        if op.mask:
            rows = self._mask_rows(count)
            made["mask"] = context.new_tensor("f16", (op.n_kv, rows, 1, op.streams), "mask")
        out = context.op(
            "flash_attn_ext", q, k, v, made.get("mask"),
            op.scale, float(op.max_bias), float(op.logit_softcap),
        )  # fmt: skip
        if op.sinks:
            made["sinks"] = context.new_tensor("f32", (op.heads,), "sinks")
            context.call("flash_attn_ext_add_sinks", out, made["sinks"])
        if op.prec != "default":
            context.set_prec(out, op.prec)
        return made, [out]

    def load(self, seed: int) -> None:
        """Fill the caches and make the queries of all tokens."""
        made = AttentionInputs(self.op, self.session, seed, self.widest)
        for tensor, data in ((self.k, made.k), (self.v, made.v)):
            if tensor is not None and data is not None:
                tensor.set(data if self._inside else np.ascontiguousarray(data.swapaxes(1, 2)))
        self._take(made)
