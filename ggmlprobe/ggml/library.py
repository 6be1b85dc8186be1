"""A loaded libggml: its functions, version and types, and the check that its sums are right."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ggmlprobe.errors import LibraryBroken, SymbolMissing, UsageError
from ggmlprobe.ggml import backends, rpc
from ggmlprobe.ggml.check import check
from ggmlprobe.ggml.files import identity, loaded, refuse_foreign
from ggmlprobe.ggml.find import Found, llama_beside
from ggmlprobe.ggml.symbols import Symbols, open_all, open_file
from ggmlprobe.ggml.tensor_types import TypeInfo, Types, read

__all__ = ["Library", "TypeInfo", "check"]

STAMP = "build.json"
# The device registry works as it is used here since this function came, in December 2024.
_NEWEST_NEEDED = "ggml_backend_load_all_from_path"


def _unheard(step: str) -> None:
    """Tell nobody."""


class Library:
    """An opened libggml.

    Attributes:
        found: where it came from.
        ffi: the cffi FFI with the declarations.
        c: its functions; a missing one raises SymbolMissing.
        version: what ggml_version() says, None where not exported.
        commit: what ggml_commit() says, None where not exported.
        stamp: how the packaged build was made, None for any other.
        types: its tensor types by name.
        interposed: libraries opened before it, whose functions take the place of its own.
        files: its own that are loaded, backends included, without links.
        endpoints: host:port of the servers' devices, by name.
    """

    def __init__(self, found: Found, ffi: Any, c: Symbols) -> None:
        """Describe an opened library; use load() to open one."""
        self.found = found
        self.ffi = ffi
        self.c = c
        self.version = self._text("ggml_version")
        self.commit = self._text("ggml_commit")
        self.stamp = _stamp(found.directory / STAMP)
        self.types: Types = read(ffi, c, found.files)
        self.interposed: tuple[Path, ...] = ()
        self.files: tuple[Path, ...] = ()
        self.endpoints: dict[str, str] = {}

    @classmethod
    def load(
        cls, found: Found, before: Sequence[Path] = (), step: Callable[[str], None] = _unheard
    ) -> Library:
        """Open a library and its backends.

        Args:
            found: from find().
            before: libraries to open first, whose functions take the place of libggml's own.
            step: called with what comes next and may end the process, as a driver's start may.

        Raises:
            LibraryBroken: a file that is no libggml, or that lacks something, or was put together
                with parts of another; says the fix.
            SymbolMissing: a libggml too old to list its devices.
        """
        for path in before:
            open_file(path)
        ffi, c = open_all(found.files)
        files = " ".join(str(path) for path in found.files)
        if not (c.has("ggml_type_name") and c.has("ggml_init")):
            raise LibraryBroken(
                f"{files} is no ggml (no ggml_init in it); give the folder that holds libggml.so"
            )
        if not c.has(_NEWEST_NEEDED):
            raise SymbolMissing(
                f"{files} is too old: it has no {_NEWEST_NEEDED}; give a build from 2025 or later"
            )
        lib = cls(found, ffi, c)
        lib.interposed = tuple(before)
        if not lib.types:
            raise LibraryBroken(f"{files} names no tensor type; give another build")
        step(f"opening its backends {', '.join(backends.to_open(lib))}".rstrip())
        backends.load(lib)
        refuse_foreign(lib)
        lib.files = backends.serving(lib, loaded(lib))
        return lib

    @functools.cached_property
    def identity(self) -> str:
        """16 hex digits that change with the loaded files, and with the libllama beside them."""
        llama = llama_beside(self.found)
        return identity([*self.files, *([llama.resolve()] if llama else [])])

    def has(self, name: str) -> bool:
        """Tell whether the library exports a function."""
        return self.c.has(name)

    def row_size(self, type: str, k: int) -> int:
        """Return the bytes of k values of a type.

        Raises:
            UnknownType: no such type.
            UsageError: k is no multiple of the type's block size.
        """
        info = self.types[type]
        if k % info.blck_size:
            raise UsageError(
                f"k={k} is no multiple of {type}'s block size {info.blck_size}; give one that is"
            )
        return k // info.blck_size * info.type_size

    def text(self, pointer: Any) -> str:
        """Return a C string as text, "" for NULL."""
        if pointer == self.ffi.NULL:
            return ""
        raw: bytes = self.ffi.string(pointer)
        return raw.decode("utf-8", "replace")

    def add_server(self, endpoint: str) -> None:
        """Register a server's devices; see rpc.register."""
        self.endpoints |= dict.fromkeys(rpc.register(self, endpoint), endpoint)

    def silent_backends(self) -> list[str]:
        """Return one line for each backend that did not load or has no device, with the reason."""
        return backends.silent(self)

    def _text(self, function: str) -> str | None:
        return self.text(getattr(self.c, function)()) if self.c.has(function) else None


def _stamp(path: Path) -> dict[str, str] | None:
    """Return how a packaged build was made; None for a folder without its file, or with another."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(raw, dict) or "ggml_version" not in raw:
        return None
    return {key: str(value) for key, value in raw.items() if value is not None}
