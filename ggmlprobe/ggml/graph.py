"""What a context owns besides tensors: buffers with their data, and graphs to compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ggmlprobe.errors import OutOfMemory

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library


def new_context(lib: Library, size: int) -> Any:
    """Return a ggml_context of that many bytes, for descriptions only, no data."""
    params = {"mem_size": size, "mem_buffer": lib.ffi.NULL, "no_alloc": True}
    ctx = lib.c.ggml_init(lib.ffi.new("struct ggml_init_params *", params)[0])
    if ctx == lib.ffi.NULL:
        raise OutOfMemory(f"ggml_init could not allocate {size} bytes; use a smaller case")
    return ctx


class Buffer:
    """Memory of tensors on a device; size is in bytes."""

    def __init__(self, lib: Library, ptr: Any) -> None:
        """Wrap a buffer pointer; NULL for one without memory of its own."""
        self._lib = lib
        self.ptr = ptr
        self.size = int(lib.c.ggml_backend_buffer_get_size(ptr)) if ptr != lib.ffi.NULL else 0

    def clear(self, value: int = 0) -> None:
        """Set every byte to a value."""
        if self.ptr != self._lib.ffi.NULL:
            self._lib.c.ggml_backend_buffer_clear(self.ptr, value)

    def free(self) -> None:
        """Give the memory back; harmless if done before."""
        if self.ptr != self._lib.ffi.NULL:
            self._lib.c.ggml_backend_buffer_free(self.ptr)
            self.ptr = self._lib.ffi.NULL


class Graph:
    """A graph to compute; it keeps its own small context."""

    def __init__(self, lib: Library, size: int, outputs: Sequence[Any]) -> None:
        """Collect what the outputs, ggml_tensor pointers, depend on."""
        self._lib = lib
        self._ctx = new_context(lib, int(lib.c.ggml_graph_overhead_custom(size, False)))
        self.ptr = lib.c.ggml_new_graph_custom(self._ctx, size, False)
        for output in outputs:
            lib.c.ggml_build_forward_expand(self.ptr, output)

    @property
    def n_nodes(self) -> int:
        """How many ops it computes."""
        return int(self._lib.c.ggml_graph_n_nodes(self.ptr))

    def free(self) -> None:
        """Give the memory back; harmless if done before."""
        if self._ctx != self._lib.ffi.NULL:
            self._lib.c.ggml_free(self._ctx)
            self._ctx = self.ptr = self._lib.ffi.NULL
