// Stands in for libggml-cuda where no GPU is: a plug-in that libggml loads as its backend "CUDA",
// with the dispatch functions of standin_cuda.cpp and the sums of the CPU backend, column by column,
// so that every width gives the same bits. Each path then flips low bits of its own, and writes down
// a kernel of the name that libggml-cuda has for it.
//
// STANDIN_DEVICES (2 by default) says how many devices there are, STANDIN_BROKEN which one, by
// number, does not start; STANDIN_SUMS=0 leaves the sums out, for zeros, so that what remains is the
// time of everything else. Without graphs width 6 of MUL_MAT differs, without fusion width 7 does.
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

// what standin_cuda.cpp has
struct ggml_backend_cuda_context { int device; };
struct ggml_cuda_mm_fusion_args_host;
void ggml_cuda_mul_mat_vec_q(
    ggml_backend_cuda_context &, const ggml_tensor *, const ggml_tensor *, const ggml_tensor *,
    ggml_tensor *, const ggml_cuda_mm_fusion_args_host *);
void ggml_cuda_flash_attn_ext(ggml_backend_cuda_context &, ggml_tensor *);
extern "C" const char * standin_mul_mat(int type, int cc, int64_t k, int64_t ne11);
extern "C" const char * standin_mul_mat_id(int type, int cc, int64_t tokens);
extern "C" const char * standin_said();

namespace {

constexpr int DEVICES_MAX = 4, CC = 900, VEC_WARPS_CHANGE = 4, ATTENTION_VEC_MAX = 2;
enum flips : uint32_t { VEC = 0, VEC_WIDE = 1, MMQ = 2, MMF = 3, CUBLAS = 4, TILE = 5, MMA = 6,
                        NO_GRAPHS = 8, NO_FUSION = 16 };

// as libggml-cuda reads them: once, the first by presence, the second by value
const bool GRAPHS = getenv("GGML_CUDA_DISABLE_GRAPHS") == nullptr;
const bool FUSION = [] {
    const char * off = getenv("GGML_CUDA_DISABLE_FUSION");
    return off == nullptr || atoi(off) == 0;
}();

int number(const char * variable, int otherwise) {
    const char * text = getenv(variable);
    return text != nullptr ? atoi(text) : otherwise;
}

const bool SUMS = number("STANDIN_SUMS", 1) != 0;

std::string launches;

// A launch as CUPTI would record it: mangled name, grid, nanoseconds.
void launch(const std::string & name, int64_t columns) {
    launches += name + " " + std::to_string(columns) + " " + std::to_string(1000 * columns) + "\n";
}

// The dimension of a source, or of the result (-1), along which an op's tokens lie.
int token_dim(ggml_op op, int source) {
    switch (op) {
        case GGML_OP_MUL_MAT:        return source == 1 || source == -1 ? 1 : GGML_MAX_DIMS;
        case GGML_OP_MUL_MAT_ID:     return source == 1 || source == -1 ? 2 : source == 2 ? 1 : GGML_MAX_DIMS;
        case GGML_OP_FLASH_ATTN_EXT: return source == -1 ? 2 : source == 0 || source == 3 ? 1 : GGML_MAX_DIMS;
        default:                     return GGML_MAX_DIMS;
    }
}

// The same memory without what made it, all of it or one token's.
ggml_tensor * plain(ggml_context * ctx, const ggml_tensor * tensor, int dim, int64_t token) {
    ggml_tensor * made = ggml_new_tensor_1d(ctx, tensor->type, ggml_blck_size(tensor->type));
    *made = *tensor;
    made->op = GGML_OP_NONE;
    made->buffer = nullptr;
    made->view_src = nullptr;
    memset(made->src, 0, sizeof(made->src));
    if (dim < GGML_MAX_DIMS) {
        made->ne[dim] = 1;
        made->data = static_cast<char *>(tensor->data) + token * tensor->nb[dim];
    }
    return made;
}

ggml_tensor * plain_op(ggml_context * ctx, const ggml_tensor * node, int64_t token, bool whole) {
    auto dim = [&](int source) { return whole ? int(GGML_MAX_DIMS) : token_dim(node->op, source); };
    ggml_tensor * made = plain(ctx, node, dim(-1), token);
    made->op = node->op;
    for (int i = 0; i < GGML_MAX_SRC && node->src[i] != nullptr; i++) {
        made->src[i] = plain(ctx, node->src[i], dim(i), token);
    }
    return made;
}

ggml_context * small_context() {
    return ggml_init({ 24 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true });
}

ggml_status compute_token(ggml_backend_t cpu, const ggml_tensor * node, int64_t token) {
    if (!SUMS) {
        memset(node->data, 0, token == 0 ? ggml_nbytes(node) : 0);
        return GGML_STATUS_SUCCESS;
    }
    ggml_context * ctx = small_context();
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, plain_op(ctx, node, token, false));
    const ggml_status status = ggml_backend_graph_compute(cpu, graph);
    ggml_free(ctx);
    return status;
}

