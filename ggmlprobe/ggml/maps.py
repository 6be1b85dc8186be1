"""What is mapped into this process, and which of those files are a library's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ggmlprobe.ggml.find import part_of

if TYPE_CHECKING:
    from ggmlprobe.ggml.library import Library

MAPS = Path("/proc/self/maps")
# address range, permissions, offset, device, inode, path: proc_pid_maps(5)
_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+ *(.*)$")


@dataclass(frozen=True)
class Mapped:
    """Executable pages of a file: addresses from start to end, and the first one's file offset."""

    start: int
    end: int
    offset: int
    path: str


def mapped(text: str) -> list[Mapped]:
    """Return the executable mappings in the text of /proc/PID/maps, in ascending order."""
    matches = filter(None, map(_LINE.match, text.splitlines()))
    return [
        Mapped(int(start, 16), int(end, 16), int(offset, 16), path.removesuffix(" (deleted)"))
        for start, end, flags, offset, path in (match.groups() for match in matches)
        if "x" in flags
    ]


def mapped_here() -> list[Mapped]:
    """Return this process's executable mappings; none where the system does not list them."""
    try:
        return mapped(MAPS.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return []


def file_at(address: int) -> str | None:
    """Return the file whose code is at an address, None where the system does not tell."""
    return next((each.path for each in mapped_here() if each.start <= address < each.end), None)


def files_of(library: Library, paths: Iterable[str]) -> list[str]:
    """Return those of some mapped files that are the library's: its own, plug-ins, interposed."""
    found = library.found
    folders = {folder.resolve() for folder in found.folders}
    # a folder of links to files that lie elsewhere is a library too
    listed = (path for folder in found.folders for path in folder.iterdir())
    beside = (path for path in listed if part_of(path.name) is not None)
    given = (*found.files, *found.plugins, *library.interposed, *beside)
    named = {str(path.resolve()) for path in given}
    return sorted(
        path
        for path in set(paths)
        if path in named or (Path(path).parent in folders and part_of(Path(path).name) is not None)
    )
