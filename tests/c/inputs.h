/* The generator of ggmlprobe/inputs.py in plain C, exact to the bit. */
#ifndef GGMLPROBE_INPUTS_H
#define GGMLPROBE_INPUTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUTS_GAMMA UINT64_C(0x9E3779B97F4A7C15)

/* Quantiles of a normal; a value is the sum of two of them. */
static const int32_t inputs_column[256] = {
    -8388607, -7335123, -6833944, -6693956, -6185478, -5939760, -5775509, -5567851,
    -5426532, -5380611, -5114124, -5072784, -4946110, -4858534, -4736298, -4639454,
    -4538729, -4416110, -4384675, -4229695, -4209451, -4122715, -4037286, -3980231,
    -3916224, -3847420, -3786311, -3669374, -3618216, -3569209, -3536566, -3434375,
    -3375325, -3317477, -3275877, -3243435, -3191373, -3149784, -3103464, -3054170,
    -2979286, -2945829, -2897534, -2849216, -2820057, -2753633, -2718973, -2658016,
    -2610697, -2582948, -2545228, -2516092, -2466064, -2414402, -2362152, -2353292,
    -2276587, -2263256, -2205916, -2185576, -2138975, -2094543, -2052167, -2026647,
    -2003612, -1957184, -1909230, -1868265, -1853668, -1809651, -1779199, -1739582,
    -1696805, -1682196, -1640077, -1616089, -1575907, -1547800, -1515769, -1463773,
    -1438317, -1418781, -1376506, -1349030, -1314965, -1271611, -1234499, -1209262,
    -1190005, -1149965, -1126151, -1082506, -1072714, -1041913, -1002372, -957542,
    -939710, -894085, -874065, -848404, -819067, -795671, -764601, -721856,
    -695027, -678560, -633498, -593836, -564302, -537785, -510468, -476963,
    -451168, -423135, -410074, -369404, -351797, -298269, -285282, -243685,
    -210719, -181774, -166028, -135578, -112471, -65157, -48843, -25297,
    -1116, 29429, 66155, 105157, 138075, 171289, 198807, 206792,
    248383, 271159, 290835, 320889, 376828, 385483, 433180, 450328,
    489079, 516738, 536720, 576385, 591344, 638161, 669815, 691031,
    708951, 744325, 766955, 804369, 843240, 862288, 904916, 921495,
    951349, 986229, 1034024, 1038373, 1088290, 1111403, 1133111, 1165628,
    1209975, 1253627, 1289897, 1291039, 1332246, 1375880, 1409528, 1436398,
    1470900, 1510114, 1518770, 1564797, 1618527, 1626799, 1661008, 1696606,
    1741919, 1770287, 1815346, 1840723, 1882663, 1930340, 1943005, 1970649,
    2033553, 2059581, 2080101, 2143794, 2155862, 2215285, 2266195, 2298179,
    2344752, 2350064, 2403486, 2449100, 2488329, 2521908, 2589059, 2599160,
    2655976, 2721768, 2754570, 2793245, 2831604, 2881637, 2944475, 2964630,
    3044780, 3101215, 3134116, 3173016, 3209158, 3301666, 3356619, 3400432,
    3476495, 3508546, 3569799, 3649371, 3668311, 3734476, 3811914, 3913084,
    3956161, 4018433, 4067130, 4207279, 4231975, 4304346, 4445197, 4506007,
    4648936, 4718413, 4844190, 4979235, 4995550, 5151393, 5364838, 5503965,
    5678840, 5898327, 6046231, 6296080, 6630472, 7017129, 7515819, 8388586,
};

static inline uint64_t inputs_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Key of a stream; purpose is appended to its name. */
static inline uint64_t inputs_key(uint64_t seed, const char * stream, const char * purpose) {
    uint64_t name = UINT64_C(0xCBF29CE484222325);
    const char * parts[2] = { stream, purpose };
    for (int i = 0; i < 2; i++) {
        for (const char * c = parts[i]; *c; c++) {
            name = (name ^ (uint8_t) *c) * UINT64_C(0x100000001B3);
        }
    }
    return inputs_mix(seed ^ name);
}

static inline uint64_t inputs_hash(uint64_t key, uint64_t counter) {
    return inputs_mix(key + counter * INPUTS_GAMMA);
}

/* Values start .. start + count - 1 of a near-normal stream, standard deviation 1. */
static inline void inputs_normal(
        float * out, uint64_t seed, const char * stream, uint64_t count, uint64_t start) {
    const uint64_t key = inputs_key(seed, stream, "");
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = start + i;
        const unsigned lane = inputs_hash(key, index / 4) >> (16 * (index % 4)) & 0xFFFF;
        out[i] = (float) (inputs_column[lane >> 8] + inputs_column[lane & 255]) / 4194304.0f;
    }
}

/* Gain per channel: 32 for about one in 64, else 1. */
static inline void inputs_outlier_gain(
        float * out, uint64_t seed, const char * stream, uint64_t channels) {
    const uint64_t key = inputs_key(seed, stream, ":outlier_gain");
    for (uint64_t i = 0; i < channels; i++) {
        out[i] = inputs_hash(key, i) >> 58 == 0 ? 32.0f : 1.0f;
    }
}

/* Integers from 0 to bound - 1. */
static inline void inputs_uniform_int(
        int64_t * out, uint64_t seed, const char * stream, uint64_t count, uint64_t bound) {
    const uint64_t key = inputs_key(seed, stream, ":uniform_int");
    for (uint64_t i = 0; i < count; i++) {
        out[i] = (int64_t) ((inputs_hash(key, i) >> 32) * bound >> 32);
    }
}

struct inputs_item {
    uint64_t hash;
    int64_t  index;
};

static inline int inputs_compare(const void * a, const void * b) {
    const struct inputs_item * x = a;
    const struct inputs_item * y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* 0 .. n - 1 in the order of their hashes. */
static inline void inputs_permutation(int64_t * out, uint64_t seed, const char * stream, size_t n) {
    const uint64_t key = inputs_key(seed, stream, ":permutation");
    struct inputs_item * items = malloc((n ? n : 1) * sizeof(*items));
    if (items == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    for (size_t i = 0; i < n; i++) {
        items[i].hash  = inputs_hash(key, i);
        items[i].index = (int64_t) i;
    }
    qsort(items, n, sizeof(*items), inputs_compare);
    for (size_t i = 0; i < n; i++) {
        out[i] = items[i].index;
    }
    free(items);
}

#endif
