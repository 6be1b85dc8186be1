static ptr build(ptr ctx, int64_t n) {
    return ggml_mul_mat(ctx, a, b = NEW(TYPE_B, K, n, NE2*NR2, NE3*NR3)); //? !PREC
    return set_prec(ggml_mul_mat(ctx, a, b = NEW(TYPE_B, K, n, NE2*NR2, NE3*NR3))); //? PREC
}
static void feed(int64_t first, int64_t n) {
    const size_t row = ggml_row_size(type(TYPE_B), K);
    for (int64_t i = 0; i < n*OUTER; i++) ggml_backend_tensor_set(b, x + (first*OUTER + i)*row, (i%OUTER*n + i/OUTER)*row, row);
}
static void load(uint64_t seed) {
    ptr ctx = CONTEXT;
    if (!a) a = NEW(TYPE_A, K, M, NE2, NE3), load_weights(ctx, M*NE2*NE3, seed);
    x = activations(seed, TOKENS*OUTER);
}
