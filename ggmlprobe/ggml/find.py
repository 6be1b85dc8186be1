"""Where libggml is: the user's path, the environment, the packaged build, or llama_cpp's folder."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ggmlprobe.errors import LibraryNotFound

ENVIRONMENT = "GGMLPROBE_LIB"
_GIVE = "give the folder that holds libggml.so"


def _packaged() -> Path:
    """Return lib/ beside the package, or where pip put it if a checkout stands in front of that."""
    beside = Path(__file__).parent.parent / "lib"
    behind = (Path(entry) / "ggmlprobe" / "lib" for entry in sys.path)
    # unlike Path.is_dir, this passes over an entry of sys.path that may not be read
    return next((folder for folder in (beside, *behind) if os.path.isdir(folder)), beside)


PACKAGED = _packaged()

# Folders below the one given in which builds and wheels keep their libraries; Release is Visual
# Studio's.
SUBFOLDERS = (
    "", "bin", "lib", "lib64", "build/bin", "Release", "bin/Release", "build/bin/Release",
    "libggml/lib64", "llama_cpp/lib",
)  # fmt: skip

# Folders in which systems keep the backends, seen from the main library: Debian, Arch, Gentoo,
# Homebrew.
BACKEND_FOLDERS = ("ggml/backends0", "ggml/backends", "ggml", "../libexec")

# libggml-cpu-haswell.so, libggml.v0.5.0.so, libggml.cuda.v0.5.0.so, libggml-base.so.0.25.3,
# libggml.0.dylib, ggml-cuda.dll, and wheels' libggml-base-319ad4fb.so.0.13.1 (auditwheel adds the
# first 8 digits of a hash).
_VARIANT = r"(?:\.[a-z][a-z0-9_]*)?"
_GGML = re.compile(
    r"^(?:lib)?ggml(?:-(?P<part>[a-z0-9_.-]+?))??"
    rf"(?P<odd>-[0-9a-f]{{8}}|{_VARIANT}\.[a-z]?[\d.]*\d)?"
    r"\.(?:so|dylib|dll)(?P<version>(?:\.\d+)*)$"
)
# The same of libllama.
_LLAMA = re.compile(
    rf"^(?:lib)?llama(?:-[0-9a-f]{{8}})?(?:{_VARIANT}\.[a-z]?[\d.]*\d)?"
    r"\.(?:so|dylib|dll)(?:\.\d+)*$"
)
# Names under which everything, ggml included, is linked into one file.
_WHOLE = re.compile(
    rf"^(?:(?:lib)?(?:llama|whisper|stable-diffusion)(?:{_VARIANT}\.[a-z]?[\d.]*\d)?"
    r"\.(?:so|dylib|dll)(?:\.\d+)*"
    r"|[\w.-]+\.node)$"
)


@dataclass(frozen=True)
class Found:
    """A libggml on disk, not opened yet.

    Its paths are absolute where find() made it: dlopen would look for a bare file name elsewhere.

    Attributes:
        origin: "--lib", "GGMLPROBE_LIB", "packaged" or "llama_cpp".
        directory: the folder that holds the files.
        files: what to dlopen, in order.
        plugin_dir: folder whose backends libggml loads itself, if there are any; most often the
            same.
        plugins: single backend files to load instead of the choice libggml would make.
        given: the directory as the user wrote it, None where it is as above.
    """

    origin: str
    directory: Path
    files: tuple[Path, ...]
    plugin_dir: Path | None = None
    plugins: tuple[Path, ...] = ()
    given: Path | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where its files are: the directory, and its backends' folder if that is another."""
        return tuple(dict.fromkeys(filter(None, (self.directory, self.plugin_dir))))


@dataclass(frozen=True)
class Choice:
    """What a folder's names mean: files to open in order, and its other backend libraries."""

    files: tuple[str, ...]
    backends: tuple[str, ...]


def part_of(name: str) -> str | None:
    """Return the part of ggml a file name stands for.

    Returns:
        "" for libggml itself, "base", "cpu", "cpu-haswell", "cuda", ...; None for a foreign name.
    """
    match = _GGML.match(name)
    return (match["part"] or "") if match else None


def _plainest(names: Iterable[str]) -> str:
    """Return libggml.so before libggml.so.0 before libggml.v0.5.0.so."""

    def rank(name: str) -> tuple[bool, int, str]:
        match = _GGML.match(name)
        return bool(match and match["odd"]), len(name), name

    return min(names, key=rank)


def choose(names: Iterable[str]) -> Choice:
    """Pick what to open from the file names of one folder.

    Args:
        names: file names without folder, in any order.

    Returns:
        Base, CPU and main library in that order, as far as there are any; where there is no ggml,
        one library that may hold all of it. Both empty if nothing fits.
    """
    by_part: dict[str, list[str]] = {}
    whole = []
    for name in names:
        part = part_of(name)
        if part is not None:
            by_part.setdefault(part, []).append(name)
        elif _WHOLE.match(name):
            whole.append(name)
    picked = {part: _plainest(group) for part, group in by_part.items()}
    files = tuple(picked[part] for part in ("base", "cpu", "") if part in picked)
    if not files and whole:
        files = (min(whole, key=lambda name: (len(name), name)),)
    backends = tuple(sorted(picked[part] for part in picked if part not in {"", "base", "cpu"}))
    return Choice(files, backends)


