// Takes the place of libggml-cuda's dispatch functions, so that one path serves every width.
//
// GGMLPROBE_ARM=
//   mmvq mmq mmvf mmf cublas   the product of that name, where the original's own checks allow it
//   mmid:N                     MUL_MAT_ID leaves MMVQ above N columns, for MMQ; never above what
//                              the library was compiled for
//   split:N                    MMVQ at every width, called with at most N columns at a time
//   tile vec mma:C1,C2         the attention kernel of that name; C1 queries by C2 heads a tile
//
// Every answer depends on the arguments and the arm alone. What would abort, or read scratch memory
// that was not allocated, is passed on as if there were no arm: then no kernel name proves the arm.
#include "ggml_abi.h"

enum ggml_type : int;
struct ggml_backend_cuda_context;
struct ggml_cuda_mm_fusion_args_host;

namespace {

// MMVQ_MAX_BATCH_SIZE and MMVF_MAX_BATCH_SIZE, and the columns mul_mat_f is compiled for
constexpr int64_t VEC_MAX = 8;
constexpr int64_t MMF_MAX = 16;
constexpr int TYPE_F16 = 1;
constexpr int SYMBOL_MAX = 160;

const interpose_arm ARM = interpose_read_arm();

bool arm(const char * name) {
    return interpose_is(&ARM, name);
}

enum function { USE_MMVQ, USE_MMQ, USE_MMVF, USE_MMF, MMID_MAX, VEC_Q, ATTENTION, FUNCTIONS };

interposed TABLE[FUNCTIONS] = {
    { "_Z25ggml_cuda_should_use_mmvq9ggml_typeil", nullptr, 0 },
    { "_Z24ggml_cuda_should_use_mmq9ggml_typeill", nullptr, 0 },
    { "_Z25ggml_cuda_should_use_mmvf9ggml_typeiPKlPKml", nullptr, 0 },
    { "_Z24ggml_cuda_should_use_mmf9ggml_typeiiPKlPKmib", nullptr, 0 },
    { "_Z23get_mmvq_mmid_max_batch9ggml_typei", nullptr, 0 },
    { "_Z23ggml_cuda_mul_mat_vec_qR25ggml_backend_cuda_contextPK11ggml_tensorS3_S3_PS1_"
      "PK29ggml_cuda_mm_fusion_args_host", nullptr, 0 },
    { "_Z24ggml_cuda_flash_attn_extR25ggml_backend_cuda_contextP11ggml_tensor", nullptr, 0 },
};

template <typename Function> Function * original(function which) {
    return reinterpret_cast<Function *>(interpose_original(&TABLE[which]));
}

bool quantized(ggml_type type) {
    using is_quantized_t = bool(ggml_type);
    static is_quantized_t * ask = reinterpret_cast<is_quantized_t *>(interpose_find("ggml_is_quantized"));
    return ask != nullptr && ask(type);
}

using attention_t = void(ggml_backend_cuda_context &, ggml_tensor *);

// An exported instance; the last one found is kept, for a timed run calls the same one again.
attention_t * instance(const char * format, int a, int b, int c, int d) {
    thread_local char last[SYMBOL_MAX];
    thread_local attention_t * found;
    char symbol[SYMBOL_MAX];
    snprintf(symbol, sizeof(symbol), format, a, b, c, d);
    if (strcmp(symbol, last) != 0) {
        found = reinterpret_cast<attention_t *>(interpose_find(symbol));
        memcpy(last, symbol, sizeof(last));
    }
    return found;
}

// The attention kernel of the arm, nullptr where the arm must not be used or the library lacks it.
attention_t * attention_of_arm(const ggml_tensor * dst) {
    if (!interpose_tensor_layout_holds(dst)) {
        return nullptr;
    }
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    const int hsk = static_cast<int>(q->ne[0]);
    if (arm("vec")) {
        // reads quantized K and V as they are
        return instance("_Z33ggml_cuda_flash_attn_ext_vec_caseILi%dEL9ggml_type%dELS0_%dEE"
                        "vR25ggml_backend_cuda_contextP11ggml_tensor", hsk, k->type, v->type, 0);
    }
    if (k->type != TYPE_F16 || v->type != TYPE_F16) {
        return nullptr;
    }
    if (arm("tile")) {
        return instance("_Z29ggml_cuda_flash_attn_ext_tileR25ggml_backend_cuda_contextP11ggml_tensor",
                        0, 0, 0, 0);
    }
    if (arm("mma")) {
        return instance("_Z37ggml_cuda_flash_attn_ext_mma_f16_caseILi%dELi%dELi%dELi%dEE"
                        "vR25ggml_backend_cuda_contextP11ggml_tensor",
                        hsk, static_cast<int>(v->ne[0]), ARM.n, ARM.m);
    }
    return nullptr;
}

} // namespace

