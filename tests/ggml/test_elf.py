"""What an ELF file needs to be opened, told without opening it."""

from __future__ import annotations

import io
import struct
import subprocess
from pathlib import Path

import pytest

from ggmlprobe.ggml.elf import bytes_needed, linked


@pytest.mark.parametrize("big_endian", [False, True])
def test_bytes_a_file_needs(big_endian: bool) -> None:
    order = ">" if big_endian else "<"
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02" + (b"\x02" if big_endian else b"\x01")
    struct.pack_into(f"{order}Q", header, 0x20, 64)
    struct.pack_into(f"{order}HH", header, 0x36, 56, 2)
    load = struct.pack(f"{order}IIQQQQQQ", 1, 4, 4096, 0, 0, 904, 5000, 4096)
    note = struct.pack(f"{order}IIQQQQQQ", 4, 4, 9000, 0, 0, 904, 904, 4)
    assert bytes_needed(io.BytesIO(header + load + note)) == 5000
    assert bytes_needed(io.BytesIO(header + load)) == 64 + 2 * 56
    # whatever else is no matter of this
    assert bytes_needed(io.BytesIO(header[:63])) == 0
    assert bytes_needed(io.BytesIO(b"MZ" + bytes(100))) == 0
    struct.pack_into(f"{order}Q", header, 0x20, 2**64 - 1)
    assert bytes_needed(io.BytesIO(header + load + note)) > 2**63


def test_what_a_library_links(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int a(void) { return 1; }")
    flags = ["-shared", "-fPIC", "-Wl,--no-as-needed", str(source)]
    one, two = tmp_path / "libone.so", tmp_path / "libtwo.so"
    subprocess.run(["cc", *flags, "-Wl,-soname,libggml-rpc.so", "-o", one], check=True)
    subprocess.run(["cc", *flags, one, "-lm", "-o", two], check=True)
    with two.open("rb") as file:
        names = linked(file)
    assert names[:2] == ["libggml-rpc.so", "libm.so.6"]
    data = two.read_bytes()
    for length in (0, 63, 64, 700, len(data) // 2, len(data) - 1):
        # cut short, it is refused elsewhere
        assert set(linked(io.BytesIO(data[:length]))) <= {*names, ""}
    assert linked(io.BytesIO(b"MZ" + bytes(100))) == []


def test_names_that_lie_nowhere() -> None:
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", header, 0x20, 64)
    struct.pack_into("<HH", header, 0x36, 56, 1)
    dynamic = struct.pack("<IIQQQQQQ", 2, 4, 120, 0, 0, 2**64 - 1, 48, 8)
    tags = struct.pack("<qQqQqQ", 5, 2**64 - 1, 1, 2**64 - 1, 1, 7)
    assert linked(io.BytesIO(bytes(header) + dynamic + tags))[0] == ""
