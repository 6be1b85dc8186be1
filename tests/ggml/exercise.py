"""Load the library named on the command line, use it, write what was seen to stdout as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ggmlprobe.ggml import backends, mask
from ggmlprobe.ggml.device import Backend, devices
from ggmlprobe.ggml.find import find
from ggmlprobe.ggml.library import Library, check
from ggmlprobe.ggml.quants import dequantize, quantize
from ggmlprobe.ggml.tensor import Context


def product_error(lib: Library, weights: np.ndarray, inputs: np.ndarray, threads: int) -> float:
    """Return the NMSE of a q8_0 product against float64 of the same dequantized weights."""
    data = quantize(lib, "q8_0", weights, threads)
    backend = Backend(lib, "cpu")
    backend.set_threads(threads)
    with Context(lib) as ctx:
        a = ctx.new_tensor("q8_0", weights.shape[::-1])
        b = ctx.new_tensor("f32", inputs.shape[::-1])
        out = ctx.op("mul_mat", a, b)
        ctx.set_prec(out, "f32")
        ctx.allocate(backend)
        a.set(data)
        b.set(inputs)
        backend.compute(ctx.graph(out))
        got = out.get(np.float32).reshape(len(inputs), len(weights))
    backend.free()
    want = inputs.astype(float) @ dequantize(lib, "q8_0", data, weights.shape[1]).astype(float).T
    return float(((got - want) ** 2).sum() / (want**2).sum())


def main() -> None:
    """Print version, types, devices and the errors of a round trip and a product."""
    lib = Library.load(find(sys.argv[1], {}), [Path(path) for path in sys.argv[2:]])
    check(lib)
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((33, 512), dtype=np.float32)
    inputs = rng.standard_normal((5, 512), dtype=np.float32)
    nmse = {}
    for name in ("q4_0", "q8_0", "q4_K", "iq4_xs", "bf16", "f16"):
        back = dequantize(lib, name, quantize(lib, name, weights, 2), 512)
        nmse[name] = float(((back - weights) ** 2).sum() / (weights**2).sum())
    seen = {
        "version": lib.version,
        "commit": lib.commit,
        "types": {name: asdict(info) for name, info in lib.types.items()},
        "devices": [asdict(info) for info in devices(lib)],
        "round_trip": nmse,
        "product": product_error(lib, weights, inputs, 2),
        "loaded": [path.name for path in lib.files],
        "cpu_files": backends.files(lib, "CPU"),
        "files": [path.name for path in lib.found.files],
        "mask_rows": mask.row_multiple(lib),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
