"""Which arms there are, what they refuse, and what proves one."""

from __future__ import annotations

import pytest

from ggmlprobe.dispatch import proof
from ggmlprobe.dispatch.arms import CPU_ARMS, CUDA_ARMS, DEFAULTS, VARIABLE, Arm, chosen
from ggmlprobe.errors import UsageError
from ggmlprobe.ops import OPS
from ggmlprobe.ops.flash_attn import FlashAttn
from ggmlprobe.ops.mul_mat import MulMat
from ggmlprobe.ops.mul_mat_id import MulMatId
from ggmlprobe.record import CaseClasses, Kernel, Result, SeedResult, TimeStats


def arm(name: str, backend: str = "CUDA", op: str = "mul_mat") -> Arm:
    return chosen(backend, op, [name])[0]


def served(name: str, case: MulMat | MulMatId | FlashAttn, op: str = "mul_mat") -> list[int]:
    limit = arm(name, "CUDA", op).limit
    return [width for width in range(1, 20) if limit(case, width) is None]


UP_TO_8, UP_TO_16, ALL = list(range(1, 9)), list(range(1, 17)), list(range(1, 20))


@pytest.mark.parametrize(
    ("name", "type_a", "widths"),
    [
        ("mmvq", "q4_K", UP_TO_8), ("mmvq", "iq1_m", UP_TO_8), ("mmvq", "f16", []),
        ("mmvq", "tq1_0", []), ("mmq", "q4_K", ALL), ("mmq", "iq1_m", []), ("mmq", "f32", []),
        ("mmvf", "bf16", UP_TO_8), ("mmvf", "q8_0", []), ("mmf", "f32", UP_TO_16),
        ("mmf", "q4_0", []), ("cublas", "q4_K", ALL), ("cublas", "q8_K", []),
        ("split:4", "iq3_s", ALL), ("split:4", "f16", []),
    ],
)  # fmt: skip
def test_limits_of_products_on_cuda(name: str, type_a: str, widths: list[int]) -> None:
    assert served(name, MulMat(type_a=type_a, m=64, k=512)) == widths


def test_activations_of_another_type_go_to_cublas() -> None:
    case = MulMat(type_a="f16", type_b="f16", m=64, k=512)
    assert served("mmvf", case) == served("mmf", case) == []
    assert served("cublas", case) == ALL


def test_limits_by_experts() -> None:
    case = MulMatId(type_a="q4_K")
    assert served("mmid", case, "mul_mat_id") == ALL
    assert served("mmid:4", case, "mul_mat_id") == list(range(5, 20))
    assert served("split:1", case, "mul_mat_id") == UP_TO_8


@pytest.mark.parametrize(
    ("name", "case", "allowed"),
    [
        ("tile", FlashAttn(), True),
        ("tile", FlashAttn(type_K="q8_0", type_V="q8_0"), False),
        ("tile", FlashAttn(type_K="bf16", type_V="bf16"), False),
        ("tile", FlashAttn(hsk=48, hsv=48), False),
        ("tile", FlashAttn(hsk=576, hsv=512, nh=1, nr2=16), True),
        ("tile", FlashAttn(hsk=576, hsv=512, nh=1, nr2=6), False),
        ("tile", FlashAttn(hsk=64, hsv=64, logit_softcap=30.0), False),
        ("vec", FlashAttn(type_K="q8_0", type_V="q8_0"), True),
        ("vec", FlashAttn(cells=500, exact=True), False),
        ("vec", FlashAttn(hsk=80, hsv=80), False),
        ("mma:8,4", FlashAttn(nr2=4), True),
        ("mma:8,8", FlashAttn(nr2=4), False),
        ("mma:3,4", FlashAttn(nr2=4), False),
        ("mma:8,4", FlashAttn(nr2=4, max_bias=8.0), False),
        ("mma:8,1", FlashAttn(nr2=4, max_bias=8.0), True),
        ("mma:8,4", FlashAttn(type_K="q4_0", type_V="q4_0"), False),
    ],
)  # fmt: skip
def test_limits_of_attention(name: str, case: FlashAttn, allowed: bool) -> None:
    assert (arm(name, op="flash_attn").limit(case, 2) is None) == allowed


