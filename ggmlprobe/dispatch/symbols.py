"""From program counters to names: what is mapped where, and each file's own symbol table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.maps import Mapped

FUNCTIONS = ("STT_FUNC", "STT_GNU_IFUNC")


@dataclass(frozen=True)
class Symbol:
    """A function: its first address and its bytes."""

    address: int
    size: int
    name: str


class SymbolTable:
    """The functions of one file, by address as the file counts them.

    Attributes:
        stripped: only the names for dynamic linking are left, no local ones.
    """

    def __init__(
        self, symbols: Iterable[Symbol], segments: Iterable[tuple[int, int, int]], stripped: bool
    ) -> None:
        """Sort the symbols.

        Args:
            segments: (offset in the file, bytes, address) of what is loaded.
        """
        # of several names at one address the last one is found: the largest function's
        self._symbols = sorted(symbols, key=lambda each: (each.address, each.size, each.name))
        self._addresses = [each.address for each in self._symbols]
        self._segments = list(segments)
        self.stripped = stripped

    def __len__(self) -> int:
        return len(self._symbols)

    def name_at(self, offset: int) -> str | None:
        """The function that holds this offset of the file; None between functions."""
        address = self._address(offset)
        if address is None:
            return None
        at = bisect_right(self._addresses, address) - 1
        if at < 0:
            return None
        symbol = self._symbols[at]
        return symbol.name if address < symbol.address + symbol.size else None

    def _address(self, offset: int) -> int | None:
        for start, size, address in self._segments:
            if start <= offset < start + size:
                return offset - start + address
        return None


def _functions(elf: Any, table: Any) -> Iterator[Symbol]:
    """The functions of a symbol table; one without a size reaches to the end of its section."""
    for symbol in table.iter_symbols():
        section, address = symbol["st_shndx"], symbol["st_value"]
        if isinstance(section, int) and symbol["st_info"]["type"] in FUNCTIONS:
            holds = elf.get_section(section)
            rest = holds["sh_addr"] + holds["sh_size"] - address
            yield Symbol(address, symbol["st_size"] or rest, symbol.name)


@cache
def read_symbols(path: str) -> SymbolTable:
    """The symbol table of an ELF file; an empty one for any other file.

    The whole table where there is one (.symtab), else that of exported functions (.dynsym).
    """
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            whole = elf.get_section_by_name(".symtab")
            table = whole or elf.get_section_by_name(".dynsym")
            segments = [
                (part["p_offset"], part["p_filesz"], part["p_vaddr"])
                for part in elf.iter_segments("PT_LOAD")
            ]
            return SymbolTable(_functions(elf, table) if table else (), segments, whole is None)
    except (OSError, ELFError):
        return SymbolTable((), (), True)


def require_symbols(paths: Iterable[str]) -> None:
    """Refuse a library whose kernels have no names.

    Raises:
        UsageError: one of its files is stripped.
    """
    for path in paths:
        if read_symbols(path).stripped:
            raise UsageError(
                f"{path} is stripped, its kernels have no names: "
                "give a build with its symbols, or leave --kernels out"
            )


class Objects:
    """What is mapped into a process, and which files of it are the library that is probed."""

    def __init__(self, mappings: Sequence[Mapped], probed: Collection[str]) -> None:
        """Take the mappings in ascending order, and the paths of the library's files."""
        self._mappings = mappings
        self._starts = [each.start for each in mappings]
        self._probed = frozenset(probed)

    def locate(self, pc: int) -> tuple[str, str | None]:
        """(name of the file, name of the function) of an address; no function outside the library.

        Code of the library between its functions, such as the stubs that call other libraries, goes
        by the file's name in brackets.
        """
        at = bisect_right(self._starts, pc) - 1
        if at < 0 or pc >= self._mappings[at].end:
            return "unmapped", None
        here = self._mappings[at]
        file = Path(here.path).name or "anonymous"
        if here.path not in self._probed:
            return file, None
        name = read_symbols(here.path).name_at(pc - here.start + here.offset)
        return file, name or f"[{file}]"
