/* Takes the place of libggml-cpu's MUL_MAT.
 *
 * GGMLPROBE_ARM=split:N: it is called with at most N columns at a time, which is what staying in the
 * class of N columns costs on this very library. Any other arm passes every call on.
 */
#include "ggml_abi.h"

/* As every thread of a product receives it; the same since ggml's threadpools came. */
struct ggml_compute_params {
    int ith, nth;
    size_t wsize;
    void * wdata;
    void * threadpool;
};

typedef void forward_t(const struct ggml_compute_params *, struct ggml_tensor *);
typedef void barrier_t(void *);

enum { MUL_MAT, BARRIER, FUNCTIONS };
static struct interposed table[] = {
    { "ggml_compute_forward_mul_mat", NULL, 0 }, { "ggml_barrier", NULL, 0 },
};
static struct interpose_arm arm;

__attribute__((constructor)) static void choose(void) {
    arm = interpose_read_arm();
}

INTERPOSE_API void ggml_compute_forward_mul_mat(
        const struct ggml_compute_params * params, struct ggml_tensor * dst) {
    forward_t * whole = (forward_t *) interpose_original(&table[MUL_MAT]);
    interpose_count(&table[MUL_MAT]);
    if (!interpose_is(&arm, "split") || arm.n < 1 || !interpose_tensor_layout_holds(dst)) {
        whole(params, dst);
        return;
    }
    barrier_t * barrier = (barrier_t *) interpose_original(&table[BARRIER]);
    for (int64_t first = 0; first < dst->ne[1]; first += arm.n) {
        const int64_t left = dst->ne[1] - first;
        const int64_t count = left < arm.n ? left : arm.n;
        struct ggml_tensor x = interpose_columns(dst->src[1], 1, first, count);
        struct ggml_tensor y = interpose_columns(dst, 1, first, count);
        y.src[1] = &x;
        if (first > 0) {
            /* the next group's columns go to the work buffer that slower threads still read */
            barrier(params->threadpool);
        }
        whole(params, &y);
    }
}

INTERPOSE_API const char * ggmlprobe_interposed(int i) {
    return i == MUL_MAT ? table[i].symbol : NULL;
}

INTERPOSE_API uint64_t ggmlprobe_calls(int i) {
    return i == MUL_MAT ? __atomic_load_n(&table[i].calls, __ATOMIC_RELAXED) : 0;
}
