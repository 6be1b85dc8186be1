"""What libggml-cuda's kernels can serve at all: the limits of its source, by type and width.

From ggml/src/ggml-cuda of ggml 0.25.3; each function names the check it stands for. What these
refuse would abort, or trap on the GPU, if it were forced.
"""

from __future__ import annotations

from typing import Any

from ggmlprobe.ops.attention import Attention

_K_TYPES = {"q2_K", "q3_K", "q4_K", "q5_K", "q6_K"}
_IQ_TYPES = {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs"}
_PLAIN_TYPES = {"q1_0", "q2_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "mxfp4", "nvfp4"}
# mul_mat_vec_q_switch_type() in mmvq.cu
MMVQ_TYPES = frozenset(_K_TYPES | _IQ_TYPES | _PLAIN_TYPES)
# ggml_cuda_mul_mat_q_switch_type() in mmq.cu
MMQ_TYPES = MMVQ_TYPES - {"iq1_m"}
# mul_mat_vec_f and mul_mat_f switch over these
FLOAT_TYPES = frozenset({"f32", "f16", "bf16"})
# ggml_get_to_fp16_cuda() and ggml_get_to_fp32_cuda() in convert.cu
CONVERTED_TYPES = MMVQ_TYPES | FLOAT_TYPES

VEC_MAX = 8
"""MMVQ_MAX_BATCH_SIZE and MMVF_MAX_BATCH_SIZE: both sources assert it."""
MMF_MAX = 16
"""Columns that mul_mat_f is compiled for."""

# fattn-tile.cu and fattn.cu: head sizes of K and V that have an instance
TILE_HEADS = frozenset(
    {(n, n) for n in (40, 64, 72, 80, 96, 112, 128, 256, 512)}
    | {(192, 128), (320, 256), (576, 512)}
)
VEC_HEADS = frozenset({(n, n) for n in (64, 128, 256)})
SOFTCAP_HEADS = (128, 256, 512)
KV_STRIDE = 256
"""FATTN_KQ_STRIDE."""


def _f32_activations(op: Any) -> str | None:
    """ggml_cuda_mul_mat: anything but f32 goes to cuBLAS before it asks."""
    return None if op.type_b == "f32" else f"{op.type_b} activations always go to cuBLAS"


def mmvq(op: Any, width: int) -> str | None:
    """mul_mat_vec_q_switch_ncols_dst asserts the number of columns."""
    if op.type_a not in MMVQ_TYPES:
        return f"MMVQ has no kernel for {op.type_a}"
    if width > VEC_MAX:
        return f"MMVQ asserts at most {VEC_MAX} columns"
    return _f32_activations(op)


def split(op: Any, width: int) -> str | None:
    """MMVQ, whatever the width: each call has few columns."""
    if op.OP == "MUL_MAT_ID":
        # ggml_cuda_mul_mat_id asks for the width before it calls MMVQ
        return mmvq(op, width)
    return mmvq(op, 1)


def mmq(op: Any, width: int) -> str | None:
    """ggml_cuda_mul_mat_q_switch_type aborts for other types."""
    if op.type_a not in MMQ_TYPES:
        return f"MMQ has no kernel for {op.type_a}"
    return _f32_activations(op)


def mmid(op: Any, width: int, above: int) -> str | None:
    """MUL_MAT_ID by MMQ above a number of columns."""
    if width <= above:
        return f"up to {above} columns stay with the library's own choice"
    return mmq(op, width)


def mmvf(op: Any, width: int) -> str | None:
    """ggml_cuda_should_use_mmvf: even k, strides of whole pairs, at most 8 columns."""
    if op.type_a not in FLOAT_TYPES:
        return f"MMVF has no kernel for {op.type_a}"
    if width > VEC_MAX:
        return f"MMVF asserts at most {VEC_MAX} columns"
    if op.k % 2:
        return "MMVF needs an even k"
    return _f32_activations(op)


def mmf(op: Any, width: int) -> str | None:
    """ggml_cuda_should_use_mmf; its checks of the device stay with the original."""
    if op.type_a not in FLOAT_TYPES:
        return f"MMF has no kernel for {op.type_a}"
    if width > MMF_MAX:
        return f"MMF has kernels for at most {MMF_MAX} columns"
    return _f32_activations(op)


def cublas(op: Any, width: int) -> str | None:
    """ggml_cuda_mul_mat_cublas converts the weights first."""
    if op.type_a not in CONVERTED_TYPES:
        return f"there is no converter from {op.type_a} for cuBLAS"
    return None


def _gqa(op: Attention) -> bool:
    """use_gqa_opt in fattn.cu, as far as the case decides it."""
    return op.mask and op.max_bias == 0.0 and op.n_kv % KV_STRIDE == 0


def _f16_kv(op: Attention) -> str | None:
    """launch_fattn converts any other type into memory that is allocated for the own choice."""
    if (op.type_K, op.type_V) != ("f16", "f16"):
        return "only f16 KV: other types need scratch memory that was not allocated for this kernel"
    if op.logit_softcap and op.hsv not in SOFTCAP_HEADS:
        return f"no kernel with softcap for head size {op.hsv}"
    return None


def tile(op: Any, width: int) -> str | None:
    """launch_fattn_tile_switch_ncols2 aborts where no instance fits."""
    if (op.hsk, op.hsv) not in TILE_HEADS:
        return f"the tile kernel has no instance for head sizes {op.hsk}/{op.hsv}"
    multiple = {192: 8, 320: 16, 512: 2, 576: 4}.get(op.hsk, 1)
    if multiple > 1 and not (_gqa(op) and op.nr2 % multiple == 0):
        return f"head size {op.hsk} needs a mask and query heads in multiples of {multiple}"
    return _f16_kv(op)


def vec(op: Any, width: int) -> str | None:
    """can_use_vector_kernel in fattn.cu."""
    if (op.hsk, op.hsv) not in VEC_HEADS:
        return f"the vec kernel has no instance for head sizes {op.hsk}/{op.hsv}"
    if op.n_kv % KV_STRIDE:
        return f"the vec kernel needs n_kv in multiples of {KV_STRIDE}"
    return None


def mma(op: Any, width: int, ncols1: int, ncols2: int) -> str | None:
    """ggml_cuda_flash_attn_ext_mma_f16_switch_ncols2: what it would pair with these heads."""
    if ncols2 > 1 and not _gqa(op):
        return f"{ncols2} heads a tile need a mask, no ALiBi and n_kv in multiples of {KV_STRIDE}"
    if ncols2 > 1 and ncols2 >= 2 * op.nr2:
        return f"{ncols2} heads a tile are more than the {op.nr2} that share a KV head"
    if ncols1 * ncols2 not in (8, 16, 32, 64):
        return "a tile has 8, 16, 32 or 64 columns"
    return _f16_kv(op)


_ARGUMENTS = "vR25ggml_backend_cuda_contextP11ggml_tensor"
# enum ggml_type, which files of models keep for ever
_KV_TYPES = {"f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}


def mma_instance(op: Any, ncols1: int, ncols2: int) -> str:
    """The mangled name of the case's MMA instance."""
    sizes = f"ILi{op.hsk}ELi{op.hsv}ELi{ncols1}ELi{ncols2}EE"
    return f"_Z37ggml_cuda_flash_attn_ext_mma_f16_case{sizes}{_ARGUMENTS}"


def vec_instance(op: Any) -> str:
    """The mangled name of the case's vec instance; builds differ in the pairs of types."""
    k, v = (_KV_TYPES.get(name, -1) for name in (op.type_K, op.type_V))
    return f"_Z33ggml_cuda_flash_attn_ext_vec_caseILi{op.hsk}EL9ggml_type{k}ELS0_{v}EE{_ARGUMENTS}"