void flip(ggml_tensor * dst, int dim, int64_t token, uint32_t bits) {
    const size_t batch = dst->nb[dim + 1];
    for (size_t start = token * dst->nb[dim]; start < ggml_nbytes(dst); start += batch) {
        auto * out = reinterpret_cast<uint32_t *>(static_cast<char *>(dst->data) + start);
        for (size_t i = 0; i < dst->nb[dim] / sizeof(uint32_t); i++) {
            out[i] ^= bits;
        }
    }
}

// MMVQ in as many calls as are made of it; flips by the columns of the call a token is in.
void vec_q(ggml_tensor * node, int64_t tokens, uint32_t * bits) {
    ggml_backend_cuda_context ctx = { 0 };
    ggml_cuda_mul_mat_vec_q(ctx, node->src[0], node->src[1], node->src[2], node, nullptr);
    std::istringstream calls(standin_said());
    int64_t first = 0;
    for (int64_t columns; first < tokens && calls >> columns; first += columns) {
        const std::string type = std::to_string(node->src[0]->type);
        launch("_Z13mul_mat_vec_qIL9ggml_type" + type + "ELi" + std::to_string(columns) + "EEvv", columns);
        for (int64_t i = first; i < first + columns; i++) {
            bits[i] = columns > VEC_WARPS_CHANGE ? VEC_WIDE : VEC;
        }
    }
}

void product(ggml_tensor * node, const std::string & path, int64_t tokens, uint32_t * bits) {
    const std::string type = "IL9ggml_type" + std::to_string(node->src[0]->type) + "EEvv";
    if (path == "mmvq") {
        vec_q(node, tokens, bits);
        return;
    }
    const struct { const char * path; uint32_t bits; std::string kernel; } known[] = {
        { "mmq", MMQ, "_Z9mul_mat_q" + type }, { "mmvf", VEC, "_Z13mul_mat_vec_f" + type },
        { "mmf", MMF, "_Z9mul_mat_f" + type }, { "cublas", CUBLAS, "nvjet_hsh_64x8_64x16_TNT" },
    };
    for (const auto & each : known) {
        if (path == each.path) {
            launch(each.kernel, tokens);
            std::fill(bits, bits + tokens, each.bits);
            return;
        }
    }
    abort();
}

void attention(ggml_tensor * node, int64_t tokens, uint32_t * bits) {
    ggml_backend_cuda_context ctx = { 0 };
    ggml_cuda_flash_attn_ext(ctx, node);
    const std::string said = standin_said();
    const bool own = said == "own ", narrow = tokens <= ATTENTION_VEC_MAX;
    const bool vec = said.rfind("vec", 0) == 0 || (own && narrow), tile = said == "tile ";
    launch(vec ? "_Z18flash_attn_ext_vecILi128EEvv" : tile ? "_Z15flash_attn_tileILi128EEvv"
               : "_Z18flash_attn_ext_f16ILi128EEvv", tokens);
    std::fill(bits, bits + tokens, vec ? VEC : tile ? TILE : MMA);
}