def _in_directory(origin: str, directory: Path) -> Found | None:
    """Return the libggml in a folder or in one of the usual folders below it."""
    for below in SUBFOLDERS:
        folder = directory / below if below else directory
        if not folder.is_dir():
            continue
        choice = choose(entry.name for entry in folder.iterdir() if entry.is_file())
        if choice.files:
            files = tuple(folder / name for name in choice.files)
            return Found(origin, folder, files, folder if choice.backends else _apart(files[-1]))
    return None


def _apart(main: Path) -> Path | None:
    """Return the folder of a main library's backends where they are not beside it."""
    # /opt/homebrew/lib has links to the library, and none to what it loads
    beside = main.resolve().parent
    folders = (Path(os.path.normpath(beside / folder)) for folder in BACKEND_FOLDERS)
    return next((folder for folder in folders if folder.is_dir() and _has_backend(folder)), None)


def _has_backend(folder: Path) -> bool:
    return any((part_of(entry.name) or "base") != "base" for entry in folder.iterdir())


def _from_file(origin: str, file: Path) -> Found:
    """Return the library a single file belongs to: its siblings if it is a part, else itself."""
    part = part_of(file.name)
    family = _in_directory(origin, file.parent) if part is not None else None
    if part is None or family is None or family.directory != file.parent:
        return Found(origin, file.parent, (file,))
    files = tuple(file if part_of(each.name) == part else each for each in family.files)
    if file in files:
        return replace(family, files=files)
    files = tuple(each for each in files if not (part_of(each.name) == "cpu" and "cpu" in part))
    return replace(family, files=files, plugin_dir=None, plugins=(file,))


def _named(origin: str, text: str) -> Found:
    """Return the library a user named.

    Raises:
        LibraryNotFound: nothing there that can be a library, or that may be read.
    """
    if not text:
        raise LibraryNotFound(f"{origin} is empty; {_GIVE}")
    try:
        return _at(origin, text, Path(text).expanduser())
    except OSError as error:
        raise LibraryNotFound(
            f"{origin} {text} cannot be read ({error.strerror}); {_GIVE}, and that you may read"
        ) from error


def _absolute(found: Found) -> Found:
    """Return the same with paths that hold in any current folder; links are not followed."""
    return replace(
        found,
        directory=found.directory.absolute(),
        files=tuple(path.absolute() for path in found.files),
        plugin_dir=found.plugin_dir and found.plugin_dir.absolute(),
        plugins=tuple(path.absolute() for path in found.plugins),
        given=found.directory,
    )


def _at(origin: str, text: str, path: Path) -> Found:
    if path.is_file():
        return _from_file(origin, path)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LibraryNotFound(f"{origin} {text}: no such file or folder; {_GIVE}") from error
    if not path.is_dir():
        raise LibraryNotFound(f"{origin} {text} is neither a file nor a folder; {_GIVE}")
    found = _in_directory(origin, path)
    if found is None:
        raise LibraryNotFound(
            f"{origin} {text}: no libggml in this folder; give the one that holds libggml.so, "
            "such as build/bin of llama.cpp"
        )
    return found


def llama_beside(found: Found) -> Path | None:
    """Return the libllama beside a libggml, None where there is none."""
    names = [entry.name for entry in found.directory.iterdir() if _LLAMA.match(entry.name)]
    return found.directory / min(names, key=lambda name: (len(name), name)) if names else None


def _llama_cpp() -> Found | None:
    """Return the library inside an installed llama_cpp, without importing it."""
    spec = importlib.util.find_spec("llama_cpp")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = _in_directory("llama_cpp", Path(folder) / "lib")
        if found:
            return found
    return None


def find(lib: str | None, environ: Mapping[str, str] = os.environ) -> Found:
    """Find a libggml without opening it.

    Args:
        lib: path of a folder or file; None to look at GGMLPROBE_LIB, then for the packaged
            build, then for an installed llama_cpp.
        environ: the environment to read.

    Raises:
        LibraryNotFound: nothing there, or nowhere, or what is there may not be read.
    """
    if lib is not None:
        return _absolute(_named("--lib", lib))
    if environ.get(ENVIRONMENT):
        return _absolute(_named(ENVIRONMENT, environ[ENVIRONMENT]))
    packaged = _in_directory("packaged", PACKAGED) if PACKAGED.is_dir() else None
    found = packaged or _llama_cpp()
    if found is None:
        raise LibraryNotFound(
            "no libggml: install ggmlprobe with its packaged build, "
            f"or name one with --lib or {ENVIRONMENT}"
        )
    return _absolute(found)
