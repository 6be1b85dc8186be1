"""A loaded libllama: its file and header found, its struct layout proven, its functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import cffi

from ggmlprobe.errors import HeaderRefused, LibraryBroken, SymbolMissing
from ggmlprobe.ggml.declarations import ffi as ggml_ffi
from ggmlprobe.ggml.files import refuse_foreign
from ggmlprobe.ggml.find import Found, llama_beside
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.llama import layout
from ggmlprobe.ggml.llama.log import Log
from ggmlprobe.ggml.llama.structs import Header, parse
from ggmlprobe.ggml.symbols import Symbols, open_file

ENVIRONMENT = "GGMLPROBE_LLAMA_H"
# build/bin/ of a checkout is two folders below it, build/bin/Release three.
_LEVELS = 3
# The memory functions have these names since June 2025.
_NEWEST_NEEDED = "llama_memory_seq_rm"


def find_library(found: Found) -> Path:
    """Return the libllama beside a libggml, or the one file that holds both.

    Raises:
        LibraryBroken: there is none.
    """
    beside = llama_beside(found)
    if beside is not None:
        return beside
    if len(found.files) == 1:
        return found.files[0]
    raise LibraryBroken(
        f"no libllama beside libggml in {found.directory}; give the folder of a build that has "
        "both, such as build/bin of llama.cpp"
    )


def find_header(
    found: Found, given: Path | None = None, environ: Mapping[str, str] = os.environ
) -> Path:
    """Return the llama.h that belongs to a library.

    Args:
        found: the library.
        given: the user's choice; taken as it is.
        environ: where GGMLPROBE_LLAMA_H is read, the choice where none is given.

    Raises:
        HeaderRefused: no such file, or none can be found.
    """
    named = given or (Path(environ[ENVIRONMENT]) if environ.get(ENVIRONMENT) else None)
    if named is not None:
        if not named.is_file():
            raise HeaderRefused(f"no llama.h at {named}; give the file itself")
        return named
    folder = found.directory.resolve()
    for place in (folder, *folder.parents[:_LEVELS]):
        if (place / "include" / "llama.h").is_file():
            return place / "include" / "llama.h"
    raise HeaderRefused(
        f"no llama.h for the libllama in {found.directory}; give the one it was built with as "
        "--llama-h"
    )


@cache
def _ffi(structs: str) -> Any:
    """Return an FFI with a header's structs, ggml's declarations and libllama's functions."""
    made = cffi.FFI()
    made.include(ggml_ffi())
    functions = (Path(__file__).parent / "decl" / "llama.h").read_text(encoding="utf-8")
    made.cdef("\n".join([structs, layout.room_cdef(), functions]))
    return made


def functions(path: Path, header: Header) -> tuple[Any, Symbols]:
    """Open a libllama, and prove that a header's structs are its own.

    Returns:
        cffi's FFI with both, and libllama's functions.

    Raises:
        LibraryBroken: it cannot be opened.
        SymbolMissing: it is no libllama, or too old.
        HeaderRefused: the header is of another version.
    """
    ffi = _ffi(header.cdef())
    open_file(path)
    c = Symbols([ffi.dlopen(str(path), ffi.RTLD_LAZY)], path.parent)
    if not c.has(_NEWEST_NEEDED):
        raise SymbolMissing(
            f"{path} has no {_NEWEST_NEEDED}: it is no libllama, or older than June 2025; "
            "give another build"
        )
    layout.verify(ffi, c, header)
    return ffi, c


class Llama:
    """An opened libllama.

    Attributes:
        library: the libggml it works with.
        path: its file.
        header_path: the llama.h its structs come from.
        header: what that says.
        ffi: cffi's FFI with both.
        c: its functions; a missing one raises SymbolMissing.
        log: its errors.
    """

    def __init__(self, library: Library, path: Path, header_path: Path) -> None:
        """Open it and prove the layout; use load()."""
        self.library, self.path, self.header_path = library, path, header_path
        self.header = _read(header_path)
        self.ffi, self.c = functions(path, self.header)
        # it may bring a libggml of its own, where the loader finds that by another name
        refuse_foreign(library)
        self.log = Log(self.ffi, self.c)
        self.c.llama_backend_init()

    @classmethod
    def load(cls, library: Library, header: Path | None = None) -> Llama:
        """Open the libllama that belongs to a libggml; once per library and header.

        Args:
            library: an opened libggml.
            header: its llama.h; None to look for it.

        Raises:
            LibraryBroken: no libllama, or it cannot be opened.
            HeaderRefused: no llama.h, or not of this version.
            SymbolMissing: too old.
        """
        return _load(library, find_library(library.found), find_header(library.found, header))

    def enum(self, name: str, value: str) -> int:
        """Return the number of an enumerator of the header.

        Raises:
            HeaderRefused: the header has no such enumerator.
        """
        try:
            return self.header.enums[name][value]
        except KeyError as error:
            raise HeaderRefused(f"{self.header_path} has no {value}; give another build") from error

    def text(self, call: Any, *arguments: Any) -> str | None:
        """Return what a libllama function writes into a buffer; None where it writes nothing."""
        size = 256
        while True:
            buffer = self.ffi.new("char[]", size)
            length = call(*arguments, buffer, size)
            if length < 0:
                return None
            if length < size:
                raw: bytes = self.ffi.buffer(buffer, length)[:]
                return raw.decode("utf-8", "replace")
            size = length + 1


@cache
def _load(library: Library, path: Path, header: Path) -> Llama:
    """Keep what was loaded for good: the library calls back into its log."""
    return Llama(library, path, header)


def _read(path: Path) -> Header:
    try:
        return parse(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise HeaderRefused(f"{path} cannot be read: {error.strerror}; give another") from error
