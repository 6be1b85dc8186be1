"""Attention without flash attention: KQ, soft_max and KQV as llm_graph_context::build_attn_mha."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.ops.attention import Attention, AttentionInputs
from ggmlprobe.ops.base import Session, case_text, opened
from ggmlprobe.ops.caches import AttentionEvaluator, Caches, Shape
from ggmlprobe.ops.mul_mat import IDENTITY, MulMat


@dataclass(frozen=True)
class AttnNofa(Attention):
    """Parameters as in `Attention`; V is stored transposed, so its type has no blocks."""

    OP: ClassVar[str] = "ATTN_NOFA"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type_V not in ("f32", "f16", "bf16"):
            raise UsageError("attn_nofa keeps V transposed: --type-v must be f32, f16 or bf16")
        if self.v_is_view_of_k:
            raise UsageError("attn_nofa keeps V transposed: it excludes --v-is-view-of-k")

    def rows(self) -> tuple[tuple[str, int], ...]:
        """K rows are heads, V rows are channels."""
        return ((self.type_K, self.hsk), (self.type_V, self.n_kv))

    def upstream_case(self, width: int) -> str:
        """The three ops as test-backend-ops prints each; K and Q are permuted, V is contiguous."""
        kv, scale = self.n_kv, 1.0 if self.logit_softcap else self.scale
        product = MulMat(
            type_a=self.type_K, m=kv, k=self.hsk, bs=(self.nh, self.streams), nr=(self.nr2, 1),
            per=(0, 2, 1, 3),
        )  # fmt: skip
        weighted = replace(product, type_a=self.type_V, m=self.hsv, k=kv, per=IDENTITY)
        soft_max = case_text(
            "SOFT_MAX", type="f32", ne=(kv, width, 1, self.streams), mask=self.mask,
            sinks=self.sinks, m_prec="f32", nr23=(self.heads, 1), scale=scale,
            max_bias=float(self.max_bias), inplace=False,
        )  # fmt: skip
        return " ".join([product.upstream_case(width), soft_max, weighted.upstream_case(width)])

    def prepare(self, session: Session, weights_seed: int, widest: int) -> AttnNofaEvaluator:
        """An open evaluator: caches allocated."""
        return opened(AttnNofaEvaluator(self, session, widest))


class AttnNofaEvaluator(AttentionEvaluator):
    """K cache, transposed V cache; per width a graph of two products and a soft_max."""

    MASK = np.float32

    def _shapes(self) -> tuple[Shape, Shape | None]:
        op = self.op
        k = (op.type_K, (op.hsk * op.nh, op.n_kv, op.streams))
        return k, (op.type_V, (op.n_kv, op.hsv * op.nh, op.streams))

    def _build(
        self, context: Context, count: int, caches: Caches
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        assert caches.v is not None
        op, row = self.op, self.session.library.row_size
        made = {"q": context.new_tensor("f32", (op.hsk, op.heads, count, op.streams), "q")}
        cell = row(op.type_K, op.hsk * op.nh)
        k = context.view_4d(
            caches.k, (op.hsk, op.nh, op.n_kv, op.streams),
            (row(op.type_K, op.hsk), cell, cell * op.n_kv), 0,
        )  # fmt: skip
        channel = row(op.type_V, op.n_kv)
        v = context.view_4d(
            caches.v, (op.n_kv, op.nh, op.hsv, op.streams),
            (channel * op.hsv, channel, channel * op.hsv * op.nh), 0,
        )  # fmt: skip
        q, k, v = (context.permute(tensor, (0, 2, 1, 3)) for tensor in (made["q"], k, v))
        kq = context.op("mul_mat", k, q)
        context.set_prec(kq, op.prec)
        nodes = [kq, *self._capped(context, kq)]
        if op.mask:
            made["mask"] = context.new_tensor("f32", (op.n_kv, count, 1, op.streams), "mask")
        scale = 1.0 if op.logit_softcap else op.scale
        p = context.op("soft_max_ext", nodes[-1], made.get("mask"), scale, float(op.max_bias))
        if op.sinks:
            made["sinks"] = context.new_tensor("f32", (op.heads,), "sinks")
            context.call("soft_max_add_sinks", p, made["sinks"])
        kqv = context.op("mul_mat", v, p)
        turned = context.permute(kqv, (0, 2, 1, 3))
        out = context.op("cont_2d", turned, op.hsv * op.heads, count * op.streams)
        return made, [*nodes, p, kqv, out]

    def _capped(self, context: Context, kq: Tensor) -> list[Tensor]:
        """The soft-capping nodes; upstream's models scale Q before, so the scale goes here."""
        cap = float(self.op.logit_softcap)
        if not cap:
            return []
        scaled = context.op("scale", kq, self.op.scale / cap)
        tanh = context.op("tanh", scaled)
        return [scaled, tanh, context.op("scale", tanh, cap)]

    def load(self, seed: int) -> None:
        """Fill the caches and make the queries of all tokens."""
        op = self.op
        made = AttentionInputs(op, self.session, seed, self.widest)
        assert made.v is not None
        assert self.v is not None
        self.k.set(made.k)
        size = self.session.library.types[op.type_V].type_size
        cells = made.v.reshape(op.streams, op.n_kv, op.nh * op.hsv, size)
        self.v.set(np.ascontiguousarray(cells.transpose(0, 2, 1, 3)))
        self._take(made)
