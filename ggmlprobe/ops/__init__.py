"""Single ops: one file each. `OPS` maps the command line's names to them."""

from __future__ import annotations

from ggmlprobe.ops.attn_nofa import AttnNofa
from ggmlprobe.ops.base import Op
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.ops.mul_mat_id import MulMatId

OPS: dict[str, type[Op]] = {
    "mul_mat": MulMat,
    "mul_mat_id": MulMatId,
    "flash_attn": FlashAttn,
    "attn_nofa": AttnNofa,
}
