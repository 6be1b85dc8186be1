"""What libggml-cpu's paths can serve at all: the limits of its source, by type and width.

From ggml/src/ggml-cpu of ggml 0.25.3; each function names the check it stands for.
"""

from __future__ import annotations

from typing import Any

# llamafile_sgemm in llamafile/sgemm.cpp
SGEMM_TYPES = frozenset({"f32", "f16", "bf16", "q8_0", "q4_0", "q5_0", "iq4_nl"})
# ggml_tiled_supported in tiled/tiled.cpp
_K_TYPES = {"q2_K", "q3_K", "q4_K", "q5_K", "q6_K"}
_IQ_TYPES = {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"}
TILED_TYPES = frozenset(_K_TYPES | _IQ_TYPES)
# ggml_repack_get_optimal_repack_type in repack.cpp, over all processors
REPACK_TYPES = frozenset(
    {"q1_0", "q4_0", "q8_0", "q2_K", "q4_K", "q5_K", "q6_K", "iq4_nl", "mxfp4"}
)
# every quantized type's dot product has a portable version; those of f32, f16 and bf16 have none
FLOAT_TYPES = frozenset({"f32", "f16", "bf16"})


def anything(op: Any, width: int) -> str | None:
    """The path of last resort."""
    return None


def sgemm(op: Any, width: int) -> str | None:
    """llamafile_sgemm refuses a single column, and types it has no product for."""
    if op.type_a not in SGEMM_TYPES:
        return f"llamafile_sgemm has no product for {op.type_a}"
    return "llamafile_sgemm refuses a single column" if width == 1 else None


def tiled(op: Any, width: int) -> str | None:
    """ggml_tiled_supported lists its types."""
    if op.type_a not in TILED_TYPES:
        return f"the tiled product does not take {op.type_a}"
    if op.type_b != "f32":
        return "the tiled product takes f32 activations"
    return None


def generic(op: Any, width: int) -> str | None:
    """Only dot products of quantized rows have a portable version beside them."""
    if op.type_a in FLOAT_TYPES:
        return f"{op.type_a} has no portable dot product to take instead"
    return None


def repack(op: Any, width: int) -> str | None:
    """ggml_repack_get_optimal_repack_type lists its types; other weights stay as they are."""
    return None if op.type_a in REPACK_TYPES else f"CPU_REPACK does not repack {op.type_a}"


def generic_instance(op: Any) -> str:
    """The portable dot product of a type; q8_K goes with the types of 256 values a block."""
    other = "q8_1" if op.type_a in ("q4_1", "q5_1") else "q8_0"
    if op.type_a in TILED_TYPES or op.type_a.startswith("tq"):
        other = "q8_K"
    return f"ggml_vec_dot_{op.type_a}_{other}_generic"
