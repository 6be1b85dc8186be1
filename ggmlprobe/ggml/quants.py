"""Rows of float32 to a tensor type's bytes and back, by the library's own code."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ggmlprobe.errors import Unsupported, UsageError
from ggmlprobe.ggml.child import CAN_FORK, in_child
from ggmlprobe.ggml.device import Backend, cpu_name
from ggmlprobe.ggml.tensor import Context

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

# Types ggml_quantize_chunk knows in every version that has them (ggml.c); it aborts on others.
_KNOWN = re.compile(
    r"f32|b?f16|q[1245]_[01]|q8_0|q[2-6]_K|tq[12]_0|mxfp4|nvfp4|iq[1-4]_(?:xxs|xs|s|m|nl)"
)
# Chunks per thread, so that one slow chunk does not leave the other threads idle.
_CHUNKS = 4
# a backend computes one graph at a time
_ONE_AT_A_TIME = threading.Lock()


def can_quantize(lib: Library, type_name: str) -> bool:
    """Tell whether the library quantizes to a type; unknown ones are tried in a child that may die.

    Raises:
        UnknownType: the library has no such type.
    """
    info = lib.types[type_name]
    known = _KNOWN.fullmatch(type_name) is not None
    if known or not CAN_FORK:
        return known
    source = np.zeros((1, info.blck_size), np.float32)

    def work(say: Callable[[str], None]) -> None:
        data = np.zeros((1, info.type_size), np.uint8)
        say(str(_chunk(lib, info.id, source, data, 0, 1, np.ones(info.blck_size, np.float32))))

    return in_child(work) == [str(info.type_size)]


def _chunk(
    lib: Library,
    type_id: int,
    rows: NDArray[np.float32],
    data: NDArray[np.uint8],
    start: int,
    count: int,
    importance: NDArray[np.float32] | None,
) -> int:
    """Quantize count rows from start on; return the bytes the library says it wrote."""
    ffi, k = lib.ffi, rows.shape[1]
    source = ffi.from_buffer("float[]", rows)
    target = ffi.from_buffer(data, require_writable=True)
    matrix = ffi.NULL if importance is None else ffi.from_buffer("float[]", importance)
    return int(lib.c.ggml_quantize_chunk(type_id, source, target, start * k, count, k, matrix))


def quantize(
    lib: Library, type_name: str, rows: NDArray[np.float32], threads: int = 1
) -> NDArray[np.uint8]:
    """Quantize rows with the library's own quantizer.

    Where a type needs an importance matrix, every value is equally important.

    Args:
        lib: the library.
        type_name: the target type.
        rows: float32 [r, k], C-contiguous; k a multiple of the type's block size.
        threads: rows are shared among that many threads; the bytes do not depend on it.

    Returns:
        uint8 [r, row_size].

    Raises:
        Unsupported: the library does not quantize to this type.
        UsageError: k does not fit the type's blocks, or rows is no float32 matrix.
        UnknownType: the library has no such type.
    """
    info = lib.types[type_name]
    if rows.dtype != np.float32 or rows.ndim != 2 or not rows.flags.c_contiguous:
        raise UsageError("rows must be a C-contiguous float32 matrix; use numpy.ascontiguousarray")
    count, k = rows.shape
    size = lib.row_size(type_name, k)
    if not can_quantize(lib, type_name):
        raise Unsupported(f"library does not quantize to {type_name}")
    data = np.empty((count, size), np.uint8)
    lib.c.ggml_quantize_init(info.id)
    needed = lib.c.ggml_quantize_requires_imatrix(info.id)
    importance = np.ones(k, np.float32) if needed else None
    edges = np.linspace(0, count, min(count, threads * _CHUNKS) + 1, dtype=np.int64).tolist()
    spans = list(pairwise(edges))
    one = partial(_chunk, lib, info.id, rows, data)
    with ThreadPoolExecutor(max(1, threads)) as pool:
        done = list(pool.map(lambda span: one(span[0], span[1] - span[0], importance), spans))
    if sum(done) < data.nbytes:
        raise Unsupported(f"library does not quantize to {type_name}")
    return data


def dequantize(
    lib: Library, type_name: str, data: NDArray[np.uint8], k: int
) -> NDArray[np.float32]:
    """Return the float32 values that rows of a type stand for.

    Args:
        lib: the library; its get_rows on the CPU does it, f32, f16 and bf16 are exact without.
        type_name: the rows' type.
        data: uint8 [r, row_size], C-contiguous.
        k: values per row.

    Returns:
        float32 [r, k].

    Raises:
        Unsupported: the CPU device has no get_rows for this type.
        UsageError: data does not have the bytes of rows of k values.
    """
    size = lib.row_size(type_name, k)
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != size:
        raise UsageError(f"data of {type_name} rows with k={k} must be uint8 [r, {size}]")
    plain = np.ascontiguousarray(data)
    values: NDArray[np.float32]
    if type_name == "f32":
        values = plain.view(np.float32).copy()
    elif type_name == "f16":
        values = plain.view(np.float16).astype(np.float32)
    elif type_name == "bf16":
        values = (plain.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        values = _get_rows(lib, type_name, plain, k)
    return values


def _get_rows(lib: Library, type_name: str, data: NDArray[np.uint8], k: int) -> NDArray[np.float32]:
    count = data.shape[0]
    with _ONE_AT_A_TIME, Context(lib, 4) as ctx:
        backend = _cpu(lib)
        table = ctx.new_tensor(type_name, (k, count))
        index = ctx.new_tensor("i32", (count,))
        out = ctx.op("get_rows", table, index)
        if not backend.supports(out):
            raise Unsupported(f"library does not dequantize {type_name}")
        ctx.allocate(backend)
        table.set(data)
        index.set(np.arange(count, dtype=np.int32))
        backend.compute(ctx.graph(out))
        values: NDArray[np.float32] = out.get(np.float32)
        return values.reshape(count, k)


@functools.lru_cache(maxsize=1)
def _cpu(lib: Library) -> Backend:
    """The CPU that dequantizes, kept: starting it asks the system for its free memory."""
    return Backend(lib, cpu_name(lib))
