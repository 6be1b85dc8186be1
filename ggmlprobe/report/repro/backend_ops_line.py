"""Lines for `test-backend-ops --test-file`: the op at one width, against the CPU reference.

Such a test compares two backends at the same width within an error bound. It can show that a width
is wrong; it cannot show that two widths differ.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ggmlprobe.report.repro.case import Case
from ggmlprobe.report.repro.program_values import PREC_F32, check, scale

LABEL = (
    "correctness of one width against the CPU reference: it cannot show that two widths differ "
    "(--emit c and --emit test-case do)"
)


class TypeSize(NamedTuple):
    """A tensor type of the library the line is for: its number, values and bytes in a block."""

    id: int
    blck_size: int
    type_size: int


@dataclass(frozen=True)
class Numbers:
    """What the numbers in a line mean, which changes from release to release.

    Attributes:
        ops: ids by name of enum ggml_op. types: sizes by type name.
    """

    ops: Mapping[str, int]
    types: Mapping[str, TypeSize]


class Source(NamedTuple):
    """A source tensor: type, dimensions, the order these have in memory, and values in a row."""

    type: str
    ne: tuple[int, int, int, int]
    order: tuple[int, int, int, int] = (0, 1, 2, 3)
    row: int = 0


def lines(case: Case, numbers: Numbers, width: int | None = None) -> str:
    """A line per op of the case.

    Args:
        width: without it the first width that differs, else the widest.

    Raises:
        UsageError: the case, or the library, has no such line; says why.
    """
    check(case)
    chosen = width or next(iter(case.differing), case.rows[-1].width)
    return "".join(_line(case, numbers, *each) for each in _MAKERS[case.op](case, chosen))


Node = tuple[str, tuple[int, ...], Sequence[int], Sequence[Source]]
"""Op, dimensions of its output, op_params, sources."""


def _line(
    case: Case, numbers: Numbers, op: str, ne: Sequence[int], params: Sequence[int],
    sources: Sequence[Source],
) -> str:  # fmt: skip
    missing = [each.type for each in sources if each.type not in numbers.types]
    if op not in numbers.ops or missing:
        raise case.refused(f"this library has no {missing[0] if missing else op}")
    words: list[int | str] = [numbers.ops[op], numbers.types["f32"].id, *ne, len(params), *params]
    words.append(len(sources))
    for source in sources:
        size = numbers.types[source.type]
        words += [size.id, *source.ne, *_strides(case, source, size)]
    return " ".join(map(str, [*words, "-"])) + "\n"


def _strides(case: Case, source: Source, size: TypeSize) -> list[int]:
    """Bytes between neighbours of each dimension."""
    if source.ne[0] % size.blck_size:
        raise case.refused(f"rows of {source.ne[0]} do not fit {source.type}")
    strides, step = [0] * 4, size.type_size
    for axis in source.order:
        strides[axis] = step
        step *= (source.row or source.ne[0]) // size.blck_size if axis == 0 else source.ne[axis]
    return strides


def _f32(*values: float) -> list[int]:
    """Bits of C floats as int32."""
    return list(struct.unpack(f"={len(values)}i", struct.pack(f"={len(values)}f", *values)))


def _mul_mat(case: Case, width: int) -> list[Node]:
    if case.integers("per", (0, 1, 2, 3)) != (0, 1, 2, 3) or case.integer("k_v", 0):
        raise case.refused("--per and --k-v: use --emit test-case")
    (ne2, ne3), (nr2, nr3) = case.integers("bs", (1, 1)), case.integers("nr", (1, 1))
    m, k, b2, b3 = case.integer("m"), case.integer("k"), ne2 * nr2, ne3 * nr3
    a = Source(case.value("type_a", str), (k, m, ne2, ne3))
    b = Source(case.value("type_b", str), (k, width, b2, b3))
    prec = PREC_F32 if case.value("prec", str) == "f32" else 0
    return [("MUL_MAT", (m, width, b2, b3), [prec], [a, b])]


def _mul_mat_id(case: Case, width: int) -> list[Node]:
    experts, used = case.integer("n_mats"), case.integer("n_used")
    m, k, slots = case.integer("m"), case.integer("k"), 1 if case.value("b", bool) else used
    sources = [
        Source(case.value("type_a", str), (k, m, experts, 1)),
        Source(case.value("type_b", str), (k, slots, width, 1)),
        Source("i32", (used, width, 1, 1), row=experts),
    ]  # fmt: skip
    return [("MUL_MAT_ID", (m, used, width, 1), [0], sources)]


class _Sizes:
    """Sizes of an attention case, and the sources that both attentions have."""

    def __init__(self, case: Case, width: int) -> None:
        (gqa, self.streams), self.nh = case.integers("nr23", (1, 1)), case.integer("nh")
        self.hsk, self.hsv, self.kv = case.integer("hsk"), case.integer("hsv"), case.integer("kv")
        self.heads, self.type_v = self.nh * gqa, str(case.value("type_V", str))
        inside = case.rows[0].params.get("layout") != "contiguous"
        self.order = (0, 2, 1, 3) if inside else (0, 1, 2, 3)
        self.q = Source("f32", (self.hsk, width, self.heads, self.streams), self.order)
        self.k = Source(case.value("type_K", str), (self.hsk, self.kv, self.nh, self.streams),
                        self.order)  # fmt: skip
        self.mask, self.sinks = case.value("mask", bool), case.value("sinks", bool)
        self.max_bias = float(case.value("max_bias", float))
        self.softcap = float(case.value("logit_softcap", float))
        self.prec = PREC_F32 if case.value("prec", str) == "f32" else 0
        if self.sinks and not self.mask:
            raise case.refused("a line cannot hold sinks without a mask: use --emit c")


def _flash_attn(case: Case, width: int) -> list[Node]:
    s = _Sizes(case, width)
    if case.value("v_is_view_of_k", bool):
        raise case.refused("a line cannot say that V is a view of K: use --emit test-case")
    v = Source(s.type_v, (s.hsv, s.kv, s.nh, s.streams), s.order)
    sources = [s.q, s.k, v]
    sources += [Source("f16", (s.kv, width, 1, s.streams))] if s.mask else []
    sources += [Source("f32", (s.heads, 1, 1, 1))] if s.sinks else []
    params = [*_f32(scale(s.hsk), s.max_bias, s.softcap), s.prec]
    return [("FLASH_ATTN_EXT", (s.hsv, s.heads, width, s.streams), params, sources)]


def _attn_nofa(case: Case, width: int) -> list[Node]:
    s = _Sizes(case, width)
    shape = (s.kv, width, s.heads, s.streams)
    p = Source("f32", shape)
    sources = [p, *([Source("f32", (s.kv, width, 1, s.streams))] if s.mask else [])]
    sources += [Source("f32", (s.heads, 1, 1, 1))] if s.sinks else []
    v = Source(s.type_v, (s.kv, s.hsv, s.nh, s.streams))
    soft_max = _f32(1.0 if s.softcap else scale(s.hsk), s.max_bias)
    return [
        ("MUL_MAT", shape, [s.prec], [s.k, s.q]),
        ("SOFT_MAX", shape, soft_max, sources),
        ("MUL_MAT", (s.hsv, width, s.heads, s.streams), [0], [v, p]),
    ]


_MAKERS: Mapping[str, Callable[[Case, int], list[Node]]] = {
    "MUL_MAT": _mul_mat,
    "MUL_MAT_ID": _mul_mat_id,
    "FLASH_ATTN_EXT": _flash_attn,
    "ATTN_NOFA": _attn_nofa,
}
