"""MUL_MAT_ID: each token multiplies the matrices of its own experts; a token is a column of ids."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ggmlprobe import inputs
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

ROUTINGS = ("shared", "disjoint", "random", "skewed")


def route(routing: str, seed: int, tokens: int, experts: int, used: int) -> np.ndarray:
    """The experts of each token: int32 [tokens, used], distinct within a token.

    shared: all tokens go to the same experts. disjoint: no two tokens share one as far as the
    experts last, then around again. random: each token draws its own. skewed: each token draws
    from the first quarter of the experts only, so that few experts take most tokens.
    """
    if routing == "shared":
        return np.tile(inputs.permutation(seed, "routing", experts)[:used], (tokens, 1)).astype(
            "i4"
        )
    if routing == "disjoint":
        order = inputs.permutation(seed, "routing", experts)
        return order[np.arange(tokens * used).reshape(tokens, used) % experts].astype("i4")
    drawn = experts if routing == "random" else max(used, experts // 4)
    rows = [inputs.permutation(seed, f"routing {t}", drawn)[:used] for t in range(tokens)]
    return np.array(rows, "i4")


def rotate(ids: np.ndarray, used: int, turn: int) -> np.ndarray:
    """The same routing to other experts: `turn` blocks of as many as the tokens use further on.

    Args:
        ids: int32 [tokens, experts], of which the first `used` of a row count.

    Blocks are disjoint as long as the experts last, so that no cache holds the weights.
    """
    experts = ids.shape[1]
    chosen = np.unique(ids[:, :used])
    order = np.concatenate([chosen, np.setdiff1d(np.arange(experts), chosen)])
    place = np.argsort(order)
    turned = ids.copy()
    turned[:, :used] = order[(place[ids[:, :used]] + turn * len(chosen)) % experts]
    return turned


@dataclass(frozen=True)
class MulMatId:
    """Parameters under upstream's names (struct test_mul_mat_id in tests/test-backend-ops.cpp).

    Attributes:
        type_a: type of the experts' weights, src0 [k, m, n_mats].
        type_b: type of the activations, src1 [k, 1 if b else n_used, n].
        n_mats: experts.
        n_used: experts a token goes to.
        b: every expert of a token sees the same activation (up and gate), or each its own (down).
        routing: see `route`.
        source: FILE#TENSOR of a GGUF whose rows are the weights, "" for random ones.
    """

    OP: ClassVar[str] = "MUL_MAT_ID"

    type_a: str = "q4_K"
    type_b: str = "f32"
    n_mats: int = 128
    n_used: int = 8
    b: bool = True
    m: int = 768
    k: int = 2048
    routing: str = "random"
    activations: str = "normal"
    source: str = ""

    def __post_init__(self) -> None:
        if min(self.m, self.k, self.n_used) < 1:
            raise UsageError("m, k and --used must be at least 1")
        if self.n_used > self.n_mats:
            raise UsageError(f"--used {self.n_used} is more than --experts {self.n_mats}")
        if self.routing not in ROUTINGS:
            raise UsageError(f"--routing must be one of {', '.join(ROUTINGS)}")
        check_distribution(self.activations)

    def _variables(self, width: int | None) -> dict[str, Any]:
        return {
            "type_a": self.type_a, "type_b": self.type_b, "n_mats": self.n_mats,
            "n_used": self.n_used, "b": self.b, "m": self.m, "n": width, "k": self.k,
            "amax": 1.0, "m_v": 0,
        }  # fmt: skip

    def upstream_case(self, width: int) -> str:
        """The string test-backend-ops prints for this case at this width."""
        return case_text(self.OP, **self._variables(width))

    def case(self) -> str:
        """The same without n, with the routing, which upstream's string has no variable for."""
        extra = {"routing": self.routing} | nondefault(self, "activations") | real(self.source)
        return case_text(self.OP, **self._variables(None), **extra)

    def params(self) -> dict[str, Any]:
        """Parameters under upstream's names, without the width."""
        return {
            "type_a": self.type_a, "type_b": self.type_b, "n_mats": self.n_mats,
            "n_used": self.n_used, "b": self.b, "m": self.m, "k": self.k,
            "routing": self.routing, "activations": self.activations,
        } | real(self.source)  # fmt: skip

    def rows(self) -> tuple[tuple[str, int], ...]:
        """Types the library must have, each with the length of a row of it."""
        return ((self.type_a, self.k), (self.type_b, self.k))

    def bound(self, features: Mapping[str, str]) -> float:
        """Upstream's max_nmse_err(), which holds for inputs as upstream's, without outliers."""
        return nmse_bound(self.type_a, features) if self.activations == "normal" else math.inf

    def bytes_needed(self, library: Library, widest: int) -> int:
        """Bytes of src0, src1, ids and dst at the widest width."""
        weights = library.row_size(self.type_a, self.k) * self.m * self.n_mats
        b = library.row_size(self.type_b, self.k) * self.slots
        return weights + widest * (b + 4 * self.n_mats + 4 * self.m * self.n_used)

    def flops(self, width: int) -> int:
        """Upstream's op_flops()."""
        return 2 * self.m * self.k * width * self.n_used

    @property
    def slots(self) -> int:
        """Activation rows a token brings."""
        return 1 if self.b else self.n_used

    def prepare(self, session: Session, weights_seed: int, widest: int) -> MulMatIdEvaluator:
        """An open evaluator: src0 allocated and filled."""
        return opened(MulMatIdEvaluator(self, session, weights_seed, widest))


