"""Types are read by name from the library, past gaps; a crash behind the last is harmless."""

from __future__ import annotations

import os

import pytest

from ggmlprobe.errors import UnknownType, UsageError
from ggmlprobe.ggml.child import in_child
from ggmlprobe.ggml.declarations import ffi
from ggmlprobe.ggml.library import Library
from ggmlprobe.ggml.tensor_types import TypeInfo, Types, parse, read, read_in_subprocess

# (name, blck_size, type_size, quantized): gaps as ggml has them, then what lies behind the table
TABLE = [
    (b"f32", 1, 4, 0),
    (b"DEPRECATED", 0, 0, 0),
    (b"TYPE_Q4_0_4_4 REMOVED, use Q4_0 with runtime repacking", 0, 0, 0),
    (b"q4_K", 256, 144, 1),
]
SEEN = {"f32": TypeInfo(0, "f32", 1, 4, False), "q4_K": TypeInfo(3, "q4_K", 256, 144, True)}


class FakeLibrary:
    """Answers like a table in memory, with given entries or a crash behind it."""

    def __init__(self, table: list[tuple[bytes | None, int, int, int]]) -> None:
        self._table = table
        self._names = [
            ffi().NULL if row[0] is None else ffi().new("char[]", row[0]) for row in table
        ]

    def ggml_blck_size(self, number: int) -> int:
        if number >= len(self._table):
            os.abort()
        return self._table[number][1]

    def ggml_type_name(self, number: int) -> object:
        return self._names[number]

    def ggml_type_size(self, number: int) -> int:
        return self._table[number][2]

    def ggml_is_quantized(self, number: int) -> int:
        return self._table[number][3]


@pytest.mark.parametrize(
    "behind",
    [
        [],
        [(None, 0, 0, 0)],
        [(b"\xc0vj7<\x7f", 139896607893344, 5, 0), (b"fake", 1, 1, 0)],
        [(b"\xf3\x0f\x1e", 0, 0, 0), (b"fake", 1, 1, 0)],
        # the first of the op names, with what there is beside it
        [(b"NONE", 14, 12, 0), (b"fake", 1, 1, 0)],
        [(b"AVAUI\x89\xf5H", 1, 1, 0), (b"fake", 1, 1, 0)],
        [(b"", 1, 1, 0), (b"fake", 1, 1, 0)],
    ],
)
def test_scan_passes_gaps_and_stops_behind_the_table(
    behind: list[tuple[bytes | None, int, int, int]],
) -> None:
    assert read(ffi(), FakeLibrary([*TABLE, *behind]), []) == SEEN


def test_child_keeps_what_was_said_before_it_died() -> None:
    def work(say: object) -> None:
        say("first")  # type: ignore[operator]
        os.abort()

    assert in_child(work) == ["first"]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_both_ways_to_read_agree(library: Library) -> None:
    again = read_in_subprocess(library.found.files)
    assert again == library.types
    assert {"f32", "f16", "bf16", "q8_0", "q4_K", "iq3_s", "mxfp4"} <= again.keys()
    assert not any("DEPRECATED" in name or "REMOVED" in name for name in again)


def test_torn_last_line_is_dropped() -> None:
    assert parse(['[0, "f32", 1, 4, false]', '[1, "f1']) == {"f32": SEEN["f32"]}


def test_unknown_type_lists_what_there_is() -> None:
    types = Types(SEEN)
    with pytest.raises(UnknownType, match="no type q9_Z; it has f32, q4_K"):
        types["q9_Z"]
    assert types.get("q9_Z") is None


def test_row_size(library: Library) -> None:
    assert library.row_size("q4_K", 512) == 288
    assert library.row_size("f16", 7) == 14
    with pytest.raises(UsageError, match="block size 256"):
        library.row_size("q4_K", 300)
    with pytest.raises(UnknownType):
        library.row_size("q9_Z", 256)
