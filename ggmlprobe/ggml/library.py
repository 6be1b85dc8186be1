"""A loaded libggml: its functions, version and types, and the check that its sums are right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ggmlprobe.errors import LibraryBroken, SymbolMissing, UsageError
from ggmlprobe.ggml.check import check
from ggmlprobe.ggml.find import Found, part_of
from ggmlprobe.ggml.symbols import Symbols, open_all, open_file
from ggmlprobe.ggml.types import TypeInfo, Types, read

__all__ = ["Library", "TypeInfo", "check"]

STAMP = "build.json"


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
        self._silent: list[str] | None = None

    @classmethod
    def load(cls, found: Found, before: Sequence[Path] = ()) -> Library:
        """Open a library and its backends.

        Args:
            found: from find().
            before: libraries to open first, whose functions take the place of libggml's own.

        Raises:
            LibraryBroken: a file that is no libggml, or that lacks something; says the fix.
            SymbolMissing: a libggml too old to list its devices.
        """
        for path in before:
            open_file(path)
        ffi, c = open_all(found.files)
        files = " ".join(str(path) for path in found.files)
        if not (c.has("ggml_type_name") and c.has("ggml_init")):
            raise LibraryBroken(
                f"{files} is no ggml (it exports no ggml_init); give the folder that holds libggml.so"
            )
        if not c.has("ggml_backend_dev_count"):
            raise SymbolMissing(
                f"{files} is too old: it has no ggml_backend_dev_count; "
                "give a build from after November 2024"
            )
        lib = cls(found, ffi, c)
        if not lib.types:
            raise LibraryBroken(f"{files} names no tensor type; give another build")
        lib._load_backends()
        return lib

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

    def silent_backends(self) -> list[str]:
        """Return one line for each backend file in the folder that did not load, with the reason."""
        if self._silent is None:
            self._silent = [self._why_silent(path) for path in self._absent()]
        return self._silent

    def _text(self, function: str) -> str | None:
        return self.text(getattr(self.c, function)()) if self.c.has(function) else None

    def _registered(self) -> set[str]:
        """Return the names of the backends that are there, lower case."""
        count = self.c.ggml_backend_reg_count()
        regs = [self.c.ggml_backend_reg_get(index) for index in range(count)]
        return {self.text(self.c.ggml_backend_reg_name(reg)).lower() for reg in regs}

    def _absent(self) -> list[Path]:
        """Return the folder's backend files whose backend is not registered, one per backend."""
        there = self._registered()
        absent: dict[str, Path] = {}
        for path in sorted(self.found.directory.iterdir()):
            family = (part_of(path.name) or "base").partition("-")[0]
            if family not in there | {"base"}:
                absent.setdefault(family, path)
        return list(absent.values())

    def _why_silent(self, path: Path) -> str:
        try:
            open_file(path, self.ffi.RTLD_LOCAL)
        except LibraryBroken as error:
            return str(error)
        return f"{path.name} opens, but its backend finds no device it can use"

    def _load_backends(self) -> None:
        """Have libggml load the plug-ins that are not linked into it.

        Raises:
            LibraryBroken: a plug-in does not load, or there is no backend at all.
        """
        for plugin in self.found.plugins:
            reg = self.c.ggml_backend_load(str(plugin).encode())
            if reg == self.ffi.NULL:
                open_file(plugin, self.ffi.RTLD_LOCAL)
                raise LibraryBroken(
                    f"{plugin} is no backend this libggml can load; give its folder"
                )
        if not self.found.plugins and (not self._registered() or self._absent()):
            self.c.ggml_backend_load_all_from_path(str(self.found.directory).encode())
        if not self._registered():
            why = "; ".join(self.silent_backends()) or "no libggml-cpu beside it"
            raise LibraryBroken(f"{self.found.directory}: no backend loaded: {why}")


def _stamp(path: Path) -> dict[str, str] | None:
    """Return how a packaged build was made, lists joined by spaces."""
    if not path.is_file():
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    joined = {
        key: " ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in raw.items()
    }
    return {key: str(value) for key, value in joined.items()}
