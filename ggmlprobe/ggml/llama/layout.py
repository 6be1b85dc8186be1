"""Proof that the structs of a llama.h are those of the loaded libllama, before their first use.

Each llama_*_default_params() fills a struct of known content. Two things are compared with the
layout the header gives: which bytes the library writes at all, and the values in them.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from ggmlprobe.errors import HeaderRefused
from ggmlprobe.ggml.llama.structs import Field, Header

# Values of src/llama-model.cpp, llama-context.cpp and llama-quant.cpp since 2025; where a default
# changed, both. Fields of other names may be there, and are held to _plausible().
_MODEL: Mapping[str, tuple[float, ...]] = {
    "n_gpu_layers": (-1, 999, 0), "split_mode": (1,), "main_gpu": (0,), "vocab_only": (0,),
    "use_mmap": (1,), "use_mlock": (0,), "check_tensors": (0,), "use_extra_bufts": (1,),
    "no_host": (0,), "no_alloc": (0,),
}  # fmt: skip
_CONTEXT: Mapping[str, tuple[float, ...]] = {
    "n_ctx": (512,), "n_batch": (2048,), "n_ubatch": (512,), "n_seq_max": (1,), "n_rs_seq": (0,),
    "n_threads": (4,), "n_threads_batch": (4,), "rope_scaling_type": (-1,), "pooling_type": (-1,),
    "attention_type": (-1,), "flash_attn_type": (-1,), "flash_attn": (0,), "rope_freq_base": (0,),
    "rope_freq_scale": (0,), "yarn_ext_factor": (-1,), "yarn_attn_factor": (-1, 1),
    "yarn_beta_fast": (-1, 32), "yarn_beta_slow": (-1, 1), "yarn_orig_ctx": (0,),
    "defrag_thold": (-1,),
    "type_k": (1,), "type_v": (1,), "embeddings": (0,), "offload_kqv": (1,), "no_perf": (1,),
    "op_offload": (1,), "swa_full": (1,), "kv_unified": (0,), "n_samplers": (0,),
}  # fmt: skip
_QUANTIZE: Mapping[str, tuple[float, ...]] = {
    "nthread": (0,), "ftype": (7, 9), "allow_requantize": (0,), "quantize_output_tensor": (1,),
    "only_copy": (0,), "pure": (0,), "keep_split": (0,), "dry_run": (0,),
}  # fmt: skip
# Without these a header is no use: they are set, or carry the proof.
_NEEDED = {
    "llama_model_params": {
        "devices", "n_gpu_layers", "vocab_only", "use_extra_bufts", "progress_callback",
    },
    "llama_context_params": {
        "n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_threads", "n_threads_batch", "type_k",
        "type_v", "cb_eval", "cb_eval_user_data", "swa_full",
    },
    "llama_model_quantize_params": {"nthread", "ftype", "allow_requantize"},
}  # fmt: skip
_BATCH = ("n_tokens", "token", "embd", "pos", "n_seq_id", "seq_id", "logits")
# More than any of the structs can need, so that a longer one does no harm.
_ROOM = 4096
_FILL = (0xA5, 0x5A)
# A struct of more than 16 bytes is returned through a pointer that comes as a first argument.
_POINTER_FIRST = platform.machine().lower() in ("x86_64", "amd64")


class _Seen:
    """The bytes a library wrote as a struct, and where known which of them it wrote."""

    def __init__(self, ffi: Any, function: Any, arguments: tuple[Any, ...]) -> None:
        types = [ffi.typeof(argument).cname for argument in arguments]
        address = ffi.cast("void *", function)
        if not _POINTER_FIRST:
            listed = ", ".join(types) or "void"
            call = ffi.cast(f"struct ggmlprobe_room (*)({listed})", address)
            self.bytes, self.written = bytes(ffi.buffer(call(*arguments))), None
            return
        call = ffi.cast(f"void (*)({', '.join(['void *', *types])})", address)
        runs = []
        for fill in _FILL:
            room = ffi.new("struct ggmlprobe_room *")
            ffi.buffer(room)[:] = bytes([fill]) * _ROOM
            call(room, *arguments)
            runs.append(bytes(ffi.buffer(room)))
        self.bytes = runs[0]
        self.written = [a == b for a, b in zip(*runs, strict=True)]

    def wrote(self, start: int, end: int) -> bool:
        """Tell whether the library wrote all of these bytes, as far as that is known."""
        return self.written is None or all(self.written[start:end])

    def holds_something(self, start: int, end: int) -> bool:
        """Tell whether bytes that are padding in the header are a field's in the library.

        A compiler may write padding, but then all of it, and zeros.
        """
        if self.written is None:
            return False
        touched = [i for i in range(start, end) if self.written[i]]
        return 0 < len(touched) < end - start or any(self.bytes[i] for i in touched)


def room_cdef() -> str:
    """Return the struct that stands for one of unknown size."""
    return f"struct ggmlprobe_room {{ uint8_t bytes[{_ROOM}]; }};"


def verify(ffi: Any, c: Any, header: Header) -> None:
    """Hold the header's layout against what the library fills in.

    Args:
        ffi: knows the header's structs and room_cdef().
        c: libllama's functions.
        header: what the llama.h says.

    Raises:
        HeaderRefused: any byte or value is not where the header has it.
    """
    known = {"llama_model": _MODEL, "llama_context": _CONTEXT, "llama_model_quantize": _QUANTIZE}
    for prefix, values in known.items():
        struct = f"{prefix}_params"
        absent = _NEEDED[struct] - {f.name for f in header.structs[struct]}
        if absent:
            raise _refused(f"struct {struct} has no {min(absent)}")
        _compare(ffi, header, struct, getattr(c, f"{prefix}_default_params"), (), values)
    tokens = ffi.new("int32_t[3]")
    _verify_batch(ffi, header, c.llama_batch_get_one, tokens)


def _verify_batch(ffi: Any, header: Header, function: Any, tokens: Any) -> None:
    names = tuple(f.name for f in header.structs["llama_batch"])
    if names != _BATCH:
        raise _refused(f"struct llama_batch has the fields {', '.join(names)}")
    arguments = (tokens, ffi.cast("int32_t", 3))
    address = int(ffi.cast("uintptr_t", tokens))
    values: dict[str, tuple[float, ...]] = {"n_tokens": (3,), "token": (address,)}
    _compare(ffi, header, "llama_batch", function, arguments, values)


def _compare(
    ffi: Any, header: Header, struct: str, function: Any, arguments: tuple[Any, ...],
    known: Mapping[str, tuple[float, ...]],
) -> None:  # fmt: skip
    seen = _Seen(ffi, function, arguments)
    value = ffi.from_buffer(f"struct {struct} *", bytearray(seen.bytes))
    end = 0
    for field in header.structs[struct]:
        start = ffi.offsetof(f"struct {struct}", field.name)
        if seen.holds_something(end, start):
            raise _refused(f"struct {struct} has a field before {field.name}")
        end = start + ffi.sizeof(field.type)
        if not seen.wrote(start, end):
            raise _refused(f"struct {struct} has no {field.name} at byte {start}")
        if field.type == "bool" and seen.bytes[start] > 1:
            raise _refused(f"{struct}.{field.name} is no bool")
        number = _number(ffi, getattr(value, field.name))
        allowed = known.get(field.name)
        plausible = number in allowed if allowed is not None else _plausible(header, field, number)
        if not plausible:
            raise _refused(f"{struct}.{field.name} is {number:g} by default")
    size = ffi.sizeof(f"struct {struct}")
    if seen.holds_something(end, size) or seen.holds_something(size, _ROOM):
        raise _refused(f"struct {struct} is longer than in this header")


def _number(ffi: Any, value: Any) -> float:
    """Return a field as a number, a pointer as its address."""
    return int(ffi.cast("uintptr_t", value)) if isinstance(value, ffi.CData) else value


def _plausible(header: Header, field: Field, number: float) -> bool:
    """Tell whether a default without a known value can be one: NULL, or a value of its enum."""
    if field.type == "void *":
        return number == 0
    if field.enum is not None and field.enum in header.enums:
        return number in header.enums[field.enum].values()
    return True


def _refused(what: str) -> HeaderRefused:
    return HeaderRefused(
        f"this llama.h is not of this libllama's version ({what}); "
        "give the one it was built with as --llama-h"
    )
