"""The ops of a model's graph: distinct kinds, and the op probe's case of each."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ggmlprobe.errors import UsageError
from ggmlprobe.model.graph import Seen, shape
from ggmlprobe.ops.base import Op
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import IDENTITY, MulMat
from ggmlprobe.ops.mul_mat_id import MulMatId
from ggmlprobe.weights_file import Weight

PERMUTED = (0, 2, 1, 3)
# enum ggml_prec of ggml.h
_PREC_F32 = 10
_SINKS = 4


# Buffer types that a weight lies in where the device's own would do.
_PLAIN = ("CPU", "CPU_Mapped")


def home(buffer: str, bufts: Sequence[str]) -> str | None:
    """The buffer type that a probe must put weights into to compute as a model does.

    Args:
        buffer: where the model has them. bufts: those there are besides devices' own.

    Returns:
        None for the device's own.
    """
    return buffer if buffer in bufts and buffer not in _PLAIN else None


@dataclass(frozen=True)
class Kind:
    """Nodes of one op, type and shape.

    Attributes:
        op: in ggml's words. type: of the first source. shape: of what it reads, as text.
        count: nodes of this kind. first: the first of them.
        weight: the first weight among their sources, None without.
        probe: the op probe's name and parameters, None for ops it does not know.
    """

    op: str
    type: str
    shape: str
    count: int
    first: Seen
    weight: str | None
    probe: tuple[str, Op] | None


def kinds(nodes: Sequence[Seen], weights: Mapping[str, Weight]) -> list[Kind]:
    """Distinct kinds among the nodes of a graph, views left out, in order."""
    found: dict[tuple[str, str, str], Kind] = {}
    for node in nodes:
        if node.is_view:
            continue
        read = [(s.type, shape(s.ne)) for s in node.sources]
        type_name = read[0][0] if read else node.type
        key = (node.op, type_name, " x ".join(f"{t} {text}" for t, text in read))
        if key in found:
            found[key] = replace(found[key], count=found[key].count + 1)
            continue
        weight = next((s.name for s in node.sources if s.name in weights), None)
        found[key] = Kind(*key, 1, node, weight, op_of(node))
    return list(found.values())


def op_of(node: Seen) -> tuple[str, Op] | None:
    """The op probe's case of a node, with random inputs; None where it has none."""
    makers = {"MUL_MAT": _mul_mat, "MUL_MAT_ID": _mul_mat_id, "FLASH_ATTN_EXT": _flash_attn}
    maker = makers.get(node.kind)
    try:
        return maker(node) if maker else None
    except UsageError:
        return None


def _mul_mat(node: Seen) -> tuple[str, Op]:
    a, b = node.sources[:2]
    per = PERMUTED if a.nb[2] < a.nb[1] and a.ne[2] > 1 else IDENTITY
    prec = struct.unpack_from("<i", node.params)[0]
    return "mul_mat", MulMat(
        type_a=a.type, type_b=b.type, m=a.ne[1], k=a.ne[0], bs=(a.ne[2], a.ne[3]),
        nr=(b.ne[2] // a.ne[2], b.ne[3] // a.ne[3]), per=per,
        prec="f32" if prec == _PREC_F32 else "default",
    )  # fmt: skip


def _mul_mat_id(node: Seen) -> tuple[str, Op]:
    a, b, ids = node.sources[:3]
    return "mul_mat_id", MulMatId(
        type_a=a.type, type_b=b.type, n_mats=a.ne[2], n_used=ids.ne[0], b=b.ne[1] == 1,
        m=a.ne[1], k=a.ne[0],
    )  # fmt: skip


def _flash_attn(node: Seen) -> tuple[str, Op]:
    q, k, v = node.sources[:3]
    _, max_bias, softcap = struct.unpack_from("<3f", node.params)
    prec = struct.unpack_from("<i", node.params, 12)[0]
    masked = len(node.sources) > 3
    return "flash_attn", FlashAttn(
        hsk=k.ne[0], hsv=v.ne[0], nh=k.ne[2], nr2=q.ne[2] // k.ne[2], cells=k.ne[1],
        exact=not masked, type_K=k.type, type_V=v.type, mask=masked, max_bias=max_bias,
        logit_softcap=softcap, sinks=len(node.sources) > _SINKS, streams=k.ne[3],
        prec="f32" if prec == _PREC_F32 else "default",
    )  # fmt: skip


def real_twin(kind: Kind, path: str) -> Op | None:
    """The case of a kind with the rows of its weight in the file; None where it has none."""
    if kind.weight is None or kind.probe is None:
        return None
    op: Any = kind.probe[1]
    if not isinstance(op, (MulMat, MulMatId)) or kind.first.sources[0].name != kind.weight:
        return None
    made: Op = replace(op, source=f"{path}#{kind.weight}")
    return made
