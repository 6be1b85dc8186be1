/* Functions that take time, exported and local ones, for tests of the sampler and its symbols. */
#include <stdint.h>

#define NOINLINE __attribute__((noinline, noclone))

static NOINLINE uint64_t local_first(uint64_t x, long turns) {
    for (long i = 0; i < turns; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
    return x;
}

static NOINLINE uint64_t local_second(uint64_t x, long turns) {
    for (long i = 0; i < turns; i++) {
        x = (x ^ (x >> 13)) * 0x9E3779B97F4A7C15u;
    }
    return x;
}

/* Three parts of the turns in local_first, one in local_second. */
uint64_t burn(long turns) {
    return local_second(local_first(1, turns / 4 * 3), turns / 4);
}
