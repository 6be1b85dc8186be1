"""Weights as a GGUF file holds them."""

from __future__ import annotations

import importlib
import re
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ggmlprobe.errors import ModelBroken, UsageError

_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
# An array's element type and count.
_HEAD = 12
# What gguf raises at files that are cut off or edited.
_BROKEN = (
    ValueError, KeyError, IndexError, TypeError, OverflowError, struct.error, OSError,
    AssertionError, MemoryError,
)  # fmt: skip


@dataclass(frozen=True)
class Weight:
    """A tensor of the file.

    Attributes:
        type: ggml's name of its type, such as "q4_K".
        ne: sizes, fastest first.
        data: uint8 [rows, row size], mapped from the file.
    """

    name: str
    type: str
    ne: tuple[int, ...]
    data: np.ndarray


class WeightsFile:
    """The tensors of a GGUF file, or of all files of a split one.

    Attributes:
        weights: by name.
    """

    def __init__(self, path: Path | str) -> None:
        """Read the headers.

        Raises:
            ModelBroken: not a whole GGUF, or of a kind that the gguf package does not know.
        """
        self.weights: dict[str, Weight] = {}
        for part in parts(Path(path)):
            try:
                self._read(part)
            except _BROKEN as error:
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise ModelBroken(f"{part} cannot be read: {why}; give a whole GGUF") from error

    def _read(self, path: Path) -> None:
        for tensor in _reader()(path).tensors:
            ne = tuple(int(n) for n in tensor.shape)
            raw: Any = tensor.data
            rows = int(np.prod(ne[1:], dtype=np.int64))
            data = raw.view(np.uint8).reshape(rows, -1)
            name = type_name(tensor.tensor_type.name)
            self.weights[tensor.name] = Weight(tensor.name, name, ne, data)


@cache
def _reader() -> Any:
    """The gguf package's reader, without the minutes it takes over a large vocabulary."""
    # slow to import, and of use to few commands
    gguf = importlib.import_module("gguf")

    class Reader(gguf.GGUFReader):  # type: ignore[misc, name-defined]
        def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
            if raw_type != gguf.GGUFValueType.ARRAY:
                return super()._get_field_parts(orig_offs, raw_type)
            kind, count = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
            size = _HEAD + self._values_size(orig_offs + _HEAD, int(kind[0]), int(count[0]))
            return size, [kind, count], [], [gguf.GGUFValueType.ARRAY]

        def _values_size(self, start: int, kind: int, count: int) -> int:
            scalar = self.gguf_scalar_to_np.get(gguf.GGUFValueType(kind))
            if scalar is not None:
                return int(np.dtype(scalar).itemsize) * count
            if kind != gguf.GGUFValueType.STRING:
                raise ValueError("an array of arrays")
            order = ">Q" if self.endianess == gguf.GGUFEndian.BIG else "<Q"
            length, view, at = struct.Struct(order), memoryview(self.data), start
            for _ in range(count):
                at += length.size + length.unpack_from(view, at)[0]
            return at - start

    return Reader


def infos_start(path: Path) -> int:
    """Where the list of tensors begins, which the metadata ends at."""
    return int(_reader()(path).tensors[0].field.offset)


def type_name(name: str) -> str:
    """The gguf package's name of a type as ggml has it: Q4_K is q4_K."""
    lower = name.lower()
    return re.sub(r"_k$", "_K", lower)


@cache
def weights_file(path: str) -> WeightsFile:
    """A file's weights; its header is read once."""
    return WeightsFile(path)


def weight_of(source: str) -> Weight:
    """The weight named FILE#TENSOR.

    Raises:
        UsageError: the file has no such tensor.
        ModelBroken: the file cannot be read.
    """
    path, _, name = source.rpartition("#")
    weights = weights_file(path).weights
    if name not in weights:
        raise UsageError(f"{path} has no tensor {name}; it has {', '.join(list(weights)[:4])}, ...")
    return weights[name]


def tensor_name(source: str) -> str:
    """The tensor in FILE#TENSOR."""
    return source.rpartition("#")[2]


def parts(path: Path) -> list[Path]:
    """All files of a split model, else the file itself."""
    found = _SPLIT.search(path.name)
    if not found:
        return [path]
    stem, count = path.name[: found.start()], int(found[2])
    return [path.with_name(f"{stem}-{i + 1:05}-of-{count:05}.gguf") for i in range(count)]
