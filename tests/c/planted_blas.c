/* Takes the place of the BLAS's cblas_sgemm: sums in plain order, and leaves the last value of every
 * row of the result as it was, if PLANTED_BLAS is unwritten.
 *
 * Open it RTLD_GLOBAL before libggml-blas. Covers what ggml-blas asks for: row major, alpha 1, beta 0,
 * the first matrix as it is, the second transposed.
 * Build: cc -shared -fPIC -ffp-contract=off planted_blas.c -o planted_blas.so
 */
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

void cblas_sgemm(
        int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float * a, int lda,
        const float * b, int ldb, float beta, float * c, int ldc) {
    const char * planted = getenv("PLANTED_BLAS");
    const int left_out = planted != NULL && strcmp(planted, "unwritten") == 0;
    if (order != ROW_MAJOR || trans_a != NO_TRANS || trans_b != TRANS || alpha != 1.0f || beta != 0.0f) {
        abort();
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n - left_out; j++) {
            float sum = 0.0f;
            for (int l = 0; l < k; l++) {
                sum += a[i * lda + l] * b[j * ldb + l];
            }
            c[i * ldc + j] = sum;
        }
    }
}
