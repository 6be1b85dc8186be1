"""A test_case struct in the style of test-backend-ops.cpp, to paste into it.

It derives from upstream's own struct of the op, so that parameters, inputs and the case's string
are those of the existing tests; the block and its tokens one by one are in one graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ggmlprobe.report.repro.case import Case
from ggmlprobe.report.repro.template import fill, template

# test_case::eval() makes room for 128 tensors; attention takes 5 a token
MOST_TOKENS = 20


@dataclass(frozen=True)
class Shape:
    """How an op's struct is extended.

    Attributes:
        base: upstream's struct. n: its member that is the width. axis: of the tokens in the output.
        block: what is done to the block's node. single: lines that make `t`, token i alone.
    """

    base: str
    n: str
    axis: int
    single: tuple[str, ...]
    block: tuple[str, ...] = ()


SHAPES = {
    "MUL_MAT": Shape("test_mul_mat", "n", 1, (
        "ggml_tensor * b = block->src[1];",
        "b = ggml_view_4d(ctx, b, b->ne[0], 1, b->ne[2], b->ne[3], b->nb[1], b->nb[2], b->nb[3], "
        "i*b->nb[1]);",
        "ggml_tensor * t = ggml_mul_mat(ctx, block->src[0], b);",
    )),
    "MUL_MAT_ID": Shape("test_mul_mat_id", "n", 2, (
        "ggml_tensor * b   = block->src[1];",
        "ggml_tensor * ids = block->src[2];",
        "b   = ggml_view_3d(ctx, b, b->ne[0], b->ne[1], 1, b->nb[1], b->nb[2], i*b->nb[2]);",
        "ids = ggml_view_2d(ctx, ids, ids->ne[0], 1, ids->nb[1], i*ids->nb[1]);",
        "ggml_tensor * t = ggml_mul_mat_id(ctx, block->src[0], b, ids);",
    )),
    "FLASH_ATTN_EXT": Shape("test_flash_attn_ext", "nb", 2, (
        "ggml_tensor * q = block->src[0];",
        "ggml_tensor * m = block->src[3];",
        "q = ggml_view_4d(ctx, q, q->ne[0], 1, q->ne[2], q->ne[3], q->nb[1], q->nb[2], q->nb[3], "
        "i*q->nb[1]);",
        "m = m ? ggml_view_4d(ctx, m, m->ne[0], 1, 1, m->ne[3], m->nb[1], m->nb[2], m->nb[3], "
        "i*m->nb[1]) : nullptr;",
        "ggml_tensor * t = ggml_flash_attn_ext(ctx, q, block->src[1], block->src[2], m, "
        "1.0f/sqrtf(hsk), max_bias, logit_softcap);",
        "ggml_flash_attn_ext_add_sinks(t, block->src[4]);",
        "ggml_prec_set_acc(t, prec);",
    )),
}  # fmt: skip
PREC = "ggml_prec_set_acc({}, GGML_PREC_F32);"


def struct(case: Case, width: int | None = None) -> str:
    """The struct, and the line that makes a test of the case.

    Args:
        width: tokens of the block; without it the first width that differs, else the widest.

    Raises:
        UsageError: upstream's struct has no such case; says why.
    """
    case.refuse_elsewhere()
    shape = SHAPES.get(case.op)
    if shape is None:
        raise case.refused(f"test-backend-ops has no struct for {case.op}: use --emit c")
    width = width or next(iter(case.differing), case.rows[-1].width)
    if width > MOST_TOKENS:
        raise case.refused(f"width {width} is more than {MOST_TOKENS}: give --width")
    arguments, prec = _ARGUMENTS[case.op](case, width)
    single = (*shape.single, PREC.format("t")) if prec else shape.single
    return fill(template("backend_ops_struct.cpp").replace("@block@\n", _lines(
        (PREC.format("block"),) if prec else (), 8)), {
        "op": case.op, "base": shape.base, "n": shape.n, "axis": str(shape.axis),
        "width": str(width), "arguments": arguments, "single": _lines(single, 12).rstrip("\n"),
    })  # fmt: skip


def _lines(lines: Sequence[str], indent: int) -> str:
    return "".join(f"{' ' * indent}{line}\n" for line in lines)


def ggml_type(case: Case, name: str) -> str:
    """Upstream's enumerator of a type: GGML_TYPE_Q4_K."""
    value = str(case.value(name, str))
    if not value.replace("_", "").isalnum() or not value.isascii():
        raise case.refused(f"its parameter {name} is {value!a}")
    return f"GGML_TYPE_{value.upper()}"


def _braces(values: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _mul_mat(case: Case, width: int) -> tuple[str, bool]:
    bs, nr = case.integers("bs", (1, 1)), case.integers("nr", (1, 1))
    arguments = [
        ggml_type(case, "type_a"), ggml_type(case, "type_b"), case.integer("m"), width,
        case.integer("k"), _braces(bs), _braces(nr), _braces(case.integers("per", (0, 1, 2, 3))),
        case.integer("k_v", 0),
    ]  # fmt: skip
    return ", ".join(map(str, arguments)), case.value("prec", str) == "f32"


def _mul_mat_id(case: Case, width: int) -> tuple[str, bool]:
    arguments = [
        ggml_type(case, "type_a"), ggml_type(case, "type_b"), case.integer("n_mats"),
        case.integer("n_used"), "true" if case.value("b", bool) else "false", case.integer("m"),
        width, case.integer("k"),
    ]  # fmt: skip
    return ", ".join(map(str, arguments)), False


def _flash_attn(case: Case, width: int) -> tuple[str, bool]:
    nr23 = case.integers("nr23", (1, 1))
    if nr23[1] > 1 and case.value("mask", bool):
        raise case.refused("a mask of several streams cannot be cut into tokens: use --emit c")
    inside = case.rows[0].params.get("layout") != "contiguous"
    flags = {name: "true" if case.value(name, bool) else "false"
             for name in ("mask", "sinks", "v_is_view_of_k")}  # fmt: skip
    arguments = [
        case.integer("hsk"), case.integer("hsv"), case.integer("nh"), _braces(nr23),
        case.integer("kv"), width, flags["mask"], flags["sinks"],
        f"{case.value('max_bias', float)!r}f", f"{case.value('logit_softcap', float)!r}f",
        "GGML_PREC_F32" if case.value("prec", str) == "f32" else "GGML_PREC_DEFAULT",
        ggml_type(case, "type_K"), ggml_type(case, "type_V"),
        _braces((0, 2, 1, 3) if inside else (0, 1, 2, 3)), "false", flags["v_is_view_of_k"],
    ]  # fmt: skip
    return ", ".join(map(str, arguments)), False


_ARGUMENTS = {"MUL_MAT": _mul_mat, "MUL_MAT_ID": _mul_mat_id, "FLASH_ATTN_EXT": _flash_attn}
