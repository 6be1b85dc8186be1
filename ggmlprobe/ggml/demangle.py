"""C++ names as they are written, by the demangler of the C++ library that libggml uses too."""

from __future__ import annotations

from functools import cache
from typing import Any

import cffi

LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1", "libc++.1.dylib")
DECLARATIONS = """
char * __cxa_demangle(const char * name, char * buffer, size_t * length, int * status);
void free(void * pointer);
"""


@cache
def _opened() -> tuple[Any, Any] | None:
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    for name in LIBRARIES:
        try:
            return ffi, ffi.dlopen(name)
        except OSError:
            continue
    return None


@cache
def demangle(name: str) -> str:
    """Return the name in C++'s notation; as it is where it is no C++, or without a demangler."""
    opened = _opened()
    if opened is None or not name.startswith("_Z"):
        return name
    ffi, c = opened
    text = c.__cxa_demangle(name.encode(), ffi.NULL, ffi.NULL, ffi.NULL)
    if text == ffi.NULL:
        return name
    try:
        raw: bytes = ffi.string(text)
    finally:
        c.free(text)
    return raw.decode()