class MulMatIdEvaluator(ProductEvaluator):
    """src0 in a buffer of its own; per width a graph with src1, ids and dst."""

    op: MulMatId

    @property
    def _stored_ne_a(self) -> tuple[int, ...]:
        return (self.op.k, self.op.m, self.op.n_mats)

    @property
    def _rows_a(self) -> int:
        return self.op.m * self.op.n_mats

    def _stored_a(self) -> Iterable[np.ndarray]:
        row_size = self.session.library.row_size(self.op.type_a, self.op.k)
        return self.pool.layout(np.arange(self._rows_a), row_size)

    def weights_read(self, count: int) -> int:
        """Bytes of the experts that the first `count` tokens go to."""
        op = self.op
        experts = len(np.unique(self.ids[:count, : op.n_used]))
        return self.session.library.row_size(op.type_a, op.k) * op.m * experts

    def _timed_inputs(self, made: dict[str, np.ndarray], turn: int) -> dict[str, np.ndarray]:
        """Other experts in each turn, so that a cache holds none of them."""
        return made | {"ids": rotate(made["ids"], self.op.n_used, turn)}

    def _build(
        self, context: Context, count: int, weights: Weights
    ) -> tuple[dict[str, Tensor], list[Tensor]]:
        op = self.op
        # llama.cpp's ids are a view of the sorted experts: a row has n_mats entries
        ids = context.new_tensor("i32", (op.n_mats, count), "ids")
        chosen = context.view_4d(
            ids, (op.n_used, count, 1, 1), (4 * op.n_mats,) + (4 * op.n_mats * count,) * 2, 0
        )
        b = context.new_tensor(op.type_b, (op.k, op.slots, count), "b")
        return {"ids": ids, "b": b}, [context.op("mul_mat_id", weights.tensor, b, chosen)]

    def load(self, seed: int) -> None:
        """Routing and activations of all tokens."""
        op = self.op
        self.ids = np.zeros((self.widest, op.n_mats), np.int32)
        self.ids[:, : op.n_used] = route(op.routing, seed, self.widest, op.n_mats, op.n_used)
        shape = (self.widest, op.slots)
        self.x = Activations(self.session, op.type_b, shape, op.k, seed, op.activations)
        self.products = self.x.products(self.pool)

    def _inputs(self, first: int, count: int) -> dict[str, np.ndarray]:
        span = slice(first, first + count)
        return {"b": self.x.data[span], "ids": self.ids[span]}

    def reference(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """Float64 outputs of the token's experts, and sum |w x|: [n_used * m]."""
        op = self.op
        experts = self.ids[token, : op.n_used].astype(np.int64)
        row = (experts[:, None] * op.m + np.arange(op.m)) % len(self.pool.values)
        slot = np.arange(op.n_used)[:, None] % op.slots
        exact, magnitude = self.products
        return exact[token][slot, row].ravel(), magnitude[token][slot, row].ravel()
