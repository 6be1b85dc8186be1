ptr ggml_mul_mat(ptr, ptr, ptr), ggml_permute(ptr, ptr, int, int, int, int), ggml_cont_2d(ptr, ptr, int64_t, int64_t);
ptr ggml_soft_max_ext(ptr, ptr, ptr, float, float);
ptr ggml_scale(ptr, ptr, float), ggml_tanh(ptr, ptr); void ggml_soft_max_add_sinks(ptr, ptr);
static ptr build(ptr ctx, int64_t n) {
    const size_t head = ggml_row_size(type(TYPE_K), HSK), channel = ggml_row_size(type(TYPE_V), N_KV);
    ptr k = ggml_view_4d(ctx, k_cache, HSK, NH, N_KV, STREAMS, head, head*NH, head*NH*N_KV, 0);
    ptr v = ggml_view_4d(ctx, v_cache, N_KV, NH, HSV, STREAMS, channel*HSV, channel, channel*HSV*NH, 0);
    q = NEW("f32", HSK, HEADS, n, STREAMS);
    mask = NEW("f32", N_KV, n, 1, STREAMS); //? MASK
    ptr p = set_prec(ggml_mul_mat(ctx, ggml_permute(ctx, k, 0, 2, 1, 3), ggml_permute(ctx, q, 0, 2, 1, 3)));
    p = ggml_tanh(ctx, ggml_scale(ctx, p, SCALE/SOFTCAP)); //? SOFTCAP
    p = ggml_soft_max_ext(ctx, ggml_scale(ctx, p, SOFTCAP), mask, 1.0f, MAX_BIAS); //? SOFTCAP
    p = ggml_soft_max_ext(ctx, p, mask, SCALE, MAX_BIAS); //? !SOFTCAP
    ggml_soft_max_add_sinks(p, sinks = NEW("f32", HEADS, 1, 1, 1)); //? SINKS
    ptr y = ggml_mul_mat(ctx, ggml_permute(ctx, v, 0, 2, 1, 3), p);
    return ggml_cont_2d(ctx, ggml_permute(ctx, y, 0, 2, 1, 3), HSV*HEADS, n*STREAMS);
}
