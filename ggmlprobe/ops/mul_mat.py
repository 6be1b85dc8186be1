"""MUL_MAT: src0 [k, m, bs] of any type times src1 [k, n, bs * nr]; a token is a column of src1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.tensor import Context, Tensor
from ggmlprobe.ops.activations import Activations, check_distribution
from ggmlprobe.ops.base import (
    Session,
    case_text,
    nmse_bound,
    nondefault,
    opened,
)
from ggmlprobe.ops.products import ProductEvaluator
from ggmlprobe.ops.weights import Weights, real

IDENTITY = (0, 1, 2, 3)


@dataclass(frozen=True)
class MulMat:
    """Parameters under upstream's names (struct test_mul_mat in tests/test-backend-ops.cpp).

    Attributes:
        type_a: type of the weights, src0 [k, m, bs[0], bs[1]].
        type_b: type of the activations, src1 [k, n, bs[0]*nr[0], bs[1]*nr[1]].
        bs: batch in dimensions 3 and 4.
        nr: how often src0 is broadcast in dimensions 3 and 4.
        per: permutation of the dimensions of both sources.
        k_v: k in memory, for a non-contiguous view; 0 for none.
        prec: "default" or "f32", as ggml_prec_set_acc takes it.
        activations: "normal", or "outliers" with a few channels 32 times as large.
        source: FILE#TENSOR of a GGUF whose rows are the weights, "" for random ones.
    """

    OP: ClassVar[str] = "MUL_MAT"

    type_a: str = "q4_K"
    type_b: str = "f32"
    m: int = 4096
    k: int = 14336
    bs: tuple[int, int] = (1, 1)
    nr: tuple[int, int] = (1, 1)
    per: tuple[int, int, int, int] = IDENTITY
    k_v: int = 0
    prec: str = "default"
    activations: str = "normal"
    source: str = ""

    def __post_init__(self) -> None:
        if min(self.m, self.k, *self.bs, *self.nr) < 1:
            raise UsageError("m, k, bs and nr must be at least 1")
        if sorted(self.per) != [0, 1, 2, 3]:
            raise UsageError(f"--per must be an order of 0,1,2,3, not {self.per}")
        if self.per[0] != 0:
            raise UsageError("--per must begin with 0: ggml multiplies no transposed matrices")
        if self.k_v and (self.k_v <= self.k or self.per != IDENTITY):
            raise UsageError("--k-v must be larger than k, and excludes --per")
        check_distribution(self.activations)

    def _variables(self, width: int | None) -> dict[str, Any]:
        return {
            "type_a": self.type_a, "type_b": self.type_b, "m": self.m, "n": width, "k": self.k,
            "bs": self.bs, "nr": self.nr, "per": self.per, "k_v": self.k_v, "o": 1,
            "src_overlap": 0, "m_v": 0, "pad": 0,
        }  # fmt: skip

    def upstream_case(self, width: int) -> str:
        """The string test-backend-ops prints for this case at this width."""
        return case_text(self.OP, **self._variables(width))

    def case(self) -> str:
        """The same without n, with what upstream's string has no variable for."""
        extra = nondefault(self, "prec", "activations") | real(self.source)
        return case_text(self.OP, **self._variables(None), **extra)

    def params(self) -> dict[str, Any]:
        """Parameters under upstream's names, without the width."""
        return {
            "type_a": self.type_a, "type_b": self.type_b, "m": self.m, "k": self.k,
            "bs": list(self.bs), "nr": list(self.nr), "per": list(self.per), "k_v": self.k_v,
            "prec": self.prec, "activations": self.activations,
        } | real(self.source)  # fmt: skip

    def rows(self) -> tuple[tuple[str, int], ...]:
        """Types the library must have, each with the length of a row of it."""
        return ((self.type_a, self.k), (self.type_b, self.k))

    def bound(self, features: Mapping[str, str]) -> float:
        """Upstream's max_nmse_err(), which holds for inputs as upstream's, without outliers."""
        return nmse_bound(self.type_a, features) if self.activations == "normal" else math.inf

    def bytes_needed(self, library: Library, widest: int) -> int:
        """Bytes of src0, src1 and dst at the widest width."""
        batch_a, batch = self.bs[0] * self.bs[1], self.batch
        weights = library.row_size(self.type_a, self.k_v or self.k) * self.m * batch_a
        columns = library.row_size(self.type_b, self.k_v or self.k) + 4 * self.m
        return weights + columns * batch * widest

    def flops(self, width: int) -> int:
        """Upstream's op_flops()."""
        return 2 * self.m * width * self.k * self.batch

    @property
    def rows_a(self) -> int:
        """Rows of all matrices in src0."""
        return self.m * self.bs[0] * self.bs[1]

    @property
    def batch(self) -> int:
        """Matrices in src1 and dst."""
        return self.bs[0] * self.nr[0] * self.bs[1] * self.nr[1]

    def prepare(self, session: Session, weights_seed: int, widest: int) -> MulMatEvaluator:
        """An open evaluator: src0 allocated and filled."""
        return opened(MulMatEvaluator(self, session, weights_seed, widest, self.batch))


