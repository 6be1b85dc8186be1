"""A tensor of libllama's graph as an evaluation callback sees it.

ggml has no function that gives a tensor's shape or sources, so struct ggml_tensor is laid out
here, and proven on tensors made for it before the first use.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import cffi
import numpy as np
from numpy.typing import NDArray

from ggmlprobe.errors import LibraryBroken
from ggmlprobe.ggml.declarations import ffi as ggml_ffi
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.tensor import Context

# struct ggml_tensor of ggml.h, the same since November 2023 but for `backend`, gone since 2024.
_LAYOUT = """
struct ggmlprobe_tensor {
    int type;
    struct ggml_backend_buffer * buffer;
    int64_t ne[4];
    size_t nb[4];
    int op;
    int32_t op_params[16];
    int32_t flags;
    struct ggml_tensor * src[10];
    struct ggml_tensor * view_src;
    size_t view_offs;
    void * data;
    char name[64];
    void * extra;
};
"""
_NE_A, _NE_B = (64, 3, 5, 7), (64, 2, 5, 7)


@cache
def _ffi() -> Any:
    made = cffi.FFI()
    made.include(ggml_ffi())
    made.cdef(_LAYOUT)
    return made


def layout_of(ptr: Any) -> Any:
    """Return a ggml_tensor pointer as a struct; prove_layout() comes first."""
    return _ffi().cast("struct ggmlprobe_tensor *", ptr)


@cache
def prove_layout(lib: Library) -> None:
    """Hold the layout against tensors of known content, once per library.

    Raises:
        LibraryBroken: something is elsewhere.
    """
    ffi = _ffi()
    with Context(lib, 8) as context:
        a = context.new_tensor("f16", _NE_A, name="ggmlprobe_a")
        b = context.new_tensor("f32", _NE_B, name="ggmlprobe_b")
        product = context.op("mul_mat", a, b)
        scaled = context.op("scale", b, 0.5)
        view = context.view_4d(b, (32, 2, 1, 1), (256, 512, 512), 128)
        t, p, s, v = (layout_of(tensor.ptr) for tensor in (a, product, scaled, view))
        right = [
            t.type == lib.types["f16"].id and p.type == lib.types["f32"].id,
            t.buffer == ffi.NULL and t.data == ffi.NULL and t.view_src == ffi.NULL,
            tuple(t.ne) == _NE_A and tuple(p.ne) == (3, 2, 5, 7),
            tuple(t.nb) == (2, 128, 384, 1920),
            lib.text(lib.c.ggml_op_name(p.op)) == "MUL_MAT" and t.op == 0,
            list(p.src) == [a.ptr, b.ptr] + [ffi.NULL] * 8 and s.src[0] == b.ptr,
            ffi.cast("float *", s.op_params)[0] == 0.5,
            v.view_src == b.ptr and v.view_offs == 128,
            ffi.string(t.name) == b"ggmlprobe_a",
            ffi.addressof(t, "name") == lib.c.ggml_get_name(a.ptr),
            ffi.cast("uintptr_t", product.ptr) != ffi.cast("uintptr_t", a.ptr),
        ]
    if not all(right):
        raise LibraryBroken(
            f"the libggml in {lib.found.directory} lays tensors out in another way than is known; "
            "give another build"
        )


class Node:
    """A tensor of a graph, valid only inside the callback that was given it.

    Attributes:
        ptr: ggml_tensor pointer.
        name: such as "Qcur-3".
        op: such as "MUL_MAT"; "NONE" for a weight or input.
        type: name of its type.
        ne: four sizes, fastest first.
        nb: four strides in bytes.
    """

    def __init__(self, lib: Library, ptr: Any) -> None:
        """Wrap a tensor; prove_layout() comes first."""
        self._lib, self.ptr = lib, ptr
        self._t = layout_of(ptr)
        self.name = lib.text(self._t.name)
        self.op = lib.text(lib.c.ggml_op_name(self._t.op))
        self.type = lib.text(lib.c.ggml_type_name(self._t.type))
        self.ne: tuple[int, ...] = tuple(self._t.ne)
        self.nb: tuple[int, ...] = tuple(self._t.nb)

    @property
    def address(self) -> int:
        """Where the tensor itself lies; the same tensor has the same."""
        return int(_ffi().cast("uintptr_t", self.ptr))

    @property
    def op_id(self) -> int:
        """Its op's number in this library."""
        return int(self._t.op)

    @property
    def op_desc(self) -> str:
        """Its op in ggml's words; what UNARY and GLU do, such as "SILU"."""
        return self._lib.text(self._lib.c.ggml_op_desc(self.ptr))

    @property
    def op_params(self) -> bytes:
        """The op's 64 bytes of parameters."""
        raw: bytes = _ffi().buffer(self._t.op_params)[:]
        return raw

    @property
    def sources(self) -> list[Node]:
        """What it is computed from."""
        null = _ffi().NULL
        return [Node(self._lib, source) for source in self._t.src if source != null]

    @property
    def view_of(self) -> Node | None:
        """The tensor it is a view of, None if it has memory of its own."""
        source = self._t.view_src
        return None if source == _ffi().NULL else Node(self._lib, source)

    @property
    def view_offset(self) -> int:
        """Bytes into the tensor it is a view of."""
        return int(self._t.view_offs)

    @property
    def buffer(self) -> str:
        """Name of the buffer type its memory is in, "" if it has none."""
        owner = self._t.buffer
        if owner == _ffi().NULL and self._t.view_src != _ffi().NULL:
            owner = layout_of(self._t.view_src).buffer
        return self._lib.text(self._lib.c.ggml_backend_buffer_name(owner)) if owner else ""

    @property
    def nbytes(self) -> int:
        """Bytes from its first to its last value, gaps of a view included."""
        return int(self._lib.c.ggml_nbytes(self.ptr))

    def get(self) -> NDArray[np.uint8]:
        """Copy its nbytes bytes out of the device's memory."""
        out = np.empty(self.nbytes, np.uint8)
        if out.nbytes:
            target = _ffi().from_buffer(out, require_writable=True)
            self._lib.c.ggml_backend_tensor_get(self.ptr, target, 0, out.nbytes)
        return out