ggml_status compute_node(ggml_backend_t cpu, ggml_tensor * node) {
    const int dim = token_dim(node->op, -1);
    const int64_t tokens = dim < GGML_MAX_DIMS ? node->ne[dim] : 1;
    std::string bits_of(tokens * sizeof(uint32_t), '\0');
    auto * bits = reinterpret_cast<uint32_t *>(&bits_of[0]);
    const ggml_tensor * a = node->src[0];
    switch (node->op) {
        case GGML_OP_NONE: case GGML_OP_VIEW: case GGML_OP_RESHAPE: case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE: return GGML_STATUS_SUCCESS;
        case GGML_OP_MUL_MAT: product(node, standin_mul_mat(a->type, CC, a->ne[0], tokens), tokens, bits); break;
        case GGML_OP_MUL_MAT_ID: product(node, standin_mul_mat_id(a->type, CC, tokens), tokens, bits); break;
        case GGML_OP_FLASH_ATTN_EXT: attention(node, tokens, bits); break;
        default: launch("_Z5otherv", 1);
    }
    const uint32_t settings = node->op != GGML_OP_MUL_MAT ? 0
        : !GRAPHS && tokens == 6 ? uint32_t(NO_GRAPHS) : !FUSION && tokens == 7 ? uint32_t(NO_FUSION) : 0;
    for (int64_t token = 0; token < tokens; token++) {
        const ggml_status status = compute_token(cpu, node, token);
        if (status != GGML_STATUS_SUCCESS) {
            return status;
        }
        if (dim < GGML_MAX_DIMS) {
            flip(node, dim, token, bits[token] | settings);
        }
    }
    return GGML_STATUS_SUCCESS;
}

// The devices' and buffer types' context is their name, that of a started device a CPU backend.
template <typename Owner> const char * name_of(Owner owner) {
    return static_cast<const char *>(owner->context);
}

extern ggml_backend_reg REG;
extern ggml_backend_device DEVICES[DEVICES_MAX];
extern ggml_backend_buffer_type BUFTS[DEVICES_MAX];

int index_of(ggml_backend_dev_t device) {
    return static_cast<int>(device - DEVICES);
}

size_t alignment(ggml_backend_buffer_type_t) {
    return 64;
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t buft, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    buffer->buft = buft;
    return buffer;
}

// Host memory that the GPU can read: where llama.cpp keeps the weights of a layer on the CPU.
ggml_backend_buffer_type_t host_buft() {
    static ggml_backend_buffer_type made = {
        { [](ggml_backend_buffer_type_t) { return "CUDA_Host"; }, alloc_buffer, alignment, nullptr,
          nullptr, [](ggml_backend_buffer_type_t) { return true; } },
        &DEVICES[0], nullptr,
    };
    return &made;
}

ggml_status graph_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        const auto cpu = static_cast<ggml_backend_t>(backend->context);
        const ggml_status status = compute_node(cpu, ggml_graph_node(graph, i));
        if (status != GGML_STATUS_SUCCESS) {
            return status;
        }
    }
    return GGML_STATUS_SUCCESS;
}

ggml_backend_t init_backend(ggml_backend_dev_t device, const char *) {
    if (index_of(device) == number("STANDIN_BROKEN", -1)) {
        return nullptr;
    }
    static ggml_guid guid = { 's', 't', 'a', 'n', 'd', '-', 'i', 'n' };
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, 1);
    ggml_backend_i iface = {};
    iface.get_name = [](ggml_backend_t self) { return name_of(self->device); };
    iface.free = [](ggml_backend_t self) {
        ggml_backend_free(static_cast<ggml_backend_t>(self->context));
        delete self;
    };
    iface.graph_compute = graph_compute;
    return new ggml_backend { &guid, iface, device, cpu };
}

