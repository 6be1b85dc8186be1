"""The tensor types a library has, read by name from the library itself in a throwaway child."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from ggmlprobe.errors import UnknownType
from ggmlprobe.ggml.child import CAN_FORK, in_child
from ggmlprobe.ggml.symbols import open_all

# More ids than any version has; the scan stops long before.
_LAST_ID = 256
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LONGEST_NAME = 80
_LARGEST_BLOCK = 1 << 16


@dataclass(frozen=True)
class TypeInfo:
    """One tensor type: blck_size values take type_size bytes."""

    id: int
    name: str
    blck_size: int
    type_size: int
    quantized: bool


class Types(dict[str, TypeInfo]):
    """Types by name; a name that is not there raises UnknownType listing what is."""

    def __missing__(self, name: str) -> TypeInfo:
        raise UnknownType(f"this libggml has no type {name}; it has {', '.join(self)}")


def scan(ffi: Any, c: Any) -> Iterator[TypeInfo]:
    """Yield the library's types by rising id; may crash the process past the last one.

    Ids of removed types have a printable name and block size 0: they are skipped. Whatever else is
    no type ends the scan, since past its table the library answers with any memory it finds.
    """
    for number in range(_LAST_ID):
        size = c.ggml_blck_size(number)
        pointer = c.ggml_type_name(number)
        if pointer == ffi.NULL:
            return
        name = ffi.string(pointer, _LONGEST_NAME).decode("latin-1")
        if size == 0 and name.isascii() and name.isprintable():
            continue
        if not _is_block(size) or not _IDENTIFIER.fullmatch(name):
            return
        quantized = bool(c.ggml_is_quantized(number))
        yield TypeInfo(number, name, size, c.ggml_type_size(number), quantized)


def _is_block(size: int) -> bool:
    """Tell a block size, a power of two, from what lies behind the table."""
    return 0 < size <= _LARGEST_BLOCK and size.bit_count() == 1


def parse(lines: Iterable[str]) -> Types:
    """Rebuild the types from the lines a child wrote; a torn last line is dropped."""
    types = Types()
    for line in lines:
        if line.endswith("]"):
            each = TypeInfo(*json.loads(line))
            types[each.name] = each
    return types


def read(ffi: Any, c: Any, files: Iterable[Path]) -> Types:
    """Read the types of a loaded library without risk to this process.

    Args:
        ffi: the FFI that knows the prototypes.
        c: the loaded library's functions.
        files: what to open in a new interpreter where this platform cannot fork.
    """
    if not CAN_FORK:
        return read_in_subprocess(files)

    def work(say: Any) -> None:
        for each in scan(ffi, c):
            say(json.dumps(astuple(each)))

    return parse(in_child(work))


def read_in_subprocess(files: Iterable[Path]) -> Types:
    """Read the types of the given library files in a new interpreter."""
    command = [sys.executable, "-m", "ggmlprobe.ggml.tensor_types", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return parse(done.stdout.splitlines())


def main(files: list[str]) -> None:
    """Write the types of the given library files to stdout, one JSON line each."""
    ffi, c = open_all([Path(file) for file in files])
    for each in scan(ffi, c):
        sys.stdout.write(json.dumps(astuple(each)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
