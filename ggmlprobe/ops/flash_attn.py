"""FLASH_ATTN_EXT as llama.cpp builds it: permuted Q, and permuted views of the K and V caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.ops.attention import Attention, AttentionInputs
from ggmlprobe.ops.base import Session, opened
from ggmlprobe.ops.caches import AttentionEvaluator, Caches, Shape


@dataclass(frozen=True)
class FlashAttn(Attention):
    """Parameters as in `Attention`; every type the library can quantize to for K and V."""

    OP: ClassVar[str] = "FLASH_ATTN_EXT"

    def prepare(self, session: Session, weights_seed: int, widest: int) -> FlashAttnEvaluator:
        """An open evaluator: caches allocated."""
        return opened(FlashAttnEvaluator(self, session, widest))


class FlashAttnEvaluator(AttentionEvaluator):
    """K and V caches in a buffer of their own; per width a graph with Q, mask, sinks and dst."""

    def _shapes(self) -> tuple[Shape, Shape | None]:
        op = self.op
        ne = (op.n_kv, op.streams)
        v = None if op.v_is_view_of_k else (op.type_V, (op.hsv * op.nh, *ne))
        return (op.type_K, (op.hsk * op.nh, *ne)), v

    def _cache_view(self, context: Context, cache: Tensor, cache_hs: int, hs: int) -> Tensor:
        """llama_kv_cache::get_k: the cache as [hs, nh, n_kv, streams], then heads outermost."""
        op = self.op
        row = self.session.library.row_size
        cell = row(cache.type, cache_hs * op.nh)
        nb = (row(cache.type, cache_hs), cell, cell * op.n_kv)
        view = context.view_4d(cache, (hs, op.nh, op.n_kv, op.streams), nb, 0)
        return context.permute(view, (0, 2, 1, 3))

    def _build(
        self, context: Context, count: int, caches: Caches
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        op = self.op
        made = {"q": context.new_tensor("f32", (op.hsk, op.heads, count, op.streams), "q")}
        k = self._cache_view(context, caches.k, op.hsk, op.hsk)
        if caches.v is None:
            v = self._cache_view(context, caches.k, op.hsk, op.hsv)
        else:
            v = self._cache_view(context, caches.v, op.hsv, op.hsv)
        if op.mask:
            made["mask"] = context.new_tensor("f16", (op.n_kv, count, 1, op.streams), "mask")
        q = context.permute(made["q"], (0, 2, 1, 3))
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
        self.k.set(made.k)
        if made.v is not None and self.v is not None:
            self.v.set(made.v)
        self._take(made)
