"""The C declarations of decl/, parsed once into one cffi FFI (ABI mode, no compiler)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

HEADERS = ("ggml.h", "ggml-backend.h", "ggml-alloc.h", "ggml-cpu.h", "cblas.h")


@cache
def ffi() -> Any:
    """Return the FFI that knows every declared function."""
    folder = Path(__file__).parent / "decl"
    # not on top: the parent process knows the ops, but opens no library
    made = import_module("cffi").FFI()
    made.cdef("\n".join((folder / name).read_text(encoding="utf-8") for name in HEADERS))
    return made
