// Stands in for libggml-cuda, which needs a driver: the dispatch functions that arms take the place
// of, under the same mangled names, with answers and limits of its own; what runs is written down.
//
// OTHER_SIGNATURE: should_use_mmvq takes one argument more, as another version might.
#include "../../native/ggml_abi.h"

#include <initializer_list>

enum ggml_type : int;
struct ggml_backend_cuda_context { int device; };
struct ggml_cuda_mm_fusion_args_host;

namespace {

constexpr int F32 = 0, F16 = 1, Q4_K = 12, IQ1_M = 29, BF16 = 30;

char said[4096];

template <typename... Values> void say(const char * format, Values... values) {
    const size_t used = strlen(said);
    snprintf(said + used, sizeof(said) - used, format, values...);
}

bool is_float(int type) {
    return type == F32 || type == F16 || type == BF16;
}

} // namespace

extern "C" bool ggml_is_quantized(int type) {
    return !is_float(type);
}

extern "C" void * ggml_get_data(const ggml_tensor * tensor) {
    return tensor->data;
}

extern "C" const char * ggml_get_name(const ggml_tensor * tensor) {
    return tensor->name;
}

static size_t overhead = ABI_OBJECT + sizeof(ggml_tensor);

extern "C" size_t ggml_tensor_overhead() {
    return overhead;
}

// another layout of tensors
extern "C" void standin_grow_tensors() {
    overhead += 8;
}

