/* Takes the place of libggml-cpu's llamafile_sgemm: plants functions with known names.
 *
 * PLANTED_KERNELS=KIND:FROM:TO:STEP; "here" is n = FROM, FROM + STEP, ... up to TO columns:
 *   only      planted_kernel here, ggml's own kernel at every other n
 *   reverse   planted_kernel at every n, summing in reverse here: same kernels, other bits
 *   twin      planted_twin here, planted_kernel at every other n: other kernels, same bits
 *
 * Open it RTLD_GLOBAL (or LD_PRELOAD) before libggml-cpu.
 * Build: cc -O1 -shared -fPIC -ffp-contract=off planted_kernels.c -o planted_kernels.so
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_F32 = 0 };

static __attribute__((noinline, noclone)) void planted_kernel(
        const float * a, int64_t lda, const float * b, float * out, int64_t m, int64_t k, bool reverse) {
    for (int64_t i = 0; i < m; i++) {
        float total = 0.0f;
        for (int64_t j = 0; j < k; j++) {
            const int64_t at = reverse ? k - 1 - j : j;
            total += a[i * lda + at] * b[at];
        }
        out[i] = total;
    }
}

static __attribute__((noinline, noclone)) void planted_twin(
        const float * a, int64_t lda, const float * b, float * out, int64_t m, int64_t k) {
    for (int64_t i = 0; i < m; i++) {
        float total = 0.0f;
        for (int64_t j = 0; j < k; j++) {
            total += a[i * lda + j] * b[j];
        }
        out[i] = total;
    }
}

bool llamafile_sgemm(
        const void * params, int64_t m, int64_t n, int64_t k, const void * a, int64_t lda,
        const void * b, int64_t ldb, void * c, int64_t ldc, int type_a, int type_b, int type_c) {
    char kind[16] = "";
    long long from, to, step;
    const char * text = getenv("PLANTED_KERNELS");
    (void) params;
    if (text == NULL || sscanf(text, "%15[a-z]:%lld:%lld:%lld", kind, &from, &to, &step) != 4) {
        fprintf(stderr, "PLANTED_KERNELS is not KIND:FROM:TO:STEP\n");
        exit(3);
    }
    const bool here = from <= n && n <= to && (n - from) % step == 0;
    const bool all_f32 = type_a == TYPE_F32 && type_b == TYPE_F32 && type_c == TYPE_F32;
    if (!all_f32 || (strcmp(kind, "only") == 0 && !here)) {
        return false;
    }
    for (int64_t j = 0; j < n; j++) {
        const float * column = (const float *) b + j * ldb;
        float * out = (float *) c + j * ldc;
        if (strcmp(kind, "twin") == 0 && here) {
            planted_twin(a, lda, column, out, m, k);
        } else {
            planted_kernel(a, lda, column, out, m, k, strcmp(kind, "reverse") == 0 && here);
        }
    }
    return true;
}
