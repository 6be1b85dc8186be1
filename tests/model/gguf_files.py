"""GGUF files made from others: the same model with weights of other types."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ggmlprobe.ggml import quants
from ggmlprobe.ggml.library import Library
from ggmlprobe.weights_file import WeightsFile, infos_start

ALIGNMENT = 32


def requantized(library: Library, source: Path, target: Path, types: Mapping[str, str]) -> None:
    """Write a model with some weights in another type; metadata stays as it is.

    Args:
        types: weight to type.
    """
    weights = WeightsFile(source).weights
    infos, blobs, offset = b"", [], 0
    for weight in weights.values():
        kind, data = weight.type, weight.data
        if weight.name in types:
            kind = types[weight.name]
            values = quants.dequantize(library, weight.type, weight.data, weight.ne[0])
            data = quants.quantize(library, kind, values, 1)
        name = weight.name.encode()
        infos += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(weight.ne))
        infos += struct.pack(f"<{len(weight.ne)}Q", *weight.ne)
        infos += struct.pack("<IQ", library.types[kind].id, offset)
        blob = data.tobytes()
        blobs.append(blob + bytes(-len(blob) % ALIGNMENT))
        offset += len(blobs[-1])
    head = np.memmap(source, mode="r")[: infos_start(source)].tobytes() + infos
    target.write_bytes(head + bytes(-len(head) % ALIGNMENT) + b"".join(blobs))
