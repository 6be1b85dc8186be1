"""Checks: causes of differing bits that are not the width itself."""

from __future__ import annotations

import dataclasses

from ggmlprobe.errors import UsageError
from ggmlprobe.ops.attention import N_KV_PAD, Attention
from ggmlprobe.ops.base import Op

CHECKS = {
    "kv-padding": "each width at n_kv N against itself at N+256, same visible cells",
}


def paired(check: str | None, op: Op) -> list[Op]:
    """The case, and for a check the other case that each width is compared with.

    A verify block can cross a 256-cell boundary that its serial twins did not: kv-padding compares
    the same visible tokens at n_kv N and N+256.

    Raises:
        UsageError: no such check, or the op has no n_kv.
    """
    if check is None:
        return [op]
    if check not in CHECKS:
        raise UsageError(f"--check must be one of {', '.join(CHECKS)}, not {check}")
    if not isinstance(op, Attention) or not op.mask:
        raise UsageError(f"--check {check} needs flash_attn or attn_nofa with a mask")
    return [op, dataclasses.replace(op, extra=op.extra + N_KV_PAD)]
