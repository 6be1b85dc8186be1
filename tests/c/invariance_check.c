/* Does width W give each token the bits it has alone? Compared with memcmp, in plain C.
 *
 *   invariance_check DUMP DEVICE mul_mat TYPE[@BUFT] M K SEED THREADS WIDTH...
 *   invariance_check DUMP DEVICE mul_mat_id TYPE M K EXPERTS USED IDS SEED THREADS WIDTH...
 *   invariance_check DUMP DEVICE flash_attn|attn_nofa HSK HSV HEADS KV_HEADS CELLS TYPE_K TYPE_V
 *                    SEED THREADS WIDTH...
 *
 * Prints a line per width: the width, a colon, and the columns that differ. The file DUMP gets the
 * outputs as float32, token by token: all tokens alone, then each width's. Shares no code with the
 * Python package: it makes the same inputs and links the same library. BUFT: one of the device's extra
 * buffer types, to hold the weights. Backends that are plug-ins are looked for in the current folder.
 * IDS: the experts of each token, all tokens in one list, 3,1,0,2. MASK_ROWS: see set_mask().
 * Build: cc invariance_check.c -o invariance_check -L DIR -lggml -lggml-base -Wl,-rpath,DIR -lm
 */
#include "inputs.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

struct ggml_context;
struct ggml_tensor;
struct ggml_cgraph;
typedef struct ggml_backend * ggml_backend_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
typedef struct ggml_backend_device * ggml_backend_dev_t;
typedef struct ggml_backend_reg * ggml_backend_reg_t;
typedef struct ggml_backend_buffer_type * ggml_backend_buffer_type_t;
typedef ggml_backend_buffer_type_t * (*get_extra_bufts_t)(ggml_backend_dev_t device);
typedef void (*set_n_threads_t)(ggml_backend_t backend, int n_threads);

struct ggml_init_params {
    size_t mem_size;
    void * mem_buffer;
    bool   no_alloc;
};

/* As in today's ggml.h; a libggml of early 2025 has 1 and 64. */
#ifndef PREC_F32
#define PREC_F32 10
#endif
#ifndef MASK_ROWS
#define MASK_ROWS 1
#endif

enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_I32 = 26, USAGE_WEIGHTS = 1, TYPES_MAX = 64 };

const char * ggml_type_name(int type);
size_t ggml_row_size(int type, int64_t ne);
void ggml_fp32_to_fp16_row(const float * x, uint16_t * y, int64_t n);
bool ggml_quantize_requires_imatrix(int type);
size_t ggml_quantize_chunk(int type, const float * src, void * dst, int64_t start, int64_t nrows,
                           int64_t n_per_row, const float * imatrix);
size_t ggml_tensor_overhead(void);
size_t ggml_graph_overhead(void);
struct ggml_context * ggml_init(struct ggml_init_params params);
void ggml_free(struct ggml_context * ctx);
size_t ggml_nbytes(const struct ggml_tensor * t);
struct ggml_tensor * ggml_new_tensor_2d(struct ggml_context *, int type, int64_t ne0, int64_t ne1);
struct ggml_tensor * ggml_new_tensor_3d(
    struct ggml_context *, int type, int64_t ne0, int64_t ne1, int64_t ne2);
struct ggml_tensor * ggml_view_4d(
    struct ggml_context *, struct ggml_tensor *, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
    size_t nb1, size_t nb2, size_t nb3, size_t offset);
struct ggml_tensor * ggml_permute(struct ggml_context *, struct ggml_tensor *, int, int, int, int);
struct ggml_tensor * ggml_cont_2d(
    struct ggml_context *, struct ggml_tensor *, int64_t ne0, int64_t ne1);
struct ggml_tensor * ggml_mul_mat(
    struct ggml_context *, struct ggml_tensor * a, struct ggml_tensor * b);
struct ggml_tensor * ggml_mul_mat_id(
    struct ggml_context *, struct ggml_tensor * as, struct ggml_tensor * b,
    struct ggml_tensor * ids);
struct ggml_tensor * ggml_soft_max_ext(
    struct ggml_context *, struct ggml_tensor * a, struct ggml_tensor * mask, float scale,
    float max_bias);
struct ggml_tensor * ggml_flash_attn_ext(
    struct ggml_context *, struct ggml_tensor * q, struct ggml_tensor * k, struct ggml_tensor * v,
    struct ggml_tensor * mask, float scale, float max_bias, float logit_softcap);
