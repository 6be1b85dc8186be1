"""From addresses to names: the maps of a process, and symbol tables of libraries made for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ggmlprobe.dispatch.symbols import Objects, Symbol, SymbolTable, read_symbols, require_symbols
from ggmlprobe.errors import UsageError
from ggmlprobe.ggml.maps import Mapped, mapped

MAPS = """\
55d0a0000000-55d0a0001000 r--p 00000000 fe:00 123                        /usr/bin/thing
55d0a0001000-55d0a0005000 r-xp 00001000 fe:00 123                        /usr/bin/thing
7f0000000000-7f0000010000 r-xp 00002000 fe:00 77     /opt/a folder/lib.so (deleted)
7f0000010000-7f0000020000 rw-p 00012000 fe:00 77                         /opt/a folder/lib.so
7ffff0000000-7ffff0001000 r-xp 00000000 00:00 0                          [vdso]
7ffff0002000-7ffff0003000 r-xp 00000000 00:00 0
"""


def nm(library: Path) -> dict[str, int]:
    """Functions by name, as binutils reads them."""
    out = subprocess.run(["nm", str(library)], check=True, capture_output=True, text=True).stdout
    fields = [line.split() for line in out.splitlines()]
    return {each[2]: int(each[0], 16) for each in fields if len(each) == 3 and each[1] in "tT"}


def test_only_executable_mappings_are_taken() -> None:
    assert mapped(MAPS) == [
        Mapped(0x55D0A0001000, 0x55D0A0005000, 0x1000, "/usr/bin/thing"),
        Mapped(0x7F0000000000, 0x7F0000010000, 0x2000, "/opt/a folder/lib.so"),
        Mapped(0x7FFFF0000000, 0x7FFFF0001000, 0, "[vdso]"),
        Mapped(0x7FFFF0002000, 0x7FFFF0003000, 0, ""),
    ]


def test_address_is_in_a_function_from_its_first_byte_to_its_last() -> None:
    table = SymbolTable(
        [Symbol(0x5020, 0x10, "second"), Symbol(0x5000, 0x18, "first")],
        [(0x1000, 0x100, 0x5000)],
        stripped=False,
    )
    assert len(table) == 2
    names = {at: table.name_at(0x1000 + at) for at in (0, 0x17, 0x18, 0x1F, 0x20, 0x2F, 0x30)}
    assert names == {
        0: "first", 0x17: "first", 0x18: None, 0x1F: None, 0x20: "second", 0x2F: "second",
        0x30: None,
    }  # fmt: skip
    assert table.name_at(0xFFF) is None, "not loaded"
    assert table.name_at(0x1100) is None, "not loaded"


def test_functions_of_a_compiled_library_local_ones_too(burn: Path) -> None:
    table = read_symbols(str(burn))
    assert not table.stripped
    expected = nm(burn)
    assert {"burn", "local_first", "local_second"} <= set(expected)
    # text of a small library is loaded where it lies in the file
    for name in ("burn", "local_first", "local_second"):
        assert table.name_at(expected[name]) == name
        assert table.name_at(expected[name] + 4) == name
        assert table.name_at(expected[name] - 1) != name


def test_stripped_library_is_refused_in_one_line(burn: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped.so"
    shutil.copy(burn, stripped)
    subprocess.run(["strip", str(stripped)], check=True)
    assert read_symbols(str(stripped)).stripped
    assert len(read_symbols(str(stripped))) > 0, "names for dynamic linking are left"
    require_symbols([str(burn)])
    with pytest.raises(UsageError, match=r"stripped\.so is stripped") as raised:
        require_symbols([str(burn), str(stripped)])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF" + bytes(200), b"no library"])
def test_file_that_is_no_library_has_no_symbols(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert len(read_symbols(str(path))) == 0
    assert read_symbols(str(path)).stripped


def test_missing_file_has_no_symbols(tmp_path: Path) -> None:
    assert len(read_symbols(str(tmp_path / "gone"))) == 0


def test_objects_tell_the_library_from_all_else(burn: Path) -> None:
    start, size = 0x7F0000000000, 0x10000
    here = Mapped(start, start + size, 0, str(burn))
    other = Mapped(start + size, start + 2 * size, 0, "/usr/lib/libother.so")
    objects = Objects([here, other], {str(burn)})
    first = nm(burn)["local_first"]
    assert objects.locate(start + first) == (burn.name, "local_first")
    assert objects.locate(start) == (burn.name, f"[{burn.name}]"), "no function: the ELF header"
    assert objects.locate(start + size + 5) == ("libother.so", None)
    assert objects.locate(start - 1) == ("unmapped", None)
    assert objects.locate(start + 2 * size) == ("unmapped", None)
