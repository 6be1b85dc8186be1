"""Whether an arm took effect: the names of the kernels that ran say so, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ggmlprobe.dispatch.arms import Arm
from ggmlprobe.record import CaseClasses, Kernel, Result
from ggmlprobe.verdict import Verdict

FAMILIES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "vec_dot": r"^ggml_vec_dot_(?!\w*_generic)",
        "generic": r"^ggml_vec_dot_\w+_generic",
        # ggml_compute_forward_mul_mat_tiled itself asks first and may decline
        "tiled": r"\btiled_|_tiled_(?!wdata)",
        "sgemm": r"tinyBLAS|llamafile_sgemm",
        # repack.cpp's own, and those of arch/x86/repack.cpp that several types share
        "repack": r"\bggml_gem[mv]_|\bggml::cpu::repack\b|\bgem[mv]_\w+_q8_[0K]_\w",
        "mmvq": r"\bmul_mat_vec_q(_moe)?\b",
        "mmq": r"\bmul_mat_q(_stream_k_fixup)?\b",
        "mmvf": r"\bmul_mat_vec_f\b",
        "mmf": r"\bmul_mat_f(_ids)?\b",
        "cublas": r"(?i)cublas|cutlass|gemm|gemv|xmma|nvjet|splitk",
        "tile": r"\bflash_attn_tile\b",
        "vec": r"\bflash_attn_ext_vec\b",
        "mma": r"\bflash_attn_ext_f16\b",
    }.items()
}
"""Families of kernels by demangled name; the first that fits holds."""

SMALL = 0.05
"""A share of the samples below which a kernel does not count: a few samples of a neighbour."""
# type and number of columns come first among the template arguments of mul_mat_vec_q
_COLUMNS = re.compile(r"\bmul_mat_vec_q<[^,<>]+, (\d+)")
UNPROVEN = "not proven: "


def family(name: str) -> str | None:
    """The family of a kernel; None for helpers such as quantizing the activations."""
    return next((key for key, pattern in FAMILIES.items() if pattern.search(name)), None)


def families(kernels: Iterable[Kernel]) -> frozenset[str]:
    """The families that did the work."""
    shares: dict[str, float] = {}
    for kernel in kernels:
        found = family(kernel.name)
        if found is not None:
            # without a share every launch counts
            share = 1.0 if kernel.share is None or kernel.calls else kernel.share
            shares[found] = shares.get(found, 0.0) + share
    return frozenset(name for name, share in shares.items() if share >= SMALL)


def main_kernel(row: Result) -> str:
    """Name of the kernel of a family with the largest share, a dash where there is none."""
    named = [kernel for kernel in row.kernels if family(kernel.name)]
    return named[0].name if named else "-"


def unproven(arm: Arm, row: Result, own: Mapping[int, Result]) -> str | None:
    """Why nothing shows that an arm took effect, or None where its kernels do.

    Args:
        row: of the arm. own: rows of the library's own choice by width, of the same case.
    """
    if not row.kernels:
        return row.kernels_note or "no kernel names"
    ran = families(row.kernels)
    names = ", ".join(sorted(ran)) or row.kernels[0].name
    if arm.families and not (ran and ran <= arm.families):
        return f"{names} ran"
    if arm.columns is None:
        return None
    if arm.families:
        return _wide_call(arm.columns, row)
    return _not_as_narrow(arm.columns, row.width, ran, own)


def _wide_call(columns: int, row: Result) -> str | None:
    """A template argument shows the columns of a call."""
    for kernel in row.kernels:
        match = _COLUMNS.search(kernel.name)
        if match is not None and int(match[1]) > columns:
            return f"a call had {match[1]} columns"
    return None


def _not_as_narrow(
    columns: int, width: int, ran: frozenset[str], own: Mapping[int, Result]
) -> str | None:
    """Names without a number of columns: the wide call must look like the narrow ones."""
    if width <= columns:
        return None
    narrow = {w: families(row.kernels) for w, row in own.items() if w <= columns and row.kernels}
    wide = families(own[width].kernels) if width in own else frozenset()
    expected = narrow.get(columns)
    if expected is None:
        return f"width {columns} was not run to compare with"
    if wide == expected:
        return "the same kernels as without it"
    allowed = expected | narrow.get(width % columns or columns, frozenset())
    return None if ran and ran <= allowed else f"{', '.join(sorted(ran))} ran"


def without_claim(row: Result, why: str) -> Result:
    """The row with what ran and why that proves nothing: no verdict, no time."""
    return Result(
        config=row.config, case=row.case, upstream_case=row.upstream_case, op=row.op,
        params=row.params, width=row.width, verdict=str(Verdict.UNSUPPORTED),
        detail=UNPROVEN + why, kernels=row.kernels, kernels_note=row.kernels_note,
    )  # fmt: skip


def judged(row: Result, arm: Arm | None, own: Mapping[int, Result]) -> Result:
    """A row of an arm, without its claims where nothing proves the arm.

    Args:
        arm: None for the library's own choice. own: see `unproven`.
    """
    if arm is None or not row.seeds:
        return row
    why = unproven(arm, row, own)
    return row if why is None else without_claim(row, why)


def claimed_only(entry: CaseClasses, rows: Iterable[Result]) -> CaseClasses:
    """The classes of those widths about which a row claims something."""
    kept = {row.width for row in rows if row.seeds}

    def only(groups: list[list[int]]) -> list[list[int]]:
        left = [[width for width in group if width in kept] for group in groups]
        return [group for group in left if group]

    pairs = [pair for pair in entry.pairs if kept.issuperset(pair)]
    return replace(
        entry,
        groups=only(entry.groups),
        dispatch=only(entry.dispatch),
        pairs=pairs,
        transitive=entry.transitive or not pairs,
    )