struct ggml_cgraph * ggml_new_graph(struct ggml_context * ctx);
void ggml_build_forward_expand(struct ggml_cgraph * graph, struct ggml_tensor * t);
void ggml_backend_load_all(void);
ggml_backend_t ggml_backend_init_by_name(const char * name, const char * params);
void ggml_backend_free(ggml_backend_t backend);
ggml_backend_dev_t ggml_backend_get_device(ggml_backend_t backend);
ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device);
void * ggml_backend_reg_get_proc_address(ggml_backend_reg_t reg, const char * name);
ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors(struct ggml_context *, ggml_backend_t);
ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors_from_buft(
    struct ggml_context *, ggml_backend_buffer_type_t);
const char * ggml_backend_buft_name(ggml_backend_buffer_type_t buft);
void ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer, int usage);
void ggml_backend_buffer_free(ggml_backend_buffer_t buffer);
void ggml_backend_tensor_set(struct ggml_tensor *, const void * data, size_t offset, size_t size);
void ggml_backend_tensor_get(const struct ggml_tensor *, void * data, size_t offset, size_t size);
int ggml_backend_graph_compute(ggml_backend_t backend, struct ggml_cgraph * graph);

/* Releases have one or the other, so neither may be needed to link. */
__attribute__((weak)) bool ggml_prec_set_acc(struct ggml_tensor * t, int prec);
__attribute__((weak)) void ggml_flash_attn_ext_set_prec(struct ggml_tensor * t, int prec);
__attribute__((weak)) void ggml_mul_mat_set_prec(struct ggml_tensor * t, int prec);

/* One op on one backend; evaluate computes tokens first .. first + count - 1 in one graph. */
struct op {
    ggml_backend_t backend;
    int64_t tokens;   /* of the widest width */
    int64_t elements; /* of one token's output */
    void (*evaluate)(const struct op * op, int64_t first, int64_t count, float * out);
    int64_t m, k, experts, used;
    int64_t hsk, hsv, heads, kv_heads, cells, n_kv;
    struct ggml_tensor * weights;
    struct ggml_tensor * k_cache;
    struct ggml_tensor * v_cache;
    float * x; /* activations, or Q, of all tokens */
    int32_t * ids; /* experts of all tokens */
};

static void die(const char * format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

static void * allocate(size_t size) {
    void * p = calloc(size ? size : 1, 1);
    if (p == NULL) {
        die("out of memory: %zu bytes", size);
    }
    return p;
}

static int64_t number(const char * text) {
    char * end;
    const long long value = strtoll(text, &end, 10);
    if (*end != '\0' || value < 0) {
        die("not a number: %s", text);
    }
    return value;
}

/* Ids differ between releases, names do not. The table has no end mark: the type must exist. */
static int type_by_name(const char * name) {
    for (int type = 0; type < TYPES_MAX; type++) {
        const char * known = ggml_type_name(type);
        if (known != NULL && strcmp(known, name) == 0) {
            return type;
        }
    }
    die("no type %s", name);
    return -1;
}

static struct ggml_context * new_context(void) {
    const size_t size = 16 * ggml_tensor_overhead() + ggml_graph_overhead();
    struct ggml_init_params params = { size, NULL, true };
    struct ggml_context * ctx = ggml_init(params);
    if (ctx == NULL) {
        die("ggml_init failed");
    }
    return ctx;
}

static ggml_backend_buffer_t allocate_tensors(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    if (buffer == NULL) {
        die("a buffer could not be allocated");
    }
    return buffer;
}

static ggml_backend_t new_backend(const char * device, int n_threads) {
    ggml_backend_t backend = ggml_backend_init_by_name(device, NULL);
    if (backend == NULL) {
        ggml_backend_load_all();
        backend = ggml_backend_init_by_name(device, NULL);
    }
    if (backend == NULL) {
        die("the library has no device %s", device);
    }
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (address != NULL) {
        set_n_threads_t set_n_threads;
        memcpy(&set_n_threads, &address, sizeof(address));
        set_n_threads(backend, n_threads);
    } else if (strcmp(device, "CPU") == 0) {
        die("the CPU device has no ggml_backend_set_n_threads");
    }
    return backend;
}

static ggml_backend_buffer_type_t extra_buft(ggml_backend_t backend, const char * name) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    void * address = ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
    get_extra_bufts_t get_extra_bufts;
    memcpy(&get_extra_bufts, &address, sizeof(address));
    ggml_backend_buffer_type_t * bufts = address == NULL ? NULL : get_extra_bufts(device);
    for (; bufts != NULL && *bufts != NULL; bufts++) {
        if (strcmp(ggml_backend_buft_name(*bufts), name) == 0) {
            return *bufts;
        }
    }
    die("no buffer type %s", name);
    return NULL;
}

