"""What attention with and without flash attention share: parameters, caches, mask, truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ggmlprobe import inputs
from ggmlprobe.errors import UsageError
from ggmlprobe.ggml import quants
from ggmlprobe.ggml.library import Library
from ggmlprobe.ops.base import Session, case_text, nmse_bound, nondefault

# llama_kv_cache::get_n_kv pads n_kv to this, so that graphs can be reused
N_KV_PAD = 256
CELLS_AT_ONCE = 1024
SINK_GAIN = np.float32(4)


@dataclass(frozen=True)
class Attention:
    """Parameters under upstream's names (struct test_flash_attn_ext).

    Attributes:
        hsk: head size of K and Q. hsv: head size of V.
        nh: KV heads. nr2: query heads per KV head (GQA ratio).
        cells: used cells of the KV cache, the block's own tokens included.
        exact: n_kv is `cells`; otherwise it is padded to a multiple of 256 as llama.cpp does.
        extra: further unused cells, for the kv-padding check.
        type_K: type of the K cache. type_V: type of the V cache.
        mask: causal mask: token t sees the cells up to its own. Without it all n_kv are seen.
        window: a token sees that many cells, its own included; 0 for all.
        max_bias: ALiBi. logit_softcap: Gemma 2's. sinks: an extra logit per head.
        streams: sequences with a cache of their own, evaluated together.
        v_is_view_of_k: V is the first hsv channels of K (MLA).
        prec: precision the op asks for, "f32" (llama.cpp's default) or "default".
    """

    OP: ClassVar[str] = ""

    hsk: int = 128
    hsv: int = 128
    nh: int = 8
    nr2: int = 4
    cells: int = 4096
    exact: bool = False
    extra: int = 0
    type_K: str = "f16"
    type_V: str = "f16"
    mask: bool = True
    window: int = 0
    max_bias: float = 0.0
    logit_softcap: float = 0.0
    sinks: bool = False
    streams: int = 1
    v_is_view_of_k: bool = False
    prec: str = "f32"

    def __post_init__(self) -> None:
        if min(self.hsk, self.hsv, self.nh, self.nr2, self.cells, self.streams) < 1:
            raise UsageError("head sizes, heads, --kv and --streams must be at least 1")
        if self.v_is_view_of_k and (self.type_K != self.type_V or self.hsv > self.hsk):
            raise UsageError("--v-is-view-of-k needs equal types and hsv not above hsk")
        if not self.mask and (self.window or self.max_bias or not self.exact):
            raise UsageError("--no-mask needs --kv-exact, and excludes --window and --max-bias")

    @property
    def n_kv(self) -> int:
        """Cells the op traverses, the masked tail included."""
        used = self.cells if self.exact else -(-self.cells // N_KV_PAD) * N_KV_PAD
        return used + self.extra

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.nh * self.nr2

    @property
    def scale(self) -> float:
        """1/sqrt(hsk), rounded as the C float that test-backend-ops passes."""
        return float(np.float32(1.0) / np.sqrt(np.float32(self.hsk)))

    def _variables(self, width: int | None) -> dict[str, Any]:
        return {
            "hsk": self.hsk, "hsv": self.hsv, "nh": self.nh, "nr23": (self.nr2, self.streams),
            "kv": self.n_kv, "nb": width, "mask": self.mask, "sinks": self.sinks,
            "max_bias": float(self.max_bias), "logit_softcap": float(self.logit_softcap),
            "prec": "f32" if self.prec == "f32" else "def", "type_K": self.type_K,
            "type_V": self.type_V, "permute": (0, 2, 1, 3), "kv_view": False,
            "v_is_view_of_k": self.v_is_view_of_k, "n_kv_max": 0,
        }  # fmt: skip

    def upstream_case(self, width: int) -> str:
        """The string test-backend-ops prints for this case at this width."""
        return case_text(self.OP, **self._variables(width))

    def case(self) -> str:
        """The same without nb, with the used cells and the window, which upstream has not."""
        extra = {"cells": self.cells} | nondefault(self, "window")
        return case_text(self.OP, **self._variables(None), **extra)

    def params(self) -> dict[str, Any]:
        """Parameters under upstream's names, without the width; kv is n_kv."""
        return {
            "hsk": self.hsk, "hsv": self.hsv, "nh": self.nh, "nr23": [self.nr2, self.streams],
            "kv": self.n_kv, "cells": self.cells, "mask": self.mask, "window": self.window,
            "sinks": self.sinks, "max_bias": self.max_bias, "logit_softcap": self.logit_softcap,
            "prec": self.prec, "type_K": self.type_K, "type_V": self.type_V,
            "v_is_view_of_k": self.v_is_view_of_k,
        }  # fmt: skip

    def rows(self) -> tuple[tuple[str, int], ...]:
        """Types the library must have, each with the length of a row of it."""
        return ((self.type_K, self.hsk), (self.type_V, self.hsv))

    def bound(self, features: Mapping[str, str]) -> float:
        """Upstream's max_nmse_err()."""
        return nmse_bound("", features)

    def bytes_needed(self, library: Library, widest: int) -> int:
        """Bytes of the caches, and of Q, mask and dst at the widest width."""
        cache = library.row_size(self.type_K, self.hsk * self.nh)
        if not self.v_is_view_of_k:
            cache += library.row_size(self.type_V, self.hsv * self.nh)
        token = 4 * self.heads * (self.hsk + self.hsv) + 2 * self.n_kv
        return self.streams * (cache * self.n_kv + token * widest)

    def flops(self, width: int) -> int:
        """Upstream's op_flops() of FLASH_ATTN_EXT: the products only."""
        return 2 * self.heads * width * (self.hsk + self.hsv) * self.n_kv * self.streams


class AttentionInputs:
    """Q, caches, mask and sinks of one seed; token t of T sits in cell cells - T + t.

    Attributes:
        q: float32 [streams, T, heads, hsk].
        k: uint8 [streams, n_kv, nh, row size], as the cache holds it; v likewise, None where it is
            a view of k.
        visible: bool [T, n_kv]. bias: float32 [T, n_kv], ALiBi distances, 0 where max_bias is 0.
    """

    def __init__(self, op: Attention, session: Session, seed: int, tokens: int) -> None:
        if tokens > op.cells:
            raise UsageError(f"--kv {op.cells} is less than the widest width {tokens}")
        self.op, self.tokens = op, tokens
        shape = (op.streams, tokens, op.heads, op.hsk)
        self.q = inputs.normal(seed, "q", math.prod(shape)).reshape(shape)
        self.library, self.threads = session.library, session.pools.threads
        self.k = self._cache(seed, "k", op.hsk, op.type_K)
        self.v = None if op.v_is_view_of_k else self._cache(seed, "v", op.hsv, op.type_V)
        # as strong as upstream's -10 to 10, so that a path without sinks shows
        self.sinks = SINK_GAIN * inputs.normal(seed, "sinks", op.heads)
        position = op.cells - tokens + np.arange(tokens)[:, None]
        distance = position - np.arange(op.n_kv)
        self.visible = np.ones((tokens, op.n_kv), bool)
        if op.mask:
            self.visible = (distance >= 0) & (distance < (op.window or op.n_kv))
        # llama.cpp casts the mask to f16 for flash attention: distances as f16 holds them
        bias = -np.abs(distance) if op.max_bias else 0 * distance
        self.bias = bias.astype(np.float16).astype(np.float32)

    def _cache(self, seed: int, name: str, hs: int, type_name: str) -> np.ndarray:
        """A cache as the type holds it, a slice of cells at a time; unused cells are zero."""
        op, row = self.op, self.library.row_size(type_name, hs)
        cache = np.zeros((op.streams, op.n_kv, op.nh, row), np.uint8)
        for stream in range(op.streams):
            for cell in range(0, op.cells, CELLS_AT_ONCE):
                cells = min(CELLS_AT_ONCE, op.cells - cell)
                start, count = (stream * op.cells + cell) * op.nh * hs, cells * op.nh * hs
                part = cache[stream, cell : cell + cells]
                if type_name == "f16":
                    part[...] = (
                        inputs.normal_f16(seed, name, count, start)
                        .view(np.uint8)
                        .reshape(part.shape)
                    )
                    continue
                rows = inputs.normal(seed, name, count, start).reshape(-1, hs)
                packed = quants.quantize(self.library, type_name, rows, self.threads)
                part[...] = packed.reshape(part.shape)
        return cache

    def _cells(self) -> list[slice]:
        """The n_kv cells in slices, so that float64 copies stay small."""
        n_kv = self.op.n_kv
        return [slice(c, min(c + CELLS_AT_ONCE, n_kv)) for c in range(0, n_kv, CELLS_AT_ONCE)]

    def _head(self, stream: int, head: int, which: str, cells: slice) -> np.ndarray:
        """Cells of a KV head as float64 [cells, hs], dequantized; V may be K's first channels."""
        op = self.op
        if which == "v" and self.v is not None:
            data, hs, type_name = self.v, op.hsv, op.type_V
        else:
            data, hs, type_name = self.k, op.hsk, op.type_K
        rows = np.ascontiguousarray(data[stream, cells, head])
        values = quants.dequantize(self.library, type_name, rows, hs).astype(np.float64)
        return np.ascontiguousarray(values[:, : op.hsv]) if which == "v" else values

    def mask(self, first: int, count: int, dtype: type[np.floating]) -> np.ndarray:
        """KQ mask of some tokens, 0 or bias where visible, else -inf: [streams, count, n_kv]."""
        span = slice(first, first + count)
        rows = np.where(self.visible[span], self.bias[span], -np.inf).astype(dtype)
        return np.repeat(rows[None], self.op.streams, axis=0)

    def drop_caches(self) -> None:
        """Forget this copy of the caches, once the device has its own and the truth is known."""
        self.k, self.v = np.empty(0, np.uint8), None

    def reference(self) -> tuple[np.ndarray, np.ndarray]:
        """Float64 attention of all tokens and sum p |v|: [T, streams * heads * hsv] each."""
        op = self.op
        shape = (self.tokens, op.streams, op.nh, op.nr2 * op.hsv)
        out, magnitude = np.zeros(shape), np.zeros(shape)

        def one(place: tuple[int, int]) -> None:
            stream, head = place
            p = self._probabilities(stream, head).reshape(-1, op.n_kv)
            for cells in self._cells():
                v = self._head(stream, head, "v", cells)
                out[:, stream, head] += (p[:, cells] @ v).reshape(self.tokens, -1)
                np.abs(v, out=v)
                magnitude[:, stream, head] += (p[:, cells] @ v).reshape(self.tokens, -1)

        # heads share nothing, so the sums do not depend on how many threads there are
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(one, np.ndindex(op.streams, op.nh)))
        return out.reshape(self.tokens, -1), magnitude.reshape(self.tokens, -1)

    def _probabilities(self, stream: int, kv_head: int) -> np.ndarray:
        """Soft-max over the visible cells for the query heads of a KV head: [T, nr2, n_kv]."""
        op = self.op
        heads = slice(kv_head * op.nr2, (kv_head + 1) * op.nr2)
        q = self.q[stream, :, heads].reshape(-1, op.hsk).astype(np.float64)
        parts = [q @ self._head(stream, kv_head, "k", cells).T for cells in self._cells()]
        logits = np.concatenate(parts, axis=1) * op.scale
        logits = logits.reshape(self.tokens, op.nr2, op.n_kv)
        if op.logit_softcap:
            logits = op.logit_softcap * np.tanh(logits / op.logit_softcap)
        slopes = alibi_slopes(op.heads, op.max_bias)[heads]
        logits += slopes[:, None] * self.bias[:, None].astype(np.float64)
        logits[~np.broadcast_to(self.visible[:, None], logits.shape)] = -np.inf
        sink = self.sinks[heads].astype(np.float64)[:, None] if op.sinks else np.float64(-np.inf)
        top = np.maximum(logits.max(-1, keepdims=True), sink)
        np.exp(np.subtract(logits, top, out=logits), out=logits)
        p: np.ndarray = logits / (logits.sum(-1, keepdims=True) + np.exp(sink - top))
        return p


def alibi_slopes(heads: int, max_bias: float) -> np.ndarray:
    """ALiBi's slope per head, 1 where max_bias is 0 (ggml_compute_forward_soft_max_f32)."""
    if not max_bias:
        return np.ones(heads)
    floor = 2 ** int(math.log2(heads))
    m0, m1 = 2.0 ** (-max_bias / floor), 2.0 ** (-max_bias / 2.0 / floor)
    head = np.arange(heads)
    slopes: np.ndarray = np.where(head < floor, m0 ** (head + 1), m1 ** (2.0 * (head - floor) + 1))
    return slopes
