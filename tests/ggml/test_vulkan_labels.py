"""Labels as a backend gives them, through the function it asks the loader for."""

from __future__ import annotations

from typing import Any

import cffi
import pytest

from ggmlprobe.ggml.native import native_library
from ggmlprobe.ggml.vulkan_labels import Labels

DECLARATIONS = """
typedef struct { int type; const void *next; const char *name; float color[4]; } label_t;
void *vkGetInstanceProcAddr(void *instance, const char *name);
"""


class Backend:
    """What libggml-vulkan does around a dispatch."""

    def __init__(self) -> None:
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(DECLARATIONS)
        library = self.ffi.dlopen(str(native_library("vulkan_labels")))
        ask = library.vkGetInstanceProcAddr
        null = self.ffi.NULL
        begin = ask(null, b"vkCmdBeginDebugUtilsLabelEXT")
        end = ask(null, b"vkCmdEndDebugUtilsLabelEXT")
        self.begin = self.ffi.cast("void (*)(void *, const label_t *)", begin)
        self.end = self.ffi.cast("void (*)(void *)", end)

    def dispatch(self, name: str) -> None:
        text = self.ffi.new("char[]", name.encode())
        self.begin(self.ffi.NULL, self.ffi.new("label_t *", {"name": text}))
        self.end(self.ffi.NULL)


@pytest.fixture
def backend() -> Backend:
    return Backend()


def test_the_labels_of_the_block_and_no_others(backend: Backend) -> None:
    labels = Labels()
    backend.dispatch("before")
    with labels.kept():
        backend.dispatch("one (1,2,3)")
        backend.dispatch("two (4,5,6)")
    backend.dispatch("after")
    assert labels.lines == ["one (1,2,3)", "two (4,5,6)"]
    with labels.kept():
        pass
    assert labels.lines == []


def test_more_than_there_is_room_for(backend: Backend) -> None:
    labels = Labels()
    with labels.kept():
        for _ in range(3):
            backend.dispatch("x" * (1 << 19))
    assert labels.lines is None
    with labels.kept():
        backend.dispatch("x")
    assert labels.lines == ["x"]
