"""Opening the files of a libggml, and its functions over all of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ggmlprobe.errors import LibraryBroken, SymbolMissing
from ggmlprobe.ggml import dlerror, elf
from ggmlprobe.ggml.declarations import ffi as declared
from ggmlprobe.ggml.find import part_of

_HEADER = 64


class Symbols:
    """Functions of libggml by name, wherever among its files they live.

    A name that no file exports raises SymbolMissing.
    """

    def __init__(self, handles: Sequence[Any], directory: Path) -> None:
        """Look names up in the handles, first to last."""
        self._handles = tuple(handles)
        self._directory = directory

    def _lookup(self, name: str) -> Any:
        for handle in self._handles:
            try:
                return getattr(handle, name)
            except AttributeError:
                continue
        return None

    def has(self, name: str) -> bool:
        """Tell whether the library exports a declared function."""
        return self._lookup(name) is not None

    def __getattr__(self, name: str) -> Any:
        found = self._lookup(name)
        if found is None:
            raise SymbolMissing(
                f"the libggml in {self._directory} has no {name}: its version is too old "
                "or too new for this; give another build"
            )
        # Stored on the instance, so that the next use does not come through here.
        setattr(self, name, found)
        return found


def _dlopen(path: Path, flags: int) -> Any:
    """Open one file, and first what it needs from its own folder if dlopen does not look there."""
    ffi = declared()
    tried: set[str] = set()
    while True:
        try:
            return ffi.dlopen(str(path), flags)
        except OSError as error:
            message = dlerror.bare(str(error))
        beside = path.parent / Path(dlerror.missing_name(message) or "").name
        if beside.name in tried or not beside.is_file() or beside == path:
            raise LibraryBroken(dlerror.explain(str(path), message, platform.libc_ver()[1]))
        tried.add(beside.name)
        refuse_cut(beside)
        _dlopen(beside, flags)


def _reader(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise LibraryBroken(
            f"{path} cannot be read: {error.strerror}; give another file"
        ) from error


def refuse_cut(path: Path) -> None:
    """Refuse a file that ends before what the loader maps of it does.

    Raises:
        LibraryBroken: it is damaged, or cannot be read.
    """
    with _reader(path) as file:
        needed, size = elf.bytes_needed(file), file.seek(0, os.SEEK_END)
    if size < needed:
        raise LibraryBroken(
            f"{path} is damaged: it ends after {size} of {needed} bytes; copy or build it anew"
        )


def _refuse_other_image(path: Path) -> None:
    """Refuse a file that is for another system or processor, or no library at all."""
    with _reader(path) as file:
        found = dlerror.image(file.read(_HEADER))
    wrong = dlerror.wrong_image(str(path), found, platform.system(), platform.machine())
    if wrong:
        raise LibraryBroken(wrong)


def open_file(path: Path, scope: int | None = None) -> Any:
    """Open one shared library lazily.

    Args:
        path: the file.
        scope: RTLD_GLOBAL (the default) or RTLD_LOCAL.

    Raises:
        LibraryBroken: one line with what is missing and the fix.
    """
    ffi = declared()
    _refuse_other_image(path)
    refuse_cut(path)
    # RTLD_GLOBAL: an interposer opened earlier then finds the real functions without linking them.
    return _dlopen(path, ffi.RTLD_LAZY | (ffi.RTLD_GLOBAL if scope is None else scope))


def open_all(files: Iterable[Path]) -> tuple[Any, Symbols]:
    """Open a library's files in order; return the FFI and the functions of all of them."""
    paths = list(files)
    symbols = Symbols([_open_before(path, set()) for path in paths], paths[0].parent)
    return declared(), symbols


def _open_before(path: Path, seen: set[Path]) -> Any:
    """Open a file, and first what it links of its folder: LD_LIBRARY_PATH would go before that."""
    seen.add(path)
    with _reader(path) as file:
        beside = [path.parent / name for name in elf.linked(file) if part_of(name) is not None]
    for each in beside:
        if each not in seen and each.is_file():
            _open_before(each, seen)
    return open_file(path)
