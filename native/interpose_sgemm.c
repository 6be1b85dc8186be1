/* Takes the place of libggml-cpu's llamafile_sgemm.
 *
 * GGMLPROBE_ARM=vec_dot or generic: it refuses every product, so that ggml's vec_dot path computes
 * it, as at width 1. Any other arm passes every call on.
 */
#include "interpose.h"

#include <stdbool.h>

typedef bool sgemm_t(
    const void *, int64_t, int64_t, int64_t, const void *, int64_t, const void *, int64_t, void *,
    int64_t, int, int, int);

static struct interpose_arm arm;
static struct interposed sgemm = { "llamafile_sgemm", NULL, 0 };

__attribute__((constructor)) static void choose(void) {
    arm = interpose_read_arm();
}

INTERPOSE_API bool llamafile_sgemm(
        const void * params, int64_t m, int64_t n, int64_t k, const void * a, int64_t lda,
        const void * b, int64_t ldb, void * c, int64_t ldc, int type_a, int type_b, int type_c) {
    interpose_count(&sgemm);
    if (interpose_is(&arm, "vec_dot") || interpose_is(&arm, "generic")) {
        return false;
    }
    sgemm_t * original = (sgemm_t *) interpose_original(&sgemm);
    return original(params, m, n, k, a, lda, b, ldb, c, ldc, type_a, type_b, type_c);
}

INTERPOSE_API const char * ggmlprobe_interposed(int i) {
    return i == 0 ? sgemm.symbol : NULL;
}

INTERPOSE_API uint64_t ggmlprobe_calls(int i) {
    return i == 0 ? __atomic_load_n(&sgemm.calls, __ATOMIC_RELAXED) : 0;
}