void get_memory(ggml_backend_dev_t, size_t * free, size_t * total) {
    *free = *total = size_t(8) << 30;
}

// The CPU's answer for tensors without buffers, for it wants them in host memory.
bool supports_op(ggml_backend_dev_t, const ggml_tensor * op) {
    ggml_context * ctx = small_context();
    ggml_backend_dev_t cpu = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    const bool supported = ggml_backend_dev_supports_op(cpu, plain_op(ctx, op, 0, true));
    ggml_free(ctx);
    return supported;
}

// As libggml-cuda: wide products are worth the way of their weights.
bool offload_op(ggml_backend_dev_t, const ggml_tensor * op) {
    return op->op == GGML_OP_MUL_MAT && op->ne[1] >= number("GGML_OP_OFFLOAD_MIN_BATCH", 32);
}

const char * type_name(ggml_backend_dev_t) {
    return "stand-in for a GPU";
}

void get_props(ggml_backend_dev_t device, ggml_backend_dev_props * props) {
    *props = {};
    props->name = name_of(device);
    props->description = type_name(device);
    props->type = GGML_BACKEND_DEVICE_TYPE_GPU;
    get_memory(device, &props->memory_free, &props->memory_total);
}

ggml_backend_device_i device_i() {
    ggml_backend_device_i made = {};
    made.get_name = name_of;
    made.get_description = type_name;
    made.get_memory = get_memory;
    made.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; };
    made.get_props = get_props;
    made.init_backend = init_backend;
    made.get_buffer_type = [](ggml_backend_dev_t device) { return &BUFTS[index_of(device)]; };
    made.get_host_buffer_type = [](ggml_backend_dev_t) { return host_buft(); };
    made.supports_op = supports_op;
    made.offload_op = offload_op;
    made.supports_buft = [](ggml_backend_dev_t device, ggml_backend_buffer_type_t buft) {
        return buft == &BUFTS[index_of(device)];
    };
    return made;
}

ggml_backend_buffer_type_i buft_i() {
    return { name_of, alloc_buffer, alignment, nullptr, nullptr, nullptr };
}

ggml_backend_feature * features(ggml_backend_reg_t) {
    static ggml_backend_feature made[] = {
        { "GRAPHS", GRAPHS ? "1" : "0" }, { "FUSION", FUSION ? "1" : "0" }, { nullptr, nullptr },
    };
    return made;
}

ggml_backend_reg REG = {
    GGML_BACKEND_API_VERSION,
    {
        [](ggml_backend_reg_t) { return "CUDA"; },
        [](ggml_backend_reg_t) { return size_t(number("STANDIN_DEVICES", 2)); },
        [](ggml_backend_reg_t, size_t i) { return &DEVICES[i]; },
        [](ggml_backend_reg_t, const char * name) {
            return strcmp(name, "ggml_backend_get_features") == 0 ? (void *) features : nullptr;
        },
    },
    nullptr,
};

char NAMES[DEVICES_MAX][8] = { "CUDA0", "CUDA1", "CUDA2", "CUDA3" };
#define EACH(iface, owner) \
    { iface, owner, NAMES[0] }, { iface, owner, NAMES[1] }, { iface, owner, NAMES[2] }, { iface, owner, NAMES[3] }
ggml_backend_device DEVICES[DEVICES_MAX] = { EACH(device_i(), &REG) };
ggml_backend_buffer_type BUFTS[DEVICES_MAX] = {
    { buft_i(), &DEVICES[0], NAMES[0] }, { buft_i(), &DEVICES[1], NAMES[1] },
    { buft_i(), &DEVICES[2], NAMES[2] }, { buft_i(), &DEVICES[3], NAMES[3] },
};

} // namespace

extern "C" ggml_backend_reg_t ggml_backend_init() {
    return &REG;
}

// The launches since the last call, a line each.
extern "C" const char * standin_launches() {
    static std::string last;
    last.swap(launches);
    launches.clear();
    return last.c_str();
}