def test_unknown_arms_are_refused_with_what_there_is() -> None:
    wrong = [("CPU", "mmvq"), ("CUDA", "vec_dot"), ("CPU", "split:0"), ("CPU", "mmid:3")]
    for backend, name in wrong:
        with pytest.raises(UsageError, match=rf"no arm {name} for mul_mat on {backend}: there are"):
            chosen(backend, "mul_mat", [name])
    with pytest.raises(UsageError, match="no arms for mul_mat on Vulkan"):
        chosen("Vulkan", "mul_mat", None)


def test_defaults_exist_and_children_differ() -> None:
    for (backend, op), names in DEFAULTS.items():
        assert op in OPS
        found = chosen(backend, op, None)
        assert [each.name for each in found] == list(names)
        children = [(str(a.child_env()), a.buft) for a in found]
        assert len(set(children)) == len(children)
    for each in CUDA_ARMS:
        assert each.child_env()["GGML_CUDA_DISABLE_GRAPHS"] == "1"
    for each in (*CPU_ARMS, *CUDA_ARMS):
        assert (VARIABLE in each.child_env()) == bool(each.interposers)
        assert each.families <= proof.FAMILIES.keys()


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("ggml_vec_dot_q4_K_q8_K", "vec_dot"),
        ("ggml_vec_dot_q4_K_q8_K_generic", "generic"),
        ("void tiled_run_micro_vnni_8x16<32, true, 0, 0>(tiled_tile const&)", "tiled"),
        ("(anonymous namespace)::tinyBLAS<16, float>::gemm_bloc<4, 2>(long, long)", "sgemm"),
        ("ggml_gemv_q4_K_8x8_q8_K", "repack"),
        ("void gemv_q4_b32_8x8_q8_0_lut_avx<block<4, 8> >(int, float*)", "repack"),
        ("void gemm_q4_b32_8x8_q8_0_lut_avx<block_mxfp4x8>(int, float*)", "repack"),
        ("void mul_mat_vec_q<(ggml_type)12, 4, false, false>(void const*)", "mmvq"),
        ("void mul_mat_vec_q_moe<(ggml_type)12, 2>(void const*)", "mmvq"),
        ("void mul_mat_q<(ggml_type)12, 16, false>(char const*)", "mmq"),
        ("void mul_mat_q_stream_k_fixup<(ggml_type)12, 16>(int const*)", "mmq"),
        ("void mul_mat_vec_f<__half, __half, 1, 128>(__half const*)", "mmvf"),
        ("void mul_mat_f<__half2, 32, 4, 8>(__half2 const*)", "mmf"),
        ("nvjet_hsh_64x8_64x16_4x1_v_bz_splitK_TNT", "cublas"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm>()", "cublas"),
        ("void gemv2T_kernel_val<int, int, __half>()", "cublas"),
        ("void flash_attn_tile<128, 128, 2, 4, false>(char const*)", "tile"),
        ("void flash_attn_ext_vec<128, 1, (ggml_type)1, (ggml_type)1, false>()", "vec"),
        ("void flash_attn_ext_f16<128, 128, 8, 4, false, false>()", "mma"),
        ("void ggml_compute_forward_mul_mat_tiled_one_chunk<block_q2_K, 16>(long)", "tiled"),
        ("ggml_compute_forward_mul_mat_tiled", None),
        ("ggml_compute_forward_mul_mat_id_tiled", None),
        ("ggml_tiled_wdata_size", None),
        ("quantize_row_q8_K_ref", None),
        ("void quantize_q8_1(float const*, void*)", None),
        ("void dequantize_block_q4_K<__half>(void const*)", None),
        ("void flash_attn_combine_results<128>(float const*)", None),
    ],
)  # fmt: skip
def test_families(name: str, family: str | None) -> None:
    assert proof.family(name) == family


