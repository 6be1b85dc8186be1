"""From options to cases: products of lists, checked against what the library has."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ggmlprobe.errors import UnknownType, UsageError
from ggmlprobe.ops import OPS
from ggmlprobe.ops.attention import Attention
from ggmlprobe.runner import Case

# formats of quantized activations: no model's weights have them
ACTIVATION_TYPES = ("q8_1", "q8_K")


def all_types(types: Mapping[str, Any]) -> list[str]:
    """Every type weights can have: float ones, then quantized ones, in the library's order."""
    floats = [name for name in ("f32", "f16", "bf16") if name in types]
    quantized = [name for name, info in types.items() if info["quantized"]]
    return floats + [name for name in quantized if name not in ACTIVATION_TYPES]


def product(op_name: str, lists: Mapping[str, Sequence[Any]], widths: Iterable[int]) -> list[Case]:
    """A case for every combination of the listed values; the first list varies slowest."""
    combinations = itertools.product(*lists.values())
    chosen = tuple(sorted(set(widths)))
    if not chosen:
        raise UsageError("0 widths: give --widths, such as 1-9")
    made = [OPS[op_name](**dict(zip(lists, values, strict=True))) for values in combinations]
    return [Case(op_name, op, chosen) for op in made]


def check_cases(cases: Sequence[Case], types: Mapping[str, Any]) -> None:
    """Refuse what cannot run at all; where only some rows misfit, those become rows of the table.

    Raises:
        UnknownType: a type the library does not have.
        UsageError: no cases, none whose rows are a multiple of its type's block size, or none
            whose used cells are enough for its widest width.
    """
    if not cases:
        raise UsageError("0 cases to run: name at least one type, shape and width")
    misfits = []
    for case in cases:
        for name, length in case.op.rows():
            if name not in types:
                raise UnknownType(f"no type {name} in this library: it has {', '.join(types)}")
            if length % types[name]["blck_size"]:
                misfits.append((case, name, length))
    if len({id(case) for case, _, _ in misfits}) == len(cases):
        _, name, length = misfits[0]
        block = types[name]["blck_size"]
        raise UsageError(f"rows of {length} do not fit {name}: give a multiple of {block}")
    check_cells(cases)


def check_cells(cases: Sequence[Case]) -> None:
    """Raise UsageError where no case has used cells for all tokens of its widest width."""
    short = [
        (case.op.cells, case.widest)
        for case in cases
        if isinstance(case.op, Attention) and case.op.cells < case.widest
    ]
    if len(short) == len(cases):
        cells, widest = short[0]
        raise UsageError(
            f"--kv {cells} is less than the widest width {widest}: "
            "give more cells or smaller --widths"
        )
