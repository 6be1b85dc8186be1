/* A product through ggml_backend_sched, in plain C: where it was placed, and its output.
 *
 *   sched_check LIBDIR FILE TYPE M K N THREADS DEVICE...
 *
 * FILE holds M rows of K weights as the type has them, then N columns of float32. Prints the name of
 * the backend that the product was given to; the output goes to FILE.out. The devices stand in the
 * order of their priority, the CPU last; weights are in the host buffer of the first, else in the
 * CPU's. Shares no code with the Python package.
 * Build: cc sched_check.c -o sched_check LIBDIR/libggml.so LIBDIR/libggml-base.so -Wl,-rpath,LIBDIR
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ggml_context;
struct ggml_tensor;
struct ggml_cgraph;
typedef struct ggml_backend * ggml_backend_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
typedef struct ggml_backend_buffer_type * ggml_backend_buffer_type_t;
typedef struct ggml_backend_device * ggml_backend_dev_t;
typedef struct ggml_backend_reg * ggml_backend_reg_t;
typedef struct ggml_backend_sched * ggml_backend_sched_t;
typedef void (*set_n_threads_t)(ggml_backend_t backend, int n_threads);

struct ggml_init_params {
    size_t mem_size;
    void * mem_buffer;
    bool   no_alloc;
};

enum { TYPE_F32 = 0, TYPES_MAX = 64, USAGE_WEIGHTS = 1, DEVICES_MAX = 4, GRAPH_SIZE = 64 };

const char * ggml_type_name(int type);
size_t ggml_nbytes(const struct ggml_tensor * t);
size_t ggml_tensor_overhead(void);
size_t ggml_graph_overhead(void);
struct ggml_context * ggml_init(struct ggml_init_params params);
struct ggml_tensor * ggml_new_tensor_2d(struct ggml_context *, int type, int64_t ne0, int64_t ne1);
struct ggml_tensor * ggml_mul_mat(struct ggml_context *, struct ggml_tensor *, struct ggml_tensor *);
void ggml_set_input(struct ggml_tensor * t);
void ggml_set_output(struct ggml_tensor * t);
struct ggml_cgraph * ggml_new_graph(struct ggml_context * ctx);
void ggml_build_forward_expand(struct ggml_cgraph * graph, struct ggml_tensor * t);
void ggml_backend_load_all_from_path(const char * path);
ggml_backend_t ggml_backend_init_by_name(const char * name, const char * params);
const char * ggml_backend_name(ggml_backend_t backend);
ggml_backend_dev_t ggml_backend_get_device(ggml_backend_t backend);
ggml_backend_buffer_type_t ggml_backend_get_default_buffer_type(ggml_backend_t backend);
ggml_backend_buffer_type_t ggml_backend_dev_host_buffer_type(ggml_backend_dev_t device);
ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device);
void * ggml_backend_reg_get_proc_address(ggml_backend_reg_t reg, const char * name);
ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors_from_buft(
    struct ggml_context *, ggml_backend_buffer_type_t);
void ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer, int usage);
void ggml_backend_tensor_set(struct ggml_tensor *, const void * data, size_t offset, size_t size);
void ggml_backend_tensor_get(const struct ggml_tensor *, void * data, size_t offset, size_t size);
ggml_backend_sched_t ggml_backend_sched_new(
    ggml_backend_t *, ggml_backend_buffer_type_t *, int n, size_t graph_size, bool parallel,
    bool op_offload);
bool ggml_backend_sched_alloc_graph(ggml_backend_sched_t sched, struct ggml_cgraph * graph);
ggml_backend_t ggml_backend_sched_get_tensor_backend(ggml_backend_sched_t, struct ggml_tensor *);
int ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, struct ggml_cgraph * graph);

static void check(bool right, const char * what) {
    if (!right) {
        fprintf(stderr, "failed: %s\n", what);
        exit(2);
    }
}

static struct ggml_context * new_context(void) {
    struct ggml_init_params params = { 8 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    return ggml_init(params);
}

static int type_by_name(const char * name) {
    for (int type = 0; type < TYPES_MAX; type++) {
        const char * known = ggml_type_name(type);
        if (known != NULL && strcmp(known, name) == 0) {
            return type;
        }
    }
    check(false, name);
    return -1;
}

/* Fill a tensor with the next bytes of the file. */
static void fill(struct ggml_tensor * t, FILE * file) {
    const size_t size = ggml_nbytes(t);
    void * data = malloc(size);
    check(data != NULL && fread(data, 1, size, file) == size, "the file is too short");
    ggml_backend_tensor_set(t, data, 0, size);
    free(data);
}

static ggml_backend_t new_backend(const char * name, int n_threads) {
    ggml_backend_t backend = ggml_backend_init_by_name(name, NULL);
    check(backend != NULL, name);
    void * address = ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(ggml_backend_get_device(backend)), "ggml_backend_set_n_threads");
    set_n_threads_t set_n_threads;
    memcpy(&set_n_threads, &address, sizeof(address));
    if (set_n_threads != NULL) {
        set_n_threads(backend, n_threads);
    }
    return backend;
}

int main(int argc, char ** argv) {
    check(argc > 8 && argc <= 8 + DEVICES_MAX, "arguments");
    const int64_t m = atoi(argv[4]), k = atoi(argv[5]), n = atoi(argv[6]);
    const int devices = argc - 8;
    FILE * file = fopen(argv[2], "rb");
    check(file != NULL, argv[2]);

    ggml_backend_load_all_from_path(argv[1]);
    ggml_backend_t backends[DEVICES_MAX];
    ggml_backend_buffer_type_t bufts[DEVICES_MAX];
    for (int i = 0; i < devices; i++) {
        backends[i] = new_backend(argv[8 + i], atoi(argv[7]));
        bufts[i] = ggml_backend_get_default_buffer_type(backends[i]);
    }
    ggml_backend_buffer_type_t host =
        ggml_backend_dev_host_buffer_type(ggml_backend_get_device(backends[0]));
    if (host != NULL) {
        bufts[devices - 1] = host;
    }

    struct ggml_context * weights = new_context();
    struct ggml_tensor * a = ggml_new_tensor_2d(weights, type_by_name(argv[3]), k, m);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(weights, bufts[devices - 1]);
    check(buffer != NULL, "no memory for the weights");
    ggml_backend_buffer_set_usage(buffer, USAGE_WEIGHTS);
    fill(a, file);

    struct ggml_context * ctx = new_context();
    struct ggml_tensor * b = ggml_new_tensor_2d(ctx, TYPE_F32, k, n);
    struct ggml_tensor * y = ggml_mul_mat(ctx, a, b);
    ggml_set_input(b);
    ggml_set_output(y);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(backends, bufts, devices, GRAPH_SIZE, false, true);
    check(ggml_backend_sched_alloc_graph(sched, graph), "no memory for the graph");
    fill(b, file);
    check(ggml_backend_sched_graph_compute(sched, graph) == 0, "graph_compute");
    printf("%s\n", ggml_backend_name(ggml_backend_sched_get_tensor_backend(sched, y)));

    void * out = malloc(ggml_nbytes(y));
    ggml_backend_tensor_get(y, out, 0, ggml_nbytes(y));
    char name[4096];
    check(snprintf(name, sizeof(name), "%s.out", argv[2]) < (int) sizeof(name), "a long name");
    FILE * result = fopen(name, "wb");
    check(result != NULL && fwrite(out, 1, ggml_nbytes(y), result) == ggml_nbytes(y), name);
    return fclose(result) == 0 ? 0 : 2;
}
