"""native/vulkan_labels.c: the labels that a Vulkan backend puts around its dispatches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import cffi

from ggmlprobe.errors import LibraryNotFound
from ggmlprobe.ggml.native import native_library

NATIVE = "vulkan_labels"
MARKERS = "GGML_VK_DEBUG_MARKERS"
_DECLARATIONS = """
void         ggmlprobe_labels_start(void);
const char * ggmlprobe_labels_stop(size_t * size);
"""


@cache
def _opened() -> tuple[Any, Any]:
    ffi: Any = cffi.FFI()
    ffi.cdef(_DECLARATIONS)
    return ffi, ffi.dlopen(str(native_library(NATIVE)), ffi.RTLD_NOW | ffi.RTLD_GLOBAL)


def open_first() -> None:
    """Have a Vulkan backend that is loaded after this label its dispatches, here.

    Without native/ nothing happens: `require` says so where a device needs it.
    """
    try:
        _opened()
    except LibraryNotFound:
        return
    os.environ.setdefault(MARKERS, "1")


def require() -> None:
    """Refuse to go on without native/.

    Raises:
        LibraryNotFound: it is not built.
    """
    native_library(NATIVE)


class Labels:
    """Keeps the labels of a block.

    Attributes:
        lines: those of the last block, None where there were too many to keep.
    """

    def __init__(self) -> None:
        """Start with none.

        Raises:
            LibraryNotFound: native/ is not built.
        """
        self._ffi, self._c = _opened()
        self.lines: list[str] | None = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the labels of the block."""
        self._c.ggmlprobe_labels_start()
        try:
            yield
        finally:
            size = self._ffi.new("size_t *")
            text = self._c.ggmlprobe_labels_stop(size)
            self.lines = None
            if text != self._ffi.NULL:
                self.lines = self._ffi.unpack(text, size[0]).decode(errors="replace").splitlines()
