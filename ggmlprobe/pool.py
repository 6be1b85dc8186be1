"""Weight rows: a pool of distinct quantized rows, laid out over all rows of a tensor.

Quantizing is the dearest part of a probe (iq3_s: 2.7 million weights a second and core), so only
a prime number of rows is made, about 1 Mi weights, and kept in a cache folder. A prime count lets
every row meet every lane of a kernel's tile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ggmlprobe import inputs
from ggmlprobe.errors import UsageError
from ggmlprobe.ggml import quants
from ggmlprobe.ggml.library import Library
from ggmlprobe.inputs import pool_rows
from ggmlprobe.weights_file import weight_of

DIGEST_BYTES = 32


@dataclass(frozen=True)
class Pool:
    """Distinct weight rows: as the tensor holds them, and as float32.

    Attributes:
        data: uint8 [rows, row size in bytes].
        values: float32 [rows, k], dequantized by the library itself.
    """

    data: np.ndarray
    values: np.ndarray

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Row data by row number of the tensor, which repeats the pool: uint8 [n, row size]."""
        picked: np.ndarray = self.data[index % len(self.data)]
        return picked

    def layout(self, index: np.ndarray, row_size: int, chunk: int = 4096) -> Iterator[np.ndarray]:
        """`rows` a chunk at a time, each row padded with zeros to `row_size` bytes."""
        tail = row_size - self.data.shape[1]
        for start in range(0, len(index), chunk):
            part = self.rows(index[start : start + chunk])
            yield np.pad(part, ((0, 0), (0, tail))) if tail else part


def load_checked(path: Path, size: int) -> bytes | None:
    """Contents of a cache file, or None where it is missing, short or does not match its digest."""
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    digest, data = blob[:DIGEST_BYTES], blob[DIGEST_BYTES:]
    if len(data) != size or hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest() != digest:
        return None
    return data


def store_checked(path: Path, data: bytes) -> None:
    """Write a cache file beside its place and rename it, so that two writers cannot mix.

    A folder that cannot be written costs the cache, not the run.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # a folder of its own, so that a full disk leaves no part of a file behind
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-") as folder:
            new = Path(folder) / path.name
            new.write_bytes(hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest() + data)
            os.replace(new, path)


def real_rows(source: str, type_name: str, row_size: int, rows: int) -> np.ndarray:
    """Rows of a weight, evenly over all of it: uint8 [rows, row size].

    Args:
        source: FILE#TENSOR.

    Raises:
        UsageError: the file has no such tensor, or it is of another type or shape.
    """
    weight = weight_of(source)
    if (weight.type, weight.data.shape[1]) != (type_name, row_size) or len(weight.data) < rows:
        raise UsageError(f"{weight.name} is {weight.type} {weight.ne}, not {rows} such rows")
    index = np.linspace(0, len(weight.data) - 1, rows).round().astype(np.int64)
    return np.ascontiguousarray(weight.data[index])


class PoolStore:
    """Pools by (type, k, rows, seed): the last ones in memory, quantized ones on disk.

    Args:
        library: its quantizer makes the rows; its identity is part of the cache key.
        directory: cache folder, None for no disk cache.
        threads: threads that quantize.
    """

    KEPT = 4

    def __init__(self, library: Library, directory: Path | None, threads: int) -> None:
        self.library, self.directory, self.threads = library, directory, threads
        self.identity = library.identity
        self._pools: dict[tuple[str, int, int, int, str], Pool] = {}

    def get(self, type_name: str, k: int, rows: int, seed: int, source: str = "") -> Pool:
        """The pool of `rows` distinct rows (no more than `pool_rows(k)`) for a seed.

        Args:
            source: FILE#TENSOR of a GGUF, whose rows are taken; "" for random ones.
        """
        key = (type_name, k, min(rows, pool_rows(k)), 0 if source else seed, source)
        if key not in self._pools:
            while len(self._pools) >= self.KEPT:
                self._pools.pop(next(iter(self._pools)))
            self._pools[key] = self._make(*key)
        return self._pools[key]

    def _make(self, type_name: str, k: int, rows: int, seed: int, source: str) -> Pool:
        def quantized() -> np.ndarray:
            values = inputs.normal(seed, "weights", rows * k).reshape(rows, k)
            return quants.quantize(self.library, type_name, values, self.threads)

        if source:
            data = real_rows(source, type_name, self.library.row_size(type_name, k), rows)
        else:
            data = self._cached(quantized, type_name, k, rows, seed)
        return Pool(data, quants.dequantize(self.library, type_name, data, k))

    def _cached(
        self, make: Callable[[], np.ndarray], type_name: str, k: int, rows: int, seed: int
    ) -> np.ndarray:
        if self.directory is None or not self.library.types[type_name].quantized:
            return make()
        row_size = self.library.row_size(type_name, k)
        name = f"{type_name}-k{k}-r{rows}-s{seed}-{self.identity}"
        path = self.directory / "pools" / name
        stored = load_checked(path, rows * row_size)
        if stored is not None:
            return np.frombuffer(stored, np.uint8).reshape(rows, row_size)
        data = make()
        store_checked(path, data.tobytes())
        return data
