"""The files of a loaded library: that they are the folder's own, their names and their identity."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ggmlprobe.errors import LibraryBroken
from ggmlprobe.ggml.find import part_of
from ggmlprobe.ggml.maps import files_of, mapped_here

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

# A CUDA backend has hundreds of MB; a build of the CPU backend has 1 to 5, read in milliseconds.
READ_WHOLE = 8 * 2**20
DIGITS = 16
# libggml loads the backend this names, wherever it is; the user asked for it.
ONE_BACKEND = "GGML_BACKEND_PATH"


def loaded(library: Library) -> tuple[Path, ...]:
    """Return the library's files that are mapped, without those opened in front of it.

    Where the system does not list what is mapped, those that were opened by name.
    """
    mapped = [each.path for each in mapped_here()]
    if not mapped:
        return (*library.found.files, *library.found.plugins)
    before = {str(path.resolve()) for path in library.interposed}
    return tuple(Path(path) for path in files_of(library, mapped) if path not in before)


def refuse_foreign(library: Library, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a library that the loader put together with parts of another one.

    Raises:
        LibraryBroken: names the other's file and the fix.
    """
    mapped = {each.path for each in mapped_here()}
    own = set(files_of(library, mapped))
    if environ.get(ONE_BACKEND):
        own.add(str(Path(environ[ONE_BACKEND]).resolve()))
    foreign = [path for path in mapped - own if part_of(Path(path).name) is not None]
    if foreign:
        path = Path(min(foreign))
        raise LibraryBroken(
            f"{library.found.directory} was asked for, but {path} was loaded with it; "
            f"{_fix(path, environ)}"
        )


def _fix(foreign: Path, environ: Mapping[str, str]) -> str:
    """Return how to keep the loader from a file."""
    named = environ.get("LD_PRELOAD", "").replace(":", " ").split()
    if foreign in [Path(name).resolve() for name in named]:
        return "take it out of LD_PRELOAD"
    folders = environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    if foreign.parent in [Path(folder).resolve() for folder in folders if folder]:
        return "take its folder out of LD_LIBRARY_PATH, and give the folder of a whole build"
    return "give the folder of a whole build"


def identity(paths: Iterable[Path]) -> str:
    """Return 16 hex digits that change when a file does: its name, or any byte of it.

    Of a file above READ_WHOLE bytes the size and the time of its last change stand for the bytes.
    """
    digest = hashlib.sha256()
    for path in sorted(set(paths), key=lambda path: path.name):
        status = path.stat()
        if status.st_size > READ_WHOLE:
            content = f"{status.st_size} {status.st_mtime_ns}".encode()
        else:
            content = hashlib.sha256(path.read_bytes()).digest()
        digest.update(repr((path.name, content)).encode())
    return digest.hexdigest()[:DIGITS]