static float * normal(uint64_t seed, const char * stream, int64_t count) {
    float * values = allocate(count * sizeof(float));
    inputs_normal(values, seed, stream, count, 0);
    return values;
}

/* Rows as a tensor of the type holds them. */
static char * quantize(int type, const float * values, int64_t rows, int64_t k) {
    const size_t size = rows * ggml_row_size(type, k);
    char * data = allocate(size);
    float * ones = NULL;
    if (ggml_quantize_requires_imatrix(type)) {
        ones = allocate(k * sizeof(float));
        for (int64_t i = 0; i < k; i++) {
            ones[i] = 1.0f;
        }
    }
    if (ggml_quantize_chunk(type, values, data, 0, rows, k, ones) != size) {
        die("the library does not quantize to %s", ggml_type_name(type));
    }
    free(ones);
    return data;
}

/* Compute the graph that ends in t and read t; t starts as NaN so that an unwritten value shows. */
static void compute(
        ggml_backend_t backend, struct ggml_context * ctx, struct ggml_tensor * t, float * out) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, t);
    memset(out, 0xFF, ggml_nbytes(t));
    ggml_backend_tensor_set(t, out, 0, ggml_nbytes(t));
    if (ggml_backend_graph_compute(backend, graph) != 0) {
        die("ggml_backend_graph_compute failed");
    }
    ggml_backend_tensor_get(t, out, 0, ggml_nbytes(t));
}

static bool is_prime(int64_t n) {
    for (int64_t d = 2; d * d <= n; d++) {
        if (n % d == 0) {
            return false;
        }
    }
    return n > 1;
}

/* Largest prime not above max(61, 2^20 / k). */
static int64_t pool_rows(int64_t k) {
    int64_t rows = (INT64_C(1) << 20) / k;
    rows = rows > 61 ? rows : 61;
    while (!is_prime(rows)) {
        rows--;
    }
    return rows;
}

static void mul_mat_evaluate(const struct op * op, int64_t first, int64_t count, float * out) {
    struct ggml_context * ctx = new_context();
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, TYPE_F32, op->k, count);
    struct ggml_tensor * y = ggml_mul_mat(ctx, op->weights, x);
    ggml_backend_buffer_t buffer = allocate_tensors(ctx, op->backend);
    ggml_backend_tensor_set(x, op->x + first * op->k, 0, ggml_nbytes(x));
    compute(op->backend, ctx, y, out);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

static void mul_mat_fill(struct op * op, int type, uint64_t seed) {
    const int64_t rows = pool_rows(op->k);
    const int64_t all = op->m * op->experts;
    const size_t row_size = ggml_row_size(type, op->k);
    float * values = normal(seed, "weights", rows * op->k);
    char * pool = quantize(type, values, rows, op->k);
    /* a buffer type that repacks takes a tensor only whole */
    char * whole = allocate(all * row_size);
    for (int64_t i = 0; i < all; i++) {
        memcpy(whole + i * row_size, pool + (i % rows) * row_size, row_size);
    }
    ggml_backend_tensor_set(op->weights, whole, 0, all * row_size);
    free(whole);
    free(pool);
    free(values);
    op->x = normal(seed, "activations", op->tokens * op->k);
}

/* Arguments: TYPE[@BUFT] M K SEED */
static void mul_mat_prepare(struct op * op, char ** argv) {
    char * buft = strchr(argv[0], '@');
    if (buft != NULL) {
        *buft++ = '\0';
    }
    const int type = type_by_name(argv[0]);
    op->m = number(argv[1]);
    op->k = number(argv[2]);
    op->experts = 1;
    op->elements = op->m;
    op->evaluate = mul_mat_evaluate;
    struct ggml_context * ctx = new_context();
    op->weights = ggml_new_tensor_2d(ctx, type, op->k, op->m);
    ggml_backend_buffer_t buffer = buft == NULL
        ? allocate_tensors(ctx, op->backend)
        : ggml_backend_alloc_ctx_tensors_from_buft(ctx, extra_buft(op->backend, buft));
    if (buffer == NULL) {
        die("weights cannot be allocated");
    }
    ggml_backend_buffer_set_usage(buffer, USAGE_WEIGHTS);
    mul_mat_fill(op, type, number(argv[3]));
}

