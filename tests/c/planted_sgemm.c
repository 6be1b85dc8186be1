/* Takes the place of libggml-cpu's llamafile_sgemm: plants a boundary or a fault on a stock build.
 *
 * PLANTED=KIND:FROM:TO[,KIND:FROM:TO...]; a kind shows at FROM <= n <= TO columns, where n is a
 * product's width; of several that show at an n the first counts:
 *   refuse       ggml's own kernel at every n
 *   boundary     a sum in plain order at these n, ggml's own kernel at all others
 * All other kinds sum in plain order at every n, so that they agree everywhere else:
 *   abort segv ill killed memory hang        the process ends, or does not
 *   nan unwritten wrong bf16 drift           the values of the last column
 *   fours reverse parity last                reverse order of summing in whole groups of 4 columns,
 *                                            in all, in all of an even n, in the last
 *   rotate                                   summing begins at element FROM: another order each
 *   slow                                     a product takes a millisecond longer
 *
 * Open it RTLD_GLOBAL (or LD_PRELOAD) before libggml-cpu.
 * Build: cc -shared -fPIC -ffp-contract=off planted_sgemm.c -o planted_sgemm.so
 */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TYPE_F32 = 0, KIND_MAX = 16 };

struct planted {
    char kind[KIND_MAX];
    long long from, to;
};

static bool is(const struct planted * p, const char * kind) {
    return strcmp(p->kind, kind) == 0;
}

static float sum(const float * a, const float * b, int64_t k, bool reverse, int64_t first) {
    float total = 0.0f;
    for (int64_t i = 0; i < k; i++) {
        const int64_t at = ((reverse ? k - 1 - i : i) + first) % k;
        total += a[at] * b[at];
    }
    return total;
}

/* What must not return. */
static void end(const struct planted * p) {
    if (is(p, "abort")) {
        fprintf(stderr, "planted.c:1: GGML_ASSERT(n != FROM) failed\n");
        abort();
    } else if (is(p, "memory")) {
        fprintf(stderr, "planted: failed to allocate: out of memory\n");
        abort();
    } else if (is(p, "segv")) {
        raise(SIGSEGV);
    } else if (is(p, "ill")) {
        raise(SIGILL);
    } else if (is(p, "killed")) {
        raise(SIGKILL);
    } else if (is(p, "hang")) {
        for (;;) {
            pause();
        }
    }
}

static void linger(void) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000LL + now.tv_nsec - start.tv_nsec < 1000000);
}

static void spoil(const struct planted * p, float * column, int64_t m) {
    static int calls;
    uint32_t bits;
    calls++;
    for (int64_t i = 0; i < m; i++) {
        memcpy(&bits, &column[i], sizeof(bits));
        bits &= is(p, "bf16") ? 0xFFFF0000u : 0xFFFFFFFFu;
        bits += is(p, "drift") && i == 0 ? (uint32_t) (calls % 2) : 0;
        memcpy(&column[i], &bits, sizeof(bits));
        column[i] *= is(p, "wrong") ? 1.1f : 1.0f;
    }
    if (is(p, "nan")) {
        column[m / 2] = NAN;
    }
}

/* Whether column j of n is summed in reverse. */
static bool reversed(const struct planted * p, int64_t j, int64_t n) {
    return is(p, "reverse") || (is(p, "parity") && n % 2 == 0) || (is(p, "last") && j == n - 1)
        || (is(p, "fours") && j < n / 4 * 4);
}

/* What PLANTED says of n columns; whether it shows there. */
static bool planted_at(int64_t n, struct planted * p) {
    const char * text = getenv("PLANTED");
    const char * item = text;
    struct planted other;
    bool here = false;
    while (item != NULL && !here) {
        if (sscanf(item, "%15[a-z0-9]:%lld:%lld", other.kind, &other.from, &other.to) != 3) {
            fprintf(stderr, "PLANTED=%s is not KIND:FROM:TO\n", text);
            exit(3);
        }
        here = other.from <= n && n <= other.to;
        if (here || item == text) {
            *p = other;
        }
        item = strchr(item, ',');
        item = item != NULL ? item + 1 : NULL;
    }
    return here;
}

bool llamafile_sgemm(
        const void * params, int64_t m, int64_t n, int64_t k, const void * a, int64_t lda,
        const void * b, int64_t ldb, void * c, int64_t ldc, int type_a, int type_b, int type_c) {
    struct planted p = { "refuse", 0, -1 };
    (void) params;
    const bool here = planted_at(n, &p);
    const bool all_f32 = type_a == TYPE_F32 && type_b == TYPE_F32 && type_c == TYPE_F32;
    if (is(&p, "refuse") || (is(&p, "boundary") && !here) || !all_f32) {
        return false;
    }
    if (here) {
        end(&p);
    }
    if (here && is(&p, "slow")) {
        linger();
    }
    for (int64_t j = 0; j < n; j++) {
        const bool last = j == n - 1;
        if (here && last && is(&p, "unwritten")) {
            break;
        }
        float * column = (float *) c + j * ldc;
        const bool reverse = here && reversed(&p, j, n);
        const int64_t first = here && is(&p, "rotate") ? p.from : 0;
        for (int64_t i = 0; i < m; i++) {
            const float * row = (const float *) a + i * lda;
            column[i] = sum(row, (const float *) b + j * ldb, k, reverse, first);
        }
        if (here && last) {
            spoil(&p, column, m);
        }
    }
    return true;
}
