"""What the BLAS behind the BLAS backend says of itself; only OpenBLAS says anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ggmlprobe.ggml.find import part_of
from ggmlprobe.ggml.symbols import Symbols, open_file

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

# Name in a device's features to the function that tells the value.
_TOLD = {"OPENBLAS_CONFIG": "openblas_get_config", "OPENBLAS_CORENAME": "openblas_get_corename"}


def _functions(lib: Library) -> Symbols:
    """Return what the BLAS backend's file, or the one it is linked into, can call."""
    own = [path for path in lib.files if part_of(path.name) == "blas"]
    # open already: names are looked up in the file and in what it was linked with
    handles = [open_file(path, lib.ffi.RTLD_LOCAL) for path in own or lib.found.files]
    return Symbols(handles, lib.found.directory)


def properties(lib: Library) -> dict[str, str]:
    """Return how OpenBLAS was built and the core it computes for; {} for another BLAS."""
    c = _functions(lib)
    return {
        name: lib.text(getattr(c, function)())
        for name, function in _TOLD.items()
        if c.has(function)
    }


def threads(lib: Library) -> int | None:
    """Return the threads OpenBLAS will use next, None for another BLAS."""
    c = _functions(lib)
    return int(c.openblas_get_num_threads()) if c.has("openblas_get_num_threads") else None


def address(lib: Library) -> int | None:
    """Return where the BLAS has the product, None where that cannot be looked up."""
    c = _functions(lib)
    return int(lib.ffi.cast("uintptr_t", c.cblas_sgemm)) if c.has("cblas_sgemm") else None
