/* Takes the place of libggml-cpu's dot products of quantized rows.
 *
 * GGMLPROBE_ARM=generic: the library's own portable version (..._generic) computes them, where it
 * has one beside the one for this processor. Any other arm passes every call on.
 */
#include "interpose.h"

#include <stddef.h>

typedef void dot_t(int, float *, size_t, const void *, size_t, const void *, size_t, int);

#define EACH_DOT(X) \
    X(q1_0_q8_0) X(q2_0_q8_0) X(q4_0_q8_0) X(q4_1_q8_1) X(q5_0_q8_0) X(q5_1_q8_1) X(q8_0_q8_0) \
    X(mxfp4_q8_0) X(nvfp4_q8_0) X(q2_K_q8_K) X(q3_K_q8_K) X(q4_K_q8_K) X(q5_K_q8_K) \
    X(q6_K_q8_K) X(tq1_0_q8_K) X(tq2_0_q8_K) X(iq1_s_q8_K) X(iq1_m_q8_K) X(iq2_xxs_q8_K) \
    X(iq2_xs_q8_K) X(iq2_s_q8_K) X(iq3_xxs_q8_K) X(iq3_s_q8_K) X(iq4_nl_q8_0) X(iq4_xs_q8_K)

#define INDEX(name) DOT_##name,
#define ENTRY(name) { "ggml_vec_dot_" #name, NULL, 0 },
enum { EACH_DOT(INDEX) DOTS };
static struct interposed table[] = { EACH_DOT(ENTRY) };
static int generic;

__attribute__((constructor)) static void choose(void) {
    const struct interpose_arm arm = interpose_read_arm();
    generic = interpose_is(&arm, "generic");
}

/* The function to call: looked up at a dot product's first call. `calls` only tells whether there
 * was one: counting each would cost more than a short dot product. */
static dot_t * target(struct interposed * dot) {
    char symbol[64];
    void * found = __atomic_load_n(&dot->original, __ATOMIC_ACQUIRE);
    if (found == NULL) {
        snprintf(symbol, sizeof(symbol), "%s_generic", dot->symbol);
        found = generic ? interpose_find(symbol) : NULL;
        if (found == NULL) {
            return (dot_t *) interpose_original(dot);
        }
        dot->calls = 1;
        __atomic_store_n(&dot->original, found, __ATOMIC_RELEASE);
    }
    return (dot_t *) found;
}

/* nrc rows by nrc columns, one at a time: the portable versions know no more. */
static void each(
        struct interposed * dot, int n, float * s, size_t bs, const void * vx, size_t bx,
        const void * vy, size_t by, int nrc) {
    dot_t * one = target(dot);
    for (int column = 0; column < nrc; column++) {
        for (int row = 0; row < nrc; row++) {
            one(n, s + column * bs + row, 0, (const char *) vx + row * bx, 0,
                (const char *) vy + column * by, 0, 1);
        }
    }
}

#define DEFINE(name) \
    INTERPOSE_API void ggml_vec_dot_##name( \
            int n, float * s, size_t bs, const void * vx, size_t bx, const void * vy, size_t by, \
            int nrc) { \
        each(&table[DOT_##name], n, s, bs, vx, bx, vy, by, nrc); \
    }
EACH_DOT(DEFINE)

INTERPOSE_API const char * ggmlprobe_interposed(int i) {
    return i >= 0 && i < DOTS ? table[i].symbol : NULL;
}

INTERPOSE_API uint64_t ggmlprobe_calls(int i) {
    return i >= 0 && i < DOTS ? table[i].calls : 0;
}