static void mul_mat_id_evaluate(const struct op * op, int64_t first, int64_t count, float * out) {
    struct ggml_context * ctx = new_context();
    struct ggml_tensor * x = ggml_new_tensor_3d(ctx, TYPE_F32, op->k, 1, count);
    struct ggml_tensor * ids = ggml_new_tensor_2d(ctx, TYPE_I32, op->used, count);
    struct ggml_tensor * y = ggml_mul_mat_id(ctx, op->weights, x, ids);
    ggml_backend_buffer_t buffer = allocate_tensors(ctx, op->backend);
    ggml_backend_tensor_set(x, op->x + first * op->k, 0, ggml_nbytes(x));
    ggml_backend_tensor_set(ids, op->ids + first * op->used, 0, ggml_nbytes(ids));
    compute(op->backend, ctx, y, out);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

/* Arguments: TYPE M K EXPERTS USED IDS SEED */
static void mul_mat_id_prepare(struct op * op, char ** argv) {
    const int type = type_by_name(argv[0]);
    op->m = number(argv[1]);
    op->k = number(argv[2]);
    op->experts = number(argv[3]);
    op->used = number(argv[4]);
    op->ids = allocate(op->tokens * op->used * sizeof(int32_t));
    const char * id = strtok(argv[5], ",");
    for (int64_t i = 0; i < op->tokens * op->used; i++, id = strtok(NULL, ",")) {
        if (id == NULL || number(id) >= op->experts) {
            die("every token needs %lld experts", (long long) op->used);
        }
        op->ids[i] = (int32_t) number(id);
    }
    op->elements = op->m * op->used;
    op->evaluate = mul_mat_id_evaluate;
    struct ggml_context * ctx = new_context();
    op->weights = ggml_new_tensor_3d(ctx, type, op->k, op->m, op->experts);
    ggml_backend_buffer_set_usage(allocate_tensors(ctx, op->backend), USAGE_WEIGHTS);
    mul_mat_fill(op, type, number(argv[6]));
}

/* Cells [hs * kv_heads, n_kv] as attention sees them: [hs, n_kv, kv_heads]. */
static struct ggml_tensor * cache_view(
        struct ggml_context * ctx, struct ggml_tensor * cache, int64_t hs, const struct op * op) {
    const size_t cell = ggml_nbytes(cache) / op->n_kv;
    struct ggml_tensor * view = ggml_view_4d(
        ctx, cache, hs, op->kv_heads, op->n_kv, 1, cell / op->kv_heads, cell, cell * op->n_kv, 0);
    return ggml_permute(ctx, view, 0, 2, 1, 3);
}

/* The mask of some tokens, its rows padded to a multiple of MASK_ROWS, which flash attention asked
 * for until late 2025. */
static struct ggml_tensor * new_mask(
        struct ggml_context * ctx, int type, int64_t multiple, const struct op * op, int64_t count) {
    return ggml_new_tensor_2d(ctx, type, op->n_kv, (count + multiple - 1) / multiple * multiple);
}

/* Token t sees the cells up to its own; the widest block's tokens are the last cells. */
static void set_mask(
        struct ggml_tensor * mask, int type, const struct op * op, int64_t first, int64_t count) {
    const size_t row = ggml_row_size(type, op->n_kv);
    const int64_t rows = ggml_nbytes(mask) / row;
    float * values = allocate(rows * op->n_kv * sizeof(float));
    for (int64_t i = 0; i < rows; i++) {
        const int64_t last = i < count ? op->cells - op->tokens + first + i : -1;
        for (int64_t cell = 0; cell < op->n_kv; cell++) {
            values[i * op->n_kv + cell] = cell <= last ? 0.0f : -INFINITY;
        }
    }
    uint16_t * halves = allocate(rows * op->n_kv * sizeof(uint16_t));
    ggml_fp32_to_fp16_row(values, halves, rows * op->n_kv);
    const void * data = type == TYPE_F16 ? (const void *) halves : (const void *) values;
    ggml_backend_tensor_set(mask, data, 0, ggml_nbytes(mask));
    free(halves);
    free(values);
}

static void set_prec_f32(struct ggml_tensor * t, void (*of_op)(struct ggml_tensor *, int)) {
    if (ggml_prec_set_acc != NULL) {
        if (!ggml_prec_set_acc(t, PREC_F32)) {
            die("ggml_prec_set_acc refused f32");
        }
    } else if (of_op != NULL) {
        of_op(t, PREC_F32);
    } else {
        die("the library cannot set the precision");
    }
}

static void flash_attn_evaluate(const struct op * op, int64_t first, int64_t count, float * out) {
    const int64_t stride = op->hsk * op->heads;
    struct ggml_context * ctx = new_context();
    struct ggml_tensor * q = ggml_new_tensor_3d(ctx, TYPE_F32, op->hsk, op->heads, count);
    struct ggml_tensor * mask = new_mask(ctx, TYPE_F16, MASK_ROWS, op, count);
    struct ggml_tensor * y = ggml_flash_attn_ext(
        ctx, ggml_permute(ctx, q, 0, 2, 1, 3), cache_view(ctx, op->k_cache, op->hsk, op),
        cache_view(ctx, op->v_cache, op->hsv, op), mask, 1.0f / sqrtf((float) op->hsk), 0.0f, 0.0f);
    set_prec_f32(y, ggml_flash_attn_ext_set_prec);
    ggml_backend_buffer_t buffer = allocate_tensors(ctx, op->backend);
    ggml_backend_tensor_set(q, op->x + first * stride, 0, ggml_nbytes(q));
    set_mask(mask, TYPE_F16, op, first, count);
    compute(op->backend, ctx, y, out);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

/* Cells past the used ones hold zeros. */
static void fill_cache(
        struct ggml_tensor * cache, int type, int64_t hs, const struct op * op, uint64_t seed,
        const char * stream) {
    const int64_t rows = op->cells * op->kv_heads;
    float * values = normal(seed, stream, rows * hs);
    char * data = quantize(type, values, rows, hs);
    char * zeros = allocate(ggml_nbytes(cache));
    ggml_backend_tensor_set(cache, zeros, 0, ggml_nbytes(cache));
    ggml_backend_tensor_set(cache, data, 0, rows * ggml_row_size(type, hs));
    free(zeros);
    free(data);
    free(values);
}

static void attn_nofa_evaluate(const struct op * op, int64_t first, int64_t count, float * out) {
    const int64_t stride = op->hsk * op->heads;
    const size_t channel = ggml_nbytes(op->v_cache) / (op->hsv * op->kv_heads);
    struct ggml_context * ctx = new_context();
    struct ggml_tensor * q = ggml_new_tensor_3d(ctx, TYPE_F32, op->hsk, op->heads, count);
    struct ggml_tensor * mask = new_mask(ctx, TYPE_F32, 1, op, count);
    struct ggml_tensor * v = ggml_view_4d(
        ctx, op->v_cache, op->n_kv, op->hsv, op->kv_heads, 1, channel, channel * op->hsv,
        channel * op->hsv * op->kv_heads, 0);
    struct ggml_tensor * kq = ggml_mul_mat(
        ctx, cache_view(ctx, op->k_cache, op->hsk, op), ggml_permute(ctx, q, 0, 2, 1, 3));
    set_prec_f32(kq, ggml_mul_mat_set_prec);
    struct ggml_tensor * p = ggml_soft_max_ext(ctx, kq, mask, 1.0f / sqrtf((float) op->hsk), 0.0f);
    struct ggml_tensor * kqv = ggml_permute(ctx, ggml_mul_mat(ctx, v, p), 0, 2, 1, 3);
    struct ggml_tensor * y = ggml_cont_2d(ctx, kqv, op->hsv * op->heads, count);
    ggml_backend_buffer_t buffer = allocate_tensors(ctx, op->backend);
    ggml_backend_tensor_set(q, op->x + first * stride, 0, ggml_nbytes(q));
    set_mask(mask, TYPE_F32, op, first, count);
    compute(op->backend, ctx, y, out);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

/* The V cache of attention without flash attention: the cells of a channel lie side by side. */
static void transpose(struct ggml_tensor * cache, const struct op * op) {
    const int64_t channels = op->hsv * op->kv_heads;
    uint16_t * cells = allocate(ggml_nbytes(cache));
    uint16_t * turned = allocate(ggml_nbytes(cache));
    ggml_backend_tensor_get(cache, cells, 0, ggml_nbytes(cache));
    for (int64_t cell = 0; cell < op->n_kv; cell++) {
        for (int64_t channel = 0; channel < channels; channel++) {
            turned[channel * op->n_kv + cell] = cells[cell * channels + channel];
        }
    }
    ggml_backend_tensor_set(cache, turned, 0, ggml_nbytes(cache));
    free(turned);
    free(cells);
}

/* Arguments: HSK HSV HEADS KV_HEADS CELLS TYPE_K TYPE_V SEED */
static void flash_attn_prepare(struct op * op, char ** argv) {
    const int type_k = type_by_name(argv[5]);
    const int type_v = type_by_name(argv[6]);
    const uint64_t seed = number(argv[7]);
    op->hsk = number(argv[0]);
    op->hsv = number(argv[1]);
    op->heads = number(argv[2]);
    op->kv_heads = number(argv[3]);
    op->cells = number(argv[4]);
    op->n_kv = (op->cells + 255) / 256 * 256;
    op->elements = op->hsv * op->heads;
    op->evaluate = flash_attn_evaluate;
    if (op->cells < op->tokens) {
        die("%lld cells are too few for the widest width", (long long) op->cells);
    }
    struct ggml_context * ctx = new_context();
    op->k_cache = ggml_new_tensor_2d(ctx, type_k, op->hsk * op->kv_heads, op->n_kv);
    op->v_cache = ggml_new_tensor_2d(ctx, type_v, op->hsv * op->kv_heads, op->n_kv);
    allocate_tensors(ctx, op->backend);
    fill_cache(op->k_cache, type_k, op->hsk, op, seed, "k");
    fill_cache(op->v_cache, type_v, op->hsv, op, seed, "v");
    op->x = normal(seed, "q", op->tokens * op->heads * op->hsk);
}

static void attn_nofa_prepare(struct op * op, char ** argv) {
    if (type_by_name(argv[6]) != TYPE_F16) {
        die("attn_nofa transposes a V of f16 alone");
    }
    flash_attn_prepare(op, argv);
    op->evaluate = attn_nofa_evaluate;
    transpose(op->v_cache, op);
}

static const struct {
    const char * name;
    int arguments;
    void (*prepare)(struct op * op, char ** argv);
} ops[] = {
    { "mul_mat",    4, mul_mat_prepare    },
    { "mul_mat_id", 7, mul_mat_id_prepare },
    { "flash_attn", 8, flash_attn_prepare },
    { "attn_nofa",  8, attn_nofa_prepare  },
};

static void dump_tokens(FILE * dump, const struct op * op, const float * out, int64_t tokens) {
    const size_t count = tokens * op->elements;
    if (fwrite(out, sizeof(float), count, dump) != count) {
        die("the outputs could not be written");
    }
}

static void print_width(FILE * dump, const struct op * op, const float * serial, int64_t width) {
    const size_t bytes = op->elements * sizeof(float);
    float * wide = allocate(width * bytes);
    op->evaluate(op, 0, width, wide);
    printf("%lld:", (long long) width);
    for (int64_t t = 0; t < width; t++) {
        if (memcmp(serial + t * op->elements, wide + t * op->elements, bytes) != 0) {
            printf(" %lld", (long long) t);
        }
    }
    printf("\n");
    dump_tokens(dump, op, wide, width);
    free(wide);
}

int main(int argc, char ** argv) {
    const size_t count = sizeof(ops) / sizeof(ops[0]);
    size_t at = 0;
    while (argc > 3 && at < count && strcmp(argv[3], ops[at].name) != 0) {
        at++;
    }
    const int threads = argc > 3 && at < count ? 4 + ops[at].arguments : argc;
    if (argc <= threads + 1) {
        die("usage: see the head of invariance_check.c");
    }
    FILE * dump = fopen(argv[1], "wb");
    if (dump == NULL) {
        die("cannot write %s", argv[1]);
    }
    struct op op = { 0 };
    op.backend = new_backend(argv[2], (int) number(argv[threads]));
    for (int i = threads + 1; i < argc; i++) {
        op.tokens = number(argv[i]) > op.tokens ? number(argv[i]) : op.tokens;
    }
    ops[at].prepare(&op, argv + 4);
    float * serial = allocate(op.tokens * op.elements * sizeof(float));
    for (int64_t t = 0; t < op.tokens; t++) {
        op.evaluate(&op, t, 1, serial + t * op.elements);
    }
    dump_tokens(dump, &op, serial, op.tokens);
    for (int i = threads + 1; i < argc; i++) {
        print_width(dump, &op, serial, number(argv[i]));
    }
    free(serial);
    free(op.x);
    ggml_backend_free(op.backend);
    return fclose(dump) == 0 ? 0 : 2;
}
