"""Whether another library can take a function's place: what a file exports, and what it looks up.

pyelftools is imported when the first file is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ggmlprobe.errors import LibraryBroken, SymbolMissing

# Elf64_Sym and Elf64_Rela of the System V ABI; a relocation's symbol is the upper half of its info
_SYMBOL = np.dtype([("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"),
                    ("value", "u8"), ("size", "u8")])  # fmt: skip
_RELOCATION = np.dtype([("offset", "u8"), ("info", "u8"), ("addend", "i8")])
_UNDEFINED = 0
_LOCAL = 0
_DEFAULT, _PROTECTED = 0, 3
_DF_SYMBOLIC = 2
_MANGLED = re.compile(r"_Z(\d+)(\w+)")


@dataclass(frozen=True)
class Bindings:
    """The names of one file that count when a process is linked together.

    Attributes:
        exported: functions and data it defines for others.
        looked_up: names it finds when it is loaded or first called: a library opened before it
            can define them in its stead.
    """

    exported: frozenset[str]
    looked_up: frozenset[str]


@cache
def read_bindings(path: str) -> Bindings:
    """The dynamic symbols and relocations of an ELF file for this machine.

    Raises:
        LibraryBroken: it is no 64-bit ELF file.
    """
    elffile = import_module("elftools.elf.elffile")
    try:
        with open(path, "rb") as file:
            elf = elffile.ELFFile(file)
            if elf.elfclass != 64:
                raise LibraryBroken(f"{path} is no 64-bit library: give one that is")
            return _bindings(elf)
    except (OSError, elffile.ELFError) as error:
        raise LibraryBroken(f"{path} is no ELF file ({error}): give a build for Linux") from error


def _bindings(elf: Any) -> Bindings:
    table = elf.get_section_by_name(".dynsym")
    if table is None:
        return Bindings(frozenset(), frozenset())
    symbols = np.frombuffer(table.data(), _SYMBOL)
    strings = elf.get_section(table["sh_link"]).data()
    used = {0}
    for section in elf.iter_sections("SHT_RELA"):
        found = np.frombuffer(section.data(), _RELOCATION)["info"]
        used |= set(np.unique(found >> 32).tolist())
    visible = np.isin(symbols["other"] & 3, (_DEFAULT, _PROTECTED))
    defined = (symbols["section"] != _UNDEFINED) & (symbols["info"] >> 4 != _LOCAL) & visible
    # a protected name, and every name of a file linked -Bsymbolic, is found in the file itself
    own = defined & ((symbols["other"] & 3 == _PROTECTED) | _is_symbolic(elf))

    def names(which: Any) -> Iterator[str]:
        for at in symbols["name"][which].tolist():
            yield strings[at : strings.index(b"\0", at)].decode("ascii", "replace")

    looked_up = np.zeros(len(symbols), bool)
    looked_up[sorted(used - {0})] = True
    return Bindings(frozenset(names(defined)), frozenset(names(looked_up & ~own)))


def _is_symbolic(elf: Any) -> bool:
    dynamic = elf.get_section_by_name(".dynamic")
    tags = list(dynamic.iter_tags()) if dynamic is not None else []
    return any(
        tag.entry.d_tag == "DT_SYMBOLIC"
        or (tag.entry.d_tag == "DT_FLAGS" and tag.entry.d_val & _DF_SYMBOLIC)
        for tag in tags
    )


def base_name(symbol: str) -> str:
    """The function's name without the mangled types of its arguments; a C name as it is."""
    match = _MANGLED.match(symbol)
    return match[2][: int(match[1])] if match else symbol


def require_exported(symbol: str, files: Sequence[str]) -> None:
    """Refuse a function that another library cannot call.

    Args:
        symbol: its mangled name.
        files: the library's files that are loaded.

    Raises:
        SymbolMissing: one line with the symbol: another signature, static or hidden.
    """
    names = [name for path in files for name in read_bindings(path).exported]
    if symbol in names:
        return
    others = sorted(name for name in names if _same_function(name, symbol))
    if others:
        raise SymbolMissing(
            f"this version's signature of {base_name(symbol)} differs: it has {others[0]} and "
            f"the arm needs {symbol}; leave the arm out"
        )
    where = ", ".join(Path(path).name for path in files)
    raise SymbolMissing(
        f"{where} does not export {symbol} (static or hidden), so nothing can take its "
        "place: give a build with shared libraries, or leave the arm out"
    )


def require_replaceable(symbol: str, files: Sequence[str]) -> None:
    """Refuse a function whose place no other library can take.

    Args:
        symbol, files: see `require_exported`.

    Raises:
        SymbolMissing: as `require_exported`, or it is called without a lookup.
    """
    require_exported(symbol, files)
    if not any(symbol in read_bindings(path).looked_up for path in files):
        raise SymbolMissing(
            f"{symbol} is called without being looked up (inlined, or linked -Bsymbolic), so "
            "nothing can take its place: give another build, or leave the arm out"
        )


def _same_function(other: str, symbol: str) -> bool:
    mangled = _MANGLED.match(other) is not None and _MANGLED.match(symbol) is not None
    return mangled and base_name(other) == base_name(symbol)