class MulMatEvaluator(ProductEvaluator):
    """src0 in a buffer of its own; per width a graph with src1 and dst."""

    op: MulMat

    @property
    def _stored_ne_a(self) -> tuple[int, ...]:
        return self._stored_ne((self.op.k, self.op.m, *self.op.bs))

    @property
    def _rows_a(self) -> int:
        return self.op.rows_a

    def weights_read(self, count: int) -> int:
        """Bytes of src0."""
        return self.session.library.row_size(self.op.type_a, self.op.k) * self.op.rows_a

    def _stored_ne(self, ne: tuple[int, ...]) -> tuple[int, ...]:
        """Dimensions in memory: permuted, or with the longer rows of a view."""
        if self.op.k_v:
            return (self.op.k_v, *ne[1:])
        return tuple(ne[axis] for axis in self.op.per)

    def _stored_a(self) -> Iterable[np.ndarray]:
        op, index = self.op, np.arange(self.op.rows_a)
        shape = (op.bs[1], op.bs[0], op.m)
        order = [3 - axis for axis in reversed(op.per[1:])]
        row_size = self.session.library.row_size(op.type_a, op.k_v or op.k)
        return self.pool.layout(index.reshape(shape).transpose(order).ravel(), row_size)

    def _view(self, context: Context, tensor: Tensor, ne: tuple[int, ...]) -> Tensor:
        """The tensor as the op sees it: permuted back, or without the tail of each row."""
        op = self.op
        if op.k_v:
            row = self.session.library.row_size(tensor.type, op.k_v)
            return context.view_4d(tensor, ne, (row, row * ne[1], row * ne[1] * ne[2]), 0)
        return tensor if op.per == IDENTITY else context.permute(tensor, op.per)

    def _build(
        self, context: Context, count: int, weights: Weights
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        op = self.op
        ne_b = (op.k, count, op.bs[0] * op.nr[0], op.bs[1] * op.nr[1])
        b = context.new_tensor(op.type_b, self._stored_ne(ne_b), "b")
        out = context.op(
            "mul_mat",
            self._view(context, weights.tensor, (op.k, op.m, *op.bs)),
            self._view(context, b, ne_b),
        )
        if op.prec != "default":
            context.set_prec(out, op.prec)
        return {"b": b}, [out]

    def load(self, seed: int) -> None:
        """Activations of all tokens: [tokens, batch, k], kept as the type holds them."""
        op = self.op
        shape = (self.widest, op.batch)
        self.x = Activations(self.session, op.type_b, shape, op.k, seed, op.activations)
        self.products = self.x.products(self.pool)

    def _inputs(self, first: int, count: int) -> dict[str, np.ndarray]:
        return {"b": self._stored_b(self.x.data[first : first + count])}

    def _stored_b(self, data: np.ndarray) -> np.ndarray:
        """Rows [count, batch, bytes] in the order of src1 in memory."""
        op, count = self.op, len(data)
        rows = np.ascontiguousarray(data.transpose(1, 0, 2))
        if op.k_v:
            tail = self.session.library.row_size(op.type_b, op.k_v) - rows.shape[-1]
            return np.pad(rows, ((0, 0), (0, 0), (0, tail)))
        if op.per == IDENTITY:
            return rows
        shape = (op.bs[1] * op.nr[1], op.bs[0] * op.nr[0], count)
        order = [3 - axis for axis in reversed(op.per[1:])]
        return np.ascontiguousarray(rows.reshape(*shape, -1).transpose(*order, 3))

    def reference(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """Float64 column of dst, and sum |w x| behind each element: [batch * m]."""
        op = self.op
        batch = np.arange(op.batch)
        i2, i3 = batch % (op.bs[0] * op.nr[0]), batch // (op.bs[0] * op.nr[0])
        matrix = (i3 // op.nr[1]) * op.bs[0] + i2 // op.nr[0]
        row = (matrix[:, None] * op.m + np.arange(op.m)) % len(self.pool.values)
        exact, magnitude = self.products
        picked = (batch[:, None], row)
        return exact[token][picked].ravel(), magnitude[token][picked].ravel()
