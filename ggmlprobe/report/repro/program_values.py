"""What the C program of a case is made of: constants, conditions, and which templates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ggmlprobe.inputs import pool_rows
from ggmlprobe.report.repro.case import Case

PREC_F32 = 10  # ggml.h: GGML_PREC_F32
PLAIN_ORDER = (0, 1, 2, 3)
ROUTINGS = ("shared", "disjoint", "random", "skewed")
SETTERS = {
    "FLASH_ATTN_EXT": "ggml_flash_attn_ext_set_prec",
    "MUL_MAT": "ggml_mul_mat_set_prec",
    "ATTN_NOFA": "ggml_mul_mat_set_prec",
}
FLAGS = (
    "BUFT", "PREC", "OUTLIERS", "DISJOINT", "DRAWN", "VIEW", "NOFA", "V_IN_K", "OUTSIDE", "PLAIN",
    "ODD", "MASK", "SINKS", "SOFTCAP", "EARLY", "PADDED",
)  # fmt: skip

Values = dict[str, int | float | str]


@dataclass(frozen=True)
class Made:
    """A program's parts.

    Attributes:
        values: constants by name. parts: templates in order.
        flags: conditions of lines; those that are not given are unset.
    """

    values: Values
    parts: list[str]
    flags: dict[str, bool] = field(default_factory=dict)


def made_of(case: Case) -> Made:
    """Parts of a case's program.

    Raises:
        UsageError: a case that it cannot reproduce; says why.
    """
    check(case)
    makers = {"MUL_MAT": _mul_mat, "MUL_MAT_ID": _mul_mat_id}
    made = makers.get(case.op, _attention)(case)
    own: Values = {
        "DEVICE": case.config.device.name, "BUFT": case.config.buft or "",
        "THREADS": case.config.threads, "THREADS_BATCH": case.config.threads_batch,
        "TOKENS": tokens(case),
    }  # fmt: skip
    version = case.config.library.version
    release = {
        # until September 2025 ggml had no version of its own
        "EARLY": version in (None, "0.0.1"),
        # 0.9.4 was both; one that wants no padding takes it all the same
        "PADDED": version in (None, "0.0.1", *(f"0.9.{patch}" for patch in range(5))),
    }
    flags = dict.fromkeys(FLAGS, False) | made.flags | release
    return Made(made.values | own, made.parts, flags)


def check(case: Case) -> None:
    """Refuse cases whose inputs or path a program of its own cannot have.

    Raises:
        UsageError: says why.
    """
    params = case.rows[0].params
    if case.op not in ("MUL_MAT", "MUL_MAT_ID", "FLASH_ATTN_EXT", "ATTN_NOFA"):
        raise case.refused(f"there is none for {case.op}")
    if case.config.arm or case.config.model:
        raise case.refused("a forced path and a whole model take ggmlprobe itself")
    case.refuse_elsewhere()
    if "check" in params or "weights" in params:
        raise case.refused("checks and weights from a file take ggmlprobe itself")
    if not case.compared:
        raise case.refused(f"no width of it was compared ({case.rows[0].verdict})")


def tokens(case: Case) -> int:
    """All tokens of the case: width 1 has a hash of each."""
    alone = [len(part.hashes) for row in case.compared if row.width == 1 for part in row.seeds]
    return max([row.width for row in case.compared] + alone)


def scale(hsk: int) -> float:
    """1/sqrt(hsk), rounded as a C float."""
    return float(np.float32(1.0) / np.sqrt(np.float32(hsk)))


def _product(case: Case, rows: int) -> Made:
    k, activations = case.integer("k"), case.value("activations", str)
    if activations not in ("normal", "outliers"):
        raise case.refused(f"activations are {activations}")
    values: Values = {
        "TYPE_A": case.value("type_a", str), "TYPE_B": case.value("type_b", str),
        "M": case.integer("m"), "K": k, "POOL": min(rows, pool_rows(k)),
    }  # fmt: skip
    flags = {"BUFT": case.config.buft is not None, "OUTLIERS": activations == "outliers"}
    return Made(values, ["product.c"], flags)


def _mul_mat(case: Case) -> Made:
    if case.integers("per", PLAIN_ORDER) != PLAIN_ORDER or case.integer("k_v", 0):
        raise case.refused("--per and --k-v are not in the program: use --emit test-case")
    (ne2, ne3), (nr2, nr3) = case.integers("bs", (1, 1)), case.integers("nr", (1, 1))
    made, prec = _product(case, case.integer("m") * ne2 * ne3), case.value("prec", str) == "f32"
    sizes: Values = {
        "NE2": ne2, "NE3": ne3, "NR2": nr2, "NR3": nr3, "OUTER": ne2 * ne3 * nr2 * nr3,
        "INNER": case.integer("m"), "PREC": PREC_F32,
    }  # fmt: skip
    parts = [*(["set_prec.c"] if prec else []), *made.parts, "mul_mat.c"]
    return Made(made.values | sizes, parts, made.flags | {"PREC": prec})


def _mul_mat_id(case: Case) -> Made:
    experts, used = case.integer("n_mats"), case.integer("n_used")
    made, routing = _product(case, case.integer("m") * experts), case.value("routing", str)
    if routing not in ROUTINGS or used > experts:
        raise case.refused(f"routing is {routing} to {used} of {experts}")
    sizes: Values = {
        "N_MATS": experts, "N_USED": used, "SLOTS": 1 if case.value("b", bool) else used,
        # ops/mul_mat_id.py: skewed tokens draw from the first quarter
        "DRAWN": max(used, experts // 4) if routing == "skewed" else experts,
        "OUTER": 1, "INNER": used * case.integer("m"),
    }  # fmt: skip
    flags = {"VIEW": True, "DISJOINT": routing == "disjoint",
             "DRAWN": routing in ("random", "skewed")}  # fmt: skip
    return Made(made.values | sizes, [*made.parts, "mul_mat_id.c"], made.flags | flags)


def _attention(case: Case) -> Made:
    (gqa, streams), nh = case.integers("nr23", (1, 1)), case.integer("nh")
    kv, cells, window = case.integer("kv"), case.integer("cells"), case.integer("window", 0)
    bias, softcap = case.value("max_bias", float), case.value("logit_softcap", float)
    if not tokens(case) <= cells <= kv or not math.isfinite(bias + softcap):
        raise case.refused(f"it has {cells} cells of {kv} for {tokens(case)} tokens")
    nofa, prec = case.op == "ATTN_NOFA", case.value("prec", str) == "f32"
    outside = case.rows[0].params.get("layout") == "contiguous"
    hsk, hsv = case.integer("hsk"), case.integer("hsv")
    values: Values = {
        "HSK": hsk, "HSV": hsv, "NH": nh, "HEADS": nh * gqa, "STREAMS": streams, "CELLS": cells,
        "N_KV": kv, "TYPE_K": case.value("type_K", str), "TYPE_V": case.value("type_V", str),
        "SEEN": window or kv, "MAX_BIAS": bias, "SCALE": scale(hsk), "SOFTCAP": softcap,
        "PREC": PREC_F32 if prec else 0, "OUTER": streams, "INNER": hsv * nh * gqa,
    }  # fmt: skip
    flags = {
        "VIEW": True, "NOFA": nofa, "OUTSIDE": outside, "PLAIN": streams == 1 and not outside,
        "ODD": nofa or outside or streams > 1, "MASK": case.value("mask", bool), "PREC": prec,
        "SINKS": case.value("sinks", bool), "SOFTCAP": softcap > 0,
        "V_IN_K": case.value("v_is_view_of_k", bool),
    }  # fmt: skip
    set_prec = ["set_prec.c"] if prec or nofa else []
    own = "attn_nofa.c" if nofa else "flash_attn.c"
    return Made(values, [*set_prec, "attention.c", own], flags)
