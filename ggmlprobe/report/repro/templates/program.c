@comment@
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef void * ptr; /* contexts, tensors, buffers and the like */
struct ggml_init_params { size_t mem_size; ptr mem_buffer; _Bool no_alloc; };
ptr ggml_init(struct ggml_init_params), ggml_new_graph(ptr), ggml_backend_dev_by_name(const char *);
ptr ggml_new_tensor_4d(ptr, int, int64_t, int64_t, int64_t, int64_t), ggml_backend_dev_init(ptr, ptr);
ptr ggml_view_4d(ptr, ptr, int64_t, int64_t, int64_t, int64_t, size_t, size_t, size_t, size_t); //? VIEW
ptr ggml_backend_alloc_ctx_tensors_from_buft(ptr, ptr), ggml_backend_dev_buffer_type(ptr), ggml_backend_dev_backend_reg(ptr);
ptr ggml_backend_dev_host_buffer_type(ptr); const char * ggml_backend_buft_name(ptr); //? BUFT
void (*ggml_backend_reg_get_proc_address(ptr, const char *))(void), ggml_backend_load_all_from_path(const char *);
void ggml_free(ptr), ggml_build_forward_expand(ptr, ptr), ggml_backend_buffer_free(ptr);
void ggml_backend_tensor_set(ptr, const void *, size_t, size_t), ggml_backend_tensor_get(ptr, void *, size_t, size_t);
int ggml_backend_graph_compute(ptr, ptr); const char * ggml_type_name(int); _Bool ggml_quantize_requires_imatrix(int);
size_t ggml_tensor_overhead(void), ggml_graph_overhead(void), ggml_nbytes(ptr), ggml_row_size(int, int64_t),
    ggml_quantize_chunk(int, const float *, void *, int64_t, int64_t, int64_t, const float *);
#define CHECK(x) ((x) ? (void) 0 : (fprintf(stderr, "failed: %s\n", #x), exit(2)))
#define CONTEXT ggml_init((struct ggml_init_params) { 32*ggml_tensor_overhead() + ggml_graph_overhead(), NULL, 1 })
#define NEW(name, ...) ggml_new_tensor_4d(ctx, type(name), __VA_ARGS__)
@constants@
/* an input is the sum of two of 256 quantiles of a normal, exact in float; these are the quantiles' distances */
static const int32_t STEPS[256] = {@steps@};
static int32_t quantile[256]; static ptr device, backend;
static uint64_t mix(uint64_t z) {
    return z = (z ^ z >> 30)*0xBF58476D1CE4E5B9, z = (z ^ z >> 27)*0x94D049BB133111EB, z ^ z >> 31;
}
static uint64_t hash(uint64_t seed, const char * stream, uint64_t i) {
    uint64_t name = 0xCBF29CE484222325;
    for (; *stream; stream++) name = (name ^ (uint8_t) *stream)*0x100000001B3;
    return mix(mix(seed ^ name) + i*0x9E3779B97F4A7C15);
}
static float * normal(uint64_t seed, const char * stream, uint64_t n) {
    float * x = malloc(n*sizeof(float));
    for (uint64_t i = 0, h; i < n; i++)
        h = hash(seed, stream, i/4) >> i%4*16, x[i] = (quantile[h >> 8 & 255] + quantile[h & 255])/4194304.0f;
    return x;
}
static int type(const char * name) {
    for (int i = 0; i < 64; i++) if (ggml_type_name(i) && !strcmp(ggml_type_name(i), name)) return i;
    exit(fprintf(stderr, "no type %s\n", name));
}
static char * pack(const char * name, float * x, int64_t rows, int64_t k) { /* rows as a tensor of the type has them */
    const size_t size = rows*ggml_row_size(type(name), k);
    char * data = malloc(size);
    float * ones = ggml_quantize_requires_imatrix(type(name)) ? malloc(k*sizeof(float)) : NULL;
    for (int64_t i = 0; ones && i < k; i++) ones[i] = 1;
    CHECK(ggml_quantize_chunk(type(name), x, data, 0, rows, k, ones) == size), free(ones), free(x);
    return data;
}
@op@
static void evaluate(int64_t first, int64_t n, char * out) { /* tokens first .. first + n - 1 in one graph */
    ptr ctx = CONTEXT, y = build(ctx, n), reg = ggml_backend_dev_backend_reg(device), graph = ggml_new_graph(ctx);
    void (*threads)(ptr, int) = (void (*)(ptr, int)) ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    ptr buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_dev_buffer_type(device));
    ggml_backend_tensor_set(y, memset(out, 0xFF, ggml_nbytes(y)), 0, ggml_nbytes(y));
    feed(first, n), ggml_build_forward_expand(graph, y);
    if (threads) threads(backend, n == 1 ? THREADS : THREADS_BATCH);
    CHECK(ggml_backend_graph_compute(backend, graph) == 0); /* GGML_STATUS_SUCCESS */
    for (int64_t i = 0; i < n*OUTER; i++) ggml_backend_tensor_get(y, out + i*INNER*4, (i%OUTER*n + i/OUTER)*INNER*4, INNER*4);
    ggml_backend_buffer_free(buffer), ggml_free(ctx);
}
int main(void) {
    const size_t size = OUTER*INNER*sizeof(float);
    char * alone = malloc(TOKENS*size), * block = malloc(TOKENS*size), * again = malloc(TOKENS*size);
    int found = 0;
    for (int i = 0, sum = 0; i < 256; i++) quantile[i] = sum += STEPS[i];
    if (getenv("PLUGINS")) ggml_backend_load_all_from_path(getenv("PLUGINS"));
    CHECK((device = ggml_backend_dev_by_name(DEVICE)) && (backend = ggml_backend_dev_init(device, NULL)));
    for (size_t s = 0; s < sizeof(SEEDS)/sizeof(*SEEDS); s++) {
        load(SEEDS[s]);
        for (int64_t t = 0; t < TOKENS; t++) evaluate(t, 1, alone + t*size);
        for (size_t w = 0; w < sizeof(WIDTHS)/sizeof(*WIDTHS); w++) {
            const int64_t width = WIDTHS[w], before = found;
            evaluate(0, width, block), evaluate(0, width, again);
            printf("seed %llu, width %lld, columns that differ:", (unsigned long long) SEEDS[s], (long long) width);
            for (int64_t t = 0; t < width; t++)
                if (memcmp(alone + t*size, block + t*size, size) && ++found) printf(" %lld", (long long) t);
            printf("%s%s\n", found > before ? "" : " none", memcmp(block, again, width*size) ? "; not repeatable" : "");
        }
    }
    return found > 0;
}
