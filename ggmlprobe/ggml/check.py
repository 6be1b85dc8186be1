"""A small product with a known exact answer, so that a library is checked before it is trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ggmlprobe.errors import LibraryBroken
from ggmlprobe.ggml.device import Backend, cpu_name
from ggmlprobe.ggml.tensor import Context

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

# Values of -4..4: every partial sum of 32 products is an integer under 2^11, exact even in float16.
_K, _ROWS, _COLUMNS = 32, 7, 3


def _product(lib: Library, backend: Backend, type_name: str) -> None:
    """Compare one MUL_MAT with Python's integers."""
    weights = [[(5 * row + 3 * i * i + i) % 9 - 4 for i in range(_K)] for row in range(_ROWS)]
    inputs = [[(7 * col + 2 * i * i + 5 * i) % 9 - 4 for i in range(_K)] for col in range(_COLUMNS)]
    expected = [sum(w * x for w, x in zip(a, b, strict=True)) for b in inputs for a in weights]
    with Context(lib, 4) as ctx:
        a = ctx.new_tensor(type_name, (_K, _ROWS))
        b = ctx.new_tensor("f32", (_K, _COLUMNS))
        out = ctx.op("mul_mat", a, b)
        ctx.allocate(backend)
        a.set(np.array(weights, {"f32": np.float32, "f16": np.float16}[type_name]))
        b.set(np.array(inputs, np.float32))
        backend.compute(ctx.graph(out))
        got = out.get(np.float32)
    for position, (value, want) in enumerate(zip(got.tolist(), expected, strict=True)):
        if value != want:
            column, row = divmod(position, _ROWS)
            raise LibraryBroken(
                f"the libggml in {lib.found.directory} computes MUL_MAT {type_name} wrongly: "
                f"row {row}, column {column} is {value:g} and must be {want}; give another build"
            )


def check(lib: Library) -> None:
    """Compute small integer products on the CPU device, f32 and f16.

    Raises:
        LibraryBroken: names the op and the first wrong value.
        UnknownDevice: the library has no CPU device.
    """
    backend = Backend(lib, cpu_name(lib))
    backend.set_threads(1)
    try:
        for type_name in ("f32", "f16"):
            _product(lib, backend, type_name)
    finally:
        backend.free()
