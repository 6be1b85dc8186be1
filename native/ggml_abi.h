/* The tensor as libggml passes it to its backends, as far as an interposing library must know it.
 * The layout is that of ggml 0.9 to 0.25; interpose_tensor_layout_holds() asks the loaded library. */
#pragma once

#include "interpose.h"

enum { ABI_DIMS = 4, ABI_PARAMS = 16, ABI_SOURCES = 10, ABI_NAME = 64, ABI_OBJECT = 32 };

struct ggml_tensor {
    int type;
    void * buffer;
    int64_t ne[ABI_DIMS];
    size_t nb[ABI_DIMS];
    int op;
    int32_t op_params[ABI_PARAMS];
    int32_t flags;
    struct ggml_tensor * src[ABI_SOURCES];
    struct ggml_tensor * view_src;
    size_t view_offs;
    void * data;
    char name[ABI_NAME];
    void * extra;
    char padding[8];
};

static inline int interpose_compare_layout(const struct ggml_tensor * tensor) {
    typedef void * (*get_data_t)(const struct ggml_tensor *);
    typedef const char * (*get_name_t)(const struct ggml_tensor *);
    typedef size_t (*overhead_t)(void);
    const get_data_t get_data = (get_data_t) interpose_find("ggml_get_data");
    const get_name_t get_name = (get_name_t) interpose_find("ggml_get_name");
    const overhead_t overhead = (overhead_t) interpose_find("ggml_tensor_overhead");
    return get_data != NULL && get_name != NULL && overhead != NULL
        && get_data(tensor) == tensor->data && get_name(tensor) == tensor->name
        && overhead() == ABI_OBJECT + sizeof(struct ggml_tensor);
}

/* Whether the loaded libggml's tensors are laid out as above; asked once. */
static inline int interpose_tensor_layout_holds(const struct ggml_tensor * tensor) {
    enum { UNKNOWN, HOLDS, DIFFERS };
    static int answer = UNKNOWN;
    if (__atomic_load_n(&answer, __ATOMIC_RELAXED) == UNKNOWN) {
        const int holds = interpose_compare_layout(tensor) ? HOLDS : DIFFERS;
        __atomic_store_n(&answer, holds, __ATOMIC_RELAXED);
    }
    return __atomic_load_n(&answer, __ATOMIC_RELAXED) == HOLDS;
}

/* `count` columns from `first` on, along a dimension, of the same memory. */
static inline struct ggml_tensor interpose_columns(
        const struct ggml_tensor * tensor, int dim, int64_t first, int64_t count) {
    struct ggml_tensor part = *tensor;
    part.ne[dim] = count;
    part.data = (char *) tensor->data + (size_t) first * tensor->nb[dim];
    return part;
}