TIME = TimeStats(1e-3, 1e-3, 1e-3, 9, 2, 1024, 1024, False, 0.0)


def row(width: int, *kernels: tuple[str, float | None], config: str = "c1") -> Result:
    hashes = [f"{i:016x}" for i in range(width)]
    return Result(
        config, "X", "X", "MUL_MAT", {}, width, "INVARIANT",
        seeds=[SeedResult(1, [], 0, 0, hashes, True)], time=TIME,
        kernels=[Kernel(name, share) for name, share in kernels],
    )  # fmt: skip


VEC_DOT, TILED = ("ggml_vec_dot_q4_K_q8_K", 0.9), ("tiled_unpack_src0", 0.9)


def test_arm_with_its_own_kernel_is_proven() -> None:
    found = row(4, VEC_DOT, ("quantize_row_q8_K", 0.1))
    assert proof.judged(found, arm("vec_dot", "CPU"), {}) is found
    # a few samples of a neighbour do not count
    found = row(4, VEC_DOT, ("tiled_unpack_src0", 0.02))
    assert proof.judged(found, arm("vec_dot", "CPU"), {}) is found


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        ([TILED], "not proven: tiled ran"),
        ([VEC_DOT, ("tiled_unpack_src0", 0.1)], "not proven: tiled, vec_dot ran"),
        ([("quantize_row_q8_K", 0.9)], "not proven: quantize_row_q8_K ran"),
        ([], "not proven: no kernel names"),
    ],
)
def test_arm_without_its_kernel_claims_nothing(kernels: list[tuple[str, float]], why: str) -> None:
    made = proof.judged(row(4, *kernels), arm("vec_dot", "CPU"), {})
    assert (made.verdict, made.detail) == ("UNSUPPORTED", why)
    assert made.seeds == []
    assert made.time is None
    assert [kernel.name for kernel in made.kernels] == [name for name, _ in kernels]


def test_own_choice_needs_no_proof() -> None:
    found = row(4)
    assert proof.judged(found, None, {}) is found


def test_split_is_proven_by_the_columns_of_its_calls() -> None:
    split = arm("split:4")
    narrow, wide = (
        "mul_mat_vec_q<(ggml_type)12, 4, false>",
        "mul_mat_vec_q<(ggml_type)12, 7, false>",
    )
    rest = "mul_mat_vec_q<(ggml_type)12, 1, false>"
    assert proof.unproven(split, row(9, (narrow, None), (rest, None)), {}) is None
    assert proof.unproven(split, row(7, (wide, None)), {}) == "a call had 7 columns"
    assert proof.unproven(split, row(9, ("mul_mat_q<(ggml_type)12, 16>", None)), {}) == "mmq ran"


def test_split_on_the_cpu_must_look_like_the_narrow_call_and_not_like_the_wide_one() -> None:
    split = arm("split:4", "CPU")
    own = {1: row(1, VEC_DOT), 4: row(4, VEC_DOT), 7: row(7, VEC_DOT), 8: row(8, TILED)}
    assert proof.unproven(split, row(8, VEC_DOT), own) is None
    assert proof.unproven(split, row(8, TILED), own) == "tiled ran"
    assert proof.unproven(split, row(7, VEC_DOT), own) == "the same kernels as without it"
    assert proof.unproven(split, row(3, VEC_DOT), own) is None
    del own[4]
    assert proof.unproven(split, row(8, VEC_DOT), own) == "width 4 was not run to compare with"


def test_classes_keep_only_widths_with_a_claim() -> None:
    entry = CaseClasses("X", "c1", [[1, 2, 4], [8]], False, [[2, 8]], [[1, 2], [4, 8]])
    rows = [row(1), row(2), row(4), proof.without_claim(row(8), "tiled ran")]
    made = proof.claimed_only(entry, rows)
    assert (made.groups, made.pairs, made.transitive) == ([[1, 2, 4]], [], True)
    assert made.dispatch == [[1, 2], [4]]