bool ggml_cuda_should_use_mmvq(ggml_type type, int cc, int64_t ne11) {
    interpose_count(&TABLE[USE_MMVQ]);
    if (arm("mmq") || arm("cublas")) {
        return false;
    }
    if (arm("split") || (arm("mmvq") && ne11 <= VEC_MAX)) {
        return quantized(type);
    }
    return original<bool(ggml_type, int, int64_t)>(USE_MMVQ)(type, cc, ne11);
}

bool ggml_cuda_should_use_mmq(ggml_type type, int cc, int64_t ne11, int64_t n_experts) {
    interpose_count(&TABLE[USE_MMQ]);
    if (arm("cublas")) {
        return false;
    }
    // one column asks for its checks of type and device alone: its limit on ne11 is tuning
    const int64_t columns = arm("mmq") || arm("mmid") ? 1 : ne11;
    return original<bool(ggml_type, int, int64_t, int64_t)>(USE_MMQ)(type, cc, columns, n_experts);
}

bool ggml_cuda_should_use_mmvf(
        ggml_type type, int cc, const int64_t * src0_ne, const size_t * src0_nb, int64_t ne11) {
    interpose_count(&TABLE[USE_MMVF]);
    if (arm("mmf") || arm("cublas")) {
        return false;
    }
    const bool forced = arm("mmvf") && ne11 <= VEC_MAX;
    const int64_t columns = forced ? 1 : ne11;
    return original<bool(ggml_type, int, const int64_t *, const size_t *, int64_t)>(USE_MMVF)(
        type, cc, src0_ne, src0_nb, columns);
}

bool ggml_cuda_should_use_mmf(
        ggml_type type, int cc, int warp_size, const int64_t * src0_ne, const size_t * src0_nb,
        const int src1_ncols, bool mul_mat_id) {
    interpose_count(&TABLE[USE_MMF]);
    if (arm("cublas")) {
        return false;
    }
    const bool forced = arm("mmf") && !mul_mat_id && src1_ncols <= MMF_MAX;
    const int columns = forced ? 1 : src1_ncols;
    return original<bool(ggml_type, int, int, const int64_t *, const size_t *, int, bool)>(USE_MMF)(
        type, cc, warp_size, src0_ne, src0_nb, columns, mul_mat_id);
}

int get_mmvq_mmid_max_batch(ggml_type type, int cc) {
    interpose_count(&TABLE[MMID_MAX]);
    if (arm("cublas")) {
        return 0;
    }
    const int compiled = original<int(ggml_type, int)>(MMID_MAX)(type, cc);
    return arm("mmid") && ARM.n < compiled ? ARM.n : compiled;
}

void ggml_cuda_mul_mat_vec_q(
        ggml_backend_cuda_context & ctx, const ggml_tensor * src0, const ggml_tensor * src1,
        const ggml_tensor * ids, ggml_tensor * dst, const ggml_cuda_mm_fusion_args_host * fusion) {
    interpose_count(&TABLE[VEC_Q]);
    auto * whole = original<void(ggml_backend_cuda_context &, const ggml_tensor *, const ggml_tensor *,
        const ggml_tensor *, ggml_tensor *, const ggml_cuda_mm_fusion_args_host *)>(VEC_Q);
    // a fused product has one column
    if (!arm("split") || ARM.n < 1 || fusion != nullptr || !interpose_tensor_layout_holds(dst)) {
        whole(ctx, src0, src1, ids, dst, fusion);
        return;
    }
    // MUL_MAT_ID: dimension 1 counts the experts of a token
    const int dim = ids != nullptr ? 2 : 1;
    for (int64_t first = 0; first < dst->ne[dim]; first += ARM.n) {
        const int64_t left = dst->ne[dim] - first;
        const int64_t count = left < ARM.n ? left : ARM.n;
        const ggml_tensor x = interpose_columns(src1, dim, first, count);
        ggml_tensor y = interpose_columns(dst, dim, first, count);
        if (ids == nullptr) {
            whole(ctx, src0, &x, nullptr, &y, nullptr);
        } else {
            const ggml_tensor routed = interpose_columns(ids, 1, first, count);
            whole(ctx, src0, &x, &routed, &y, nullptr);
        }
    }
}

void ggml_cuda_flash_attn_ext(ggml_backend_cuda_context & ctx, ggml_tensor * dst) {
    interpose_count(&TABLE[ATTENTION]);
    const bool forced = arm("tile") || arm("vec") || arm("mma");
    attention_t * kernel = forced ? attention_of_arm(dst) : nullptr;
    (kernel != nullptr ? kernel : original<attention_t>(ATTENTION))(ctx, dst);
}

// Symbol of the i-th replaced function, nullptr past the last.
INTERPOSE_API const char * ggmlprobe_interposed(int i) {
    return i >= 0 && i < FUNCTIONS ? TABLE[i].symbol : nullptr;
}

INTERPOSE_API uint64_t ggmlprobe_calls(int i) {
    return i >= 0 && i < FUNCTIONS ? __atomic_load_n(&TABLE[i].calls, __ATOMIC_RELAXED) : 0;
}
