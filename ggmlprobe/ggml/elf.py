"""What of a 64-bit ELF file must be known before it is opened: its length, and what it links.

The struct layouts are those of elf(5). Any other file has neither.
"""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, NamedTuple

_EHDR_BYTES = 64
_64_BIT, _BIG_ENDIAN = 2, 2
# where Elf64_Ehdr has e_phoff, e_phentsize and e_phnum
_E_PHOFF, _E_PHENTSIZE = 0x20, 0x36
# Elf64_Phdr: p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
_PHDR, _PHDR_BYTES = "IIQQQQQQ", 56
_PT_LOAD, _PT_DYNAMIC = 1, 2
# Elf64_Dyn: d_tag, d_val
_DYN, _DYN_BYTES = "qQ", 16
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5
_LONGEST_NAME, _LONGEST_TABLE = 4096, 1 << 20


class _Segment(NamedTuple):
    type: int
    offset: int
    address: int
    size: int


class _Layout(NamedTuple):
    """Byte order as struct writes it, where the table of segments ends, and the segments."""

    order: str
    table_end: int
    segments: list[_Segment]


def _layout(file: BinaryIO) -> _Layout:
    file.seek(0)
    header = file.read(_EHDR_BYTES)
    if header[:4] != b"\x7fELF" or len(header) < _EHDR_BYTES or header[4] != _64_BIT:
        return _Layout("", 0, [])
    order = ">" if header[5] == _BIG_ENDIAN else "<"
    offset: int = struct.unpack_from(f"{order}Q", header, _E_PHOFF)[0]
    size: int
    count: int
    size, count = struct.unpack_from(f"{order}HH", header, _E_PHENTSIZE)
    table_end = offset + size * count
    if size != _PHDR_BYTES or file.seek(0, os.SEEK_END) < table_end:
        return _Layout(order, table_end, [])
    file.seek(offset)
    entries = struct.iter_unpack(f"{order}{_PHDR}", file.read(size * count))
    return _Layout(order, table_end, [_Segment(e[0], e[2], e[3], e[5]) for e in entries])


def bytes_needed(file: BinaryIO) -> int:
    """Return how long the file has to be for the loader, which maps it unchecked.

    A page beyond the end of the file would end the process in SIGBUS when it is touched.

    Returns:
        Bytes; 0 for a file that is no 64-bit ELF.
    """
    layout = _layout(file)
    ends = [each.offset + each.size for each in layout.segments if each.type == _PT_LOAD]
    return max([layout.table_end, *ends])


def linked(file: BinaryIO) -> list[str]:
    """Return the names of the libraries that a file is linked with (DT_NEEDED).

    Of a damaged file, names that lie outside of it are empty.
    """
    layout = _layout(file)
    names, table = [], 0
    for each in (segment for segment in layout.segments if segment.type == _PT_DYNAMIC):
        if each.offset >= file.seek(0, os.SEEK_END):
            break
        file.seek(each.offset)
        data = file.read(min(each.size, _LONGEST_TABLE))
        whole = data[: len(data) // _DYN_BYTES * _DYN_BYTES]
        for tag, value in struct.iter_unpack(f"{layout.order}{_DYN}", whole):
            if tag == _DT_NULL:
                break
            if tag == _DT_NEEDED:
                names.append(value)
            if tag == _DT_STRTAB:
                table = _offset(layout, value)
    return [_text(file, table + name) for name in names]


def _offset(layout: _Layout, address: int) -> int:
    """Return where in the file an address lies."""
    for each in layout.segments:
        if each.type == _PT_LOAD and each.address <= address < each.address + each.size:
            return address - each.address + each.offset
    return 0


def _text(file: BinaryIO, offset: int) -> str:
    if offset >= file.seek(0, os.SEEK_END):
        return ""
    file.seek(offset)
    return file.read(_LONGEST_NAME).partition(b"\0")[0].decode("utf-8", "replace")
