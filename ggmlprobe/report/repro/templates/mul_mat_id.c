static ptr ids;
static int32_t * experts;
static void in_order(int32_t * out, int64_t wanted, int64_t n, uint64_t seed, const char * name) { /* of hashes */
    char * taken = calloc(n, 1);
    for (int64_t j = 0; j < wanted; taken[out[j++]] = 1)
        for (int64_t i = n - 1, least = -1; i >= 0; i--)
            if (!taken[i] && (least < 0 || hash(seed, name, i) <= hash(seed, name, least))) out[j] = least = i;
    free(taken);
}
static ptr build(ptr ctx, int64_t n) { /* a row of ids has an entry for each expert, of which N_USED count */
    const size_t row = N_MATS*sizeof(int32_t);
    b = NEW(TYPE_B, K, SLOTS, n, 1), ids = NEW("i32", N_MATS, n, 1, 1);
    return ggml_mul_mat_id(ctx, a, b, ggml_view_4d(ctx, ids, N_USED, n, 1, 1, row, row*n, row*n, 0));
}
static void feed(int64_t first, int64_t n) {
    ggml_backend_tensor_set(b, x + first*SLOTS*ggml_row_size(type(TYPE_B), K), 0, ggml_nbytes(b));
    ggml_backend_tensor_set(ids, experts + first*N_MATS, 0, n*N_MATS*sizeof(int32_t));
}
static void load(uint64_t seed) {
    char name[64] = "routing:permutation";
    ptr ctx = CONTEXT;
    if (!a) a = NEW(TYPE_A, K, M, N_MATS, 1), load_weights(ctx, M*N_MATS, seed);
    x = activations(seed, TOKENS*SLOTS);
    experts = calloc(TOKENS*N_MATS, sizeof(int32_t));
    int32_t all[N_MATS]; //? DISJOINT
    in_order(all, N_MATS, N_MATS, seed, name); //? DISJOINT
    for (int64_t t = 0; t < TOKENS; t++) {
        for (int64_t i = 0; i < N_USED; i++) experts[t*N_MATS + i] = all[(t*N_USED + i) % N_MATS]; //? DISJOINT
        sprintf(name, "routing %lld:permutation", (long long) t); //? DRAWN
        in_order(experts + t*N_MATS, N_USED, DRAWN, seed, name); //? !DISJOINT
    }
}