#ifdef OTHER_SIGNATURE
bool ggml_cuda_should_use_mmvq(ggml_type type, int, int64_t ne11, int64_t) {
#else
bool ggml_cuda_should_use_mmvq(ggml_type type, int, int64_t ne11) {
#endif
    return ggml_is_quantized(type) && ne11 <= 5;
}

bool ggml_cuda_should_use_mmq(ggml_type type, int cc, int64_t ne11, int64_t n_experts) {
    return ggml_is_quantized(type) && type != IQ1_M && (cc >= 610 || n_experts > 0) && ne11 < 64;
}

bool ggml_cuda_should_use_mmvf(
        ggml_type type, int, const int64_t * src0_ne, const size_t *, int64_t ne11) {
    return is_float(type) && src0_ne[0] % 2 == 0 && ne11 <= 3;
}

bool ggml_cuda_should_use_mmf(
        ggml_type type, int, int warp_size, const int64_t * src0_ne, const size_t *,
        const int src1_ncols, bool) {
    return is_float(type) && src0_ne[0] % warp_size == 0 && src1_ncols <= 12;
}

int get_mmvq_mmid_max_batch(ggml_type, int) {
    return 6;
}

// Adds 1 to each column of dst, along dimension 1, or 2 with ids.
void ggml_cuda_mul_mat_vec_q(
        ggml_backend_cuda_context &, const ggml_tensor *, const ggml_tensor * src1,
        const ggml_tensor * ids, ggml_tensor * dst, const ggml_cuda_mm_fusion_args_host *) {
    const int dim = ids != nullptr ? 2 : 1;
    say("%lld ", static_cast<long long>(src1->ne[dim]));
    if (dst->ne[dim] != src1->ne[dim] || (ids != nullptr && ids->ne[1] != dst->ne[2])) {
        say("differ ");
    }
    for (int64_t column = 0; column < dst->ne[dim]; column++) {
        float * out = reinterpret_cast<float *>(
            static_cast<char *>(dst->data) + static_cast<size_t>(column) * dst->nb[dim]);
        const float * in = reinterpret_cast<float *>(
            static_cast<char *>(src1->data) + static_cast<size_t>(column) * src1->nb[dim]);
        *out += *in;
    }
}

void ggml_cuda_flash_attn_ext_tile(ggml_backend_cuda_context &, ggml_tensor *) {
    say("tile ");
}

template <int D, ggml_type K, ggml_type V>
void ggml_cuda_flash_attn_ext_vec_case(ggml_backend_cuda_context &, ggml_tensor *) {
    say("vec<%d,%d,%d> ", D, static_cast<int>(K), static_cast<int>(V));
}

template <int DKQ, int DV, int ncols1, int ncols2>
void ggml_cuda_flash_attn_ext_mma_f16_case(ggml_backend_cuda_context &, ggml_tensor *) {
    say("mma<%d,%d,%d,%d> ", DKQ, DV, ncols1, ncols2);
}

template void ggml_cuda_flash_attn_ext_vec_case<128, static_cast<ggml_type>(1), static_cast<ggml_type>(1)>(
    ggml_backend_cuda_context &, ggml_tensor *);
template void ggml_cuda_flash_attn_ext_vec_case<128, static_cast<ggml_type>(8), static_cast<ggml_type>(8)>(
    ggml_backend_cuda_context &, ggml_tensor *);
template void ggml_cuda_flash_attn_ext_mma_f16_case<128, 128, 8, 4>(
    ggml_backend_cuda_context &, ggml_tensor *);

void ggml_cuda_flash_attn_ext(ggml_backend_cuda_context &, ggml_tensor *) {
    say("own ");
}

// What was written down since the last call.
extern "C" const char * standin_said() {
    static char last[sizeof(said)];
    memcpy(last, said, sizeof(last));
    said[0] = '\0';
    return last;
}

// The path of MUL_MAT in the order ggml_cuda_mul_mat asks; aborts as the real products do.
extern "C" const char * standin_mul_mat(int id, int cc, int64_t k, int64_t ne11) {
    const ggml_type type = static_cast<ggml_type>(id);
    const int64_t ne[ABI_DIMS] = { k, 64, 1, 1 };
    const size_t nb[ABI_DIMS] = { 4, 256, 16384, 16384 };
    if (ggml_cuda_should_use_mmvf(type, cc, ne, nb, ne11)) {
        return ne11 <= 8 ? "mmvf" : "abort";
    }
    if (ggml_cuda_should_use_mmf(type, cc, 32, ne, nb, static_cast<int>(ne11), false)) {
        return ne11 <= 16 ? "mmf" : "abort";
    }
#ifdef OTHER_SIGNATURE
    if (ggml_cuda_should_use_mmvq(type, cc, ne11, 0)) {
#else
    if (ggml_cuda_should_use_mmvq(type, cc, ne11)) {
#endif
        return "mmvq";
    }
    if (ggml_cuda_should_use_mmq(type, cc, ne11, 0)) {
        return type == IQ1_M ? "abort" : "mmq";
    }
    return "cublas";
}

// The path of MUL_MAT_ID.
extern "C" const char * standin_mul_mat_id(int id, int cc, int64_t tokens) {
    const ggml_type type = static_cast<ggml_type>(id);
    if (ggml_is_quantized(id) && tokens <= get_mmvq_mmid_max_batch(type, cc)) {
        return tokens <= 6 ? "mmvq" : "abort";
    }
    return ggml_cuda_should_use_mmq(type, cc, tokens, 8) ? "mmq" : "cublas";
}

// mul_mat_vec_q over `columns` columns a stride of 3 floats apart; with ids along dimension 2.
extern "C" void standin_vec_q(float * in, float * out, int64_t columns, bool with_ids) {
    static int ids_data[64];
    const size_t stride = 3 * sizeof(float);
    ggml_tensor x = {}, y = {}, ids = {}, w = {};
    for (ggml_tensor * tensor : { &x, &y }) {
        const int dim = with_ids ? 2 : 1;
        for (int i = 0; i < ABI_DIMS; i++) {
            tensor->ne[i] = i == dim ? columns : 1;
            tensor->nb[i] = i < dim ? sizeof(float) : i == dim ? stride : stride * columns;
        }
    }
    x.data = in;
    y.data = out;
    ids.ne[0] = ids.ne[2] = ids.ne[3] = 1;
    ids.ne[1] = columns;
    ids.nb[0] = ids.nb[1] = sizeof(int);
    ids.data = ids_data;
    ggml_backend_cuda_context ctx = { 0 };
    ggml_cuda_mul_mat_vec_q(ctx, &w, &x, with_ids ? &ids : nullptr, &y, nullptr);
}

extern "C" void standin_attention(int64_t head, int type) {
    ggml_tensor q = {}, k = {}, v = {}, dst = {};
    q.ne[0] = k.ne[0] = v.ne[0] = head;
    k.type = v.type = type;
    dst.src[0] = &q;
    dst.src[1] = &k;
    dst.src[2] = &v;
    ggml_backend_cuda_context ctx = { 0 };
    ggml_cuda_flash_attn_ext(ctx, &dst);
}
