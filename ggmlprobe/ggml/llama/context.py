"""A model's context: decode tokens, take back what was decoded, save and restore its state."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ggmlprobe.errors import ComputeFailed, HeaderRefused, OutOfMemory, UsageError
from ggmlprobe.ggml.llama.model import Model
from ggmlprobe.ggml.llama.node import Node, prove_layout

FlashAttention = Literal["off", "on", "auto"]
Logits = Literal["last", "all", "none"]
Callback = Callable[[Node, bool], bool]
"""Called with (node, ask) as ggml_backend_sched_eval_callback is: where ask is true, answer
whether to see this node; else the node has been computed, and true goes on with the graph. After
false or an error the memory holds what was not computed: clear() it."""

_FLASH_ATTENTION = {"off": "DISABLED", "on": "ENABLED", "auto": "AUTO"}
_SEQUENCE = 0
# libllama rounds a context up to a multiple of this, and caps the batch at the context.
_PADDING = 256
# llama_decode's results, see llama.h.
_DECODE = {1: "no room in the KV cache; use a larger context", 2: "aborted", -1: "invalid batch"}


class ModelContext:
    """A sequence of tokens that a model has seen.

    Attributes:
        model: the model.
        n_ctx: positions there is room for, a multiple of 256.
        compute_seconds: wall time inside llama_decode so far.
        decodes: how many times it was called.
    """

    def __init__(
        self, model: Model, *, n_ctx: int, n_batch: int = 512, n_ubatch: int = 512,
        threads: int = 1, threads_batch: int = 1, fa: FlashAttention = "off",
        type_k: str = "f16", type_v: str = "f16", n_seq: int = 1, swa_full: bool = False,
        n_rs_seq: int = 0, callback: Callback | None = None,
    ) -> None:  # fmt: skip
        """Start a context.

        Args:
            model: not vocab_only.
            n_ctx: positions, rounded up.
            n_batch: most tokens of one decode().
            n_ubatch: most tokens of one graph.
            threads: at one token.
            threads_batch: at more.
            fa: flash attention.
            type_k: type of the K cache.
            type_v: type of the V cache.
            n_seq: most sequences.
            swa_full: keep all positions of sliding-window layers, so that they can be rolled back.
            n_rs_seq: tokens that a state can be rolled back by, where this libllama and the
                model can.
            callback: sees the graph's nodes; what it raises ends decode().

        Raises:
            OutOfMemory: no room for the cache or the graph.
            UsageError: the model cannot run with these settings.
            HeaderRefused: the context did not take the settings as they were given.
        """
        self.model, self._llama = model, model.llama
        self._ffi, self._c = self._llama.ffi, self._llama.c
        self._raised: BaseException | None = None
        self._stopped = False
        self.compute_seconds, self.decodes = 0.0, 0
        n_ctx = -(-n_ctx // _PADDING) * _PADDING
        n_batch = min(n_batch, n_ctx)
        self._asked = {
            "n_ctx": n_ctx, "n_batch": n_batch, "n_ubatch": min(n_ubatch, n_batch),
            "n_seq_max": n_seq, "n_threads": threads, "n_threads_batch": threads_batch,
        }  # fmt: skip
        params = self._params(fa, type_k, type_v, swa_full, callback)
        if hasattr(params, "n_rs_seq"):
            params.n_rs_seq = n_rs_seq
        self._llama.log.clear()
        self.ptr = self._c.llama_init_from_model(model.ptr, params)
        if self.ptr == self._ffi.NULL:
            raise self._no_context()
        self._check_taken()
        self.n_ctx = n_ctx
        self._memory = self._c.llama_get_memory(self.ptr)
        self._swa = 0 if swa_full else model.swa

    def _params(
        self, fa: FlashAttention, type_k: str, type_v: str, swa_full: bool,
        callback: Callback | None,
    ) -> Any:  # fmt: skip
        params = self._c.llama_context_default_params()
        for name, value in self._asked.items():
            setattr(params, name, value)
        types = self._llama.library.types
        params.type_k, params.type_v = types[type_k].id, types[type_v].id
        params.swa_full = swa_full
        if hasattr(params, "flash_attn_type"):
            name = f"LLAMA_FLASH_ATTN_TYPE_{_FLASH_ATTENTION[fa]}"
            params.flash_attn_type = self._llama.enum("llama_flash_attn_type", name)
        elif fa == "auto":
            raise UsageError("this libllama has no --fa auto; use on or off")
        else:
            params.flash_attn = fa == "on"
        if callback is not None:
            prove_layout(self._llama.library)
            self._callback = self._ffi.callback(
                "bool(struct ggml_tensor *, bool, void *)", self._watch(callback), error=False
            )
            params.cb_eval = self._callback
        return params

    def _watch(self, callback: Callback) -> Callable[[Any, bool, Any], bool]:
        """Keep what the callback raises: it cannot pass through C."""
        library = self._llama.library

        def call(tensor: Any, ask: bool, user_data: Any) -> bool:
            if self._stopped:
                return False
            try:
                wanted = bool(callback(Node(library, tensor), ask))
            except BaseException as error:
                self._raised, wanted = error, False
            self._stopped = self._raised is not None or not (wanted or ask)
            return wanted

        return call

    def _no_context(self) -> OutOfMemory | UsageError:
        reason = self._llama.log.reason() or "no reason given"
        text = f"{self.model.path}: no context with these settings: {reason}"
        if "alloc" in reason or "memory" in reason:
            return OutOfMemory(f"{text}; use a smaller context")
        return UsageError(f"{text}; use others")

    def _check_taken(self) -> None:
        """Read the settings back: a field of the same default in another place shows here."""
        for name, asked in self._asked.items():
            got = int(getattr(self._c, f"llama_{name}")(self.ptr))
            if got != asked:
                self.close()
                raise HeaderRefused(
                    f"{self._llama.header_path}: the context has {name} {got}, not {asked} as set; "
                    "give the llama.h of this library as --llama-h"
                )

    @property
    def n_past(self) -> int:
        """How many positions are taken: one more than the last."""
        return int(self._c.llama_memory_seq_pos_max(self._memory, _SEQUENCE)) + 1

    def decode(
        self, tokens: Sequence[int], first_pos: int, logits: Logits = "last"
    ) -> NDArray[np.float32]:
        """Evaluate tokens with one llama_decode.

        Args:
            tokens: at least one, at most n_batch.
            first_pos: position of the first one.
            logits: of the last token, of all, or of none.

        Returns:
            float32 [rows, n_vocab], a copy; 1, len(tokens) or 0 rows. Where the callback stopped
            the graph, 0 rows.

        Raises:
            UsageError: too many tokens or positions, or no such token.
            ComputeFailed: llama_decode failed.
        """
        self._check_batch(tokens, first_pos)
        count = len(tokens)
        rows = {"last": 1, "all": count, "none": 0}[logits]
        batch, keep = self._batch(tokens, first_pos, rows)
        self._raised, self._stopped = None, False
        start = time.perf_counter()
        status = self._c.llama_decode(self.ptr, batch)
        self._c.llama_synchronize(self.ptr)
        self.compute_seconds += time.perf_counter() - start
        self.decodes += 1
        del keep
        if self._raised is not None:
            raise self._raised
        if status != 0:
            why = _DECODE.get(status, f"status {status}: {self._llama.log.reason()}")
            raise ComputeFailed(f"llama_decode of {count} tokens at {first_pos}: {why}")
        # libllama takes a graph that was stopped for a whole one
        return self._logits(0 if self._stopped else rows)

    def _check_batch(self, tokens: Sequence[int], first_pos: int) -> None:
        # libllama would abort the process, or fail without a reason
        count, most = len(tokens), self._asked["n_batch"]
        if not 1 <= count <= most:
            raise UsageError(f"{count} tokens in one batch; it takes 1 to {most}")
        if first_pos < 0 or first_pos + count > self.n_ctx:
            raise UsageError(
                f"positions {first_pos}..{first_pos + count - 1} do not fit the context of "
                f"{self.n_ctx}; use a larger one"
            )
        for token in tokens:
            if not 0 <= token < self.model.n_vocab:
                raise UsageError(f"token {token} is not in 0..{self.model.n_vocab - 1}")

    def _batch(self, tokens: Sequence[int], first_pos: int, rows: int) -> tuple[Any, Any]:
        """Return a llama_batch, and what must live as long as it."""
        new, count = self._ffi.new, len(tokens)
        sequence = new("int32_t[1]", [_SEQUENCE])
        keep = {
            "token": new("int32_t[]", list(tokens)),
            "pos": new("int32_t[]", list(range(first_pos, first_pos + count))),
            "n_seq_id": new("int32_t[]", [1] * count),
            "seq_id": new("int32_t *[]", [sequence] * count),
            "logits": new("int8_t[]", [int(i >= count - rows) for i in range(count)]),
        }
        batch = new("struct llama_batch *", {"n_tokens": count, **keep})
        return batch[0], (batch, keep, sequence)

    def _logits(self, rows: int) -> NDArray[np.float32]:
        out = np.empty((rows, self.model.n_vocab), np.float32)
        if rows:
            source = self._c.llama_get_logits(self.ptr)
            if source == self._ffi.NULL:
                raise ComputeFailed(f"{self.model.path} gives no logits; use a generative model")
            self._ffi.memmove(self._ffi.from_buffer(out), source, out.nbytes)
        return out

    def clear(self) -> None:
        """Forget every token, and zero the memory."""
        self._c.llama_memory_clear(self._memory, True)

    def rollback(self, pos: int) -> bool:
        """Forget the tokens from a position on.

        Returns:
            False, with nothing forgotten, where the memory cannot go back: it is a state, or the
            window before `pos` is gone already.
        """
        oldest = int(self._c.llama_memory_seq_pos_min(self._memory, _SEQUENCE))
        if self._swa and pos < self.n_past and oldest > max(0, pos - self._swa):
            return False
        return bool(self._c.llama_memory_seq_rm(self._memory, _SEQUENCE, pos, -1))

    def save(self) -> bytes:
        """Return the memory of everything decoded.

        Raises:
            ComputeFailed: libllama gives none.
        """
        size = self._c.llama_state_seq_get_size(self.ptr, _SEQUENCE)
        state = bytearray(size)
        target = self._ffi.from_buffer("uint8_t[]", state, require_writable=True)
        written = self._c.llama_state_seq_get_data(self.ptr, target, size, _SEQUENCE)
        if not written:
            raise ComputeFailed(f"{self.model.path}: its state of {size} bytes cannot be saved")
        return bytes(memoryview(state)[:written])

    def restore(self, state: bytes) -> None:
        """Put back what save() returned, in place of everything decoded since.

        Raises:
            ComputeFailed: libllama does not take it.
        """
        self.clear()
        source = self._ffi.from_buffer("uint8_t[]", state)
        if not self._c.llama_state_seq_set_data(self.ptr, source, len(state), _SEQUENCE):
            raise ComputeFailed(f"{self.model.path}: a state of {len(state)} bytes does not fit")

    def close(self) -> None:
        """Free it; harmless if done before."""
        if self.ptr != self._ffi.NULL:
            self._c.llama_free(self.ptr)
            self.ptr = self._ffi.NULL
