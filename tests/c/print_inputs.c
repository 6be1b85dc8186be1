/* Writes a stream's values to stdout as the bytes of its element type.
 * print_inputs KIND SEED STREAM COUNT EXTRA (normal: start; uniform_int: bound) */
#include "inputs.h"

#include <string.h>

int main(int argc, char ** argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: print_inputs KIND SEED STREAM COUNT EXTRA\n");
        return 2;
    }
    const char * kind = argv[1];
    const char * stream = argv[3];
    const uint64_t seed = strtoull(argv[2], NULL, 10);
    const uint64_t count = strtoull(argv[4], NULL, 10);
    const uint64_t extra = strtoull(argv[5], NULL, 10);
    size_t size = sizeof(int64_t);
    void * out = malloc((count ? count : 1) * size);
    if (out == NULL) {
        fprintf(stderr, "out of memory\n");
        return 2;
    }
    if (strcmp(kind, "normal") == 0) {
        size = sizeof(float);
        inputs_normal(out, seed, stream, count, extra);
    } else if (strcmp(kind, "outlier_gain") == 0) {
        size = sizeof(float);
        inputs_outlier_gain(out, seed, stream, count);
    } else if (strcmp(kind, "uniform_int") == 0) {
        inputs_uniform_int(out, seed, stream, count, extra);
    } else if (strcmp(kind, "permutation") == 0) {
        inputs_permutation(out, seed, stream, count);
    } else {
        fprintf(stderr, "unknown kind %s\n", kind);
        return 2;
    }
    const size_t written = fwrite(out, size, count, stdout);
    free(out);
    return written == count ? 0 : 2;
}
