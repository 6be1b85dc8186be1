ptr ggml_flash_attn_ext(ptr, ptr, ptr, ptr, ptr, float, float, float), ggml_permute(ptr, ptr, int, int, int, int);
void ggml_flash_attn_ext_add_sinks(ptr, ptr); //? SINKS
static ptr view(ptr ctx, ptr cache, const char * name, int64_t cache_hs, int64_t hs) {
    const size_t row = ggml_row_size(type(name), cache_hs);
    return ggml_view_4d(ctx, cache, hs, N_KV, NH, STREAMS, row, row*N_KV, row*N_KV*NH, 0); //? OUTSIDE
    return ggml_permute(ctx, ggml_view_4d(ctx, cache, hs, NH, N_KV, STREAMS, row, row*NH, row*NH*N_KV, 0), 0, 2, 1, 3); //? !OUTSIDE
}
static ptr build(ptr ctx, int64_t n) {
    ptr seen = q = NEW("f32", HSK, n, HEADS, STREAMS); //? OUTSIDE
    ptr seen = ggml_permute(ctx, q = NEW("f32", HSK, HEADS, n, STREAMS), 0, 2, 1, 3); //? !OUTSIDE
    ptr k = view(ctx, k_cache, TYPE_K, HSK, HSK), v = view(ctx, v_cache, TYPE_V, HSV, HSV); //? !V_IN_K
    ptr k = view(ctx, k_cache, TYPE_K, HSK, HSK), v = view(ctx, k_cache, TYPE_K, HSK, HSV); //? V_IN_K
    mask = NEW("f16", N_KV, @rows@, 1, STREAMS); //? MASK
    ptr y = ggml_flash_attn_ext(ctx, seen, k, v, mask, SCALE, MAX_BIAS, SOFTCAP);
    ggml_flash_attn_ext_add_sinks(y, sinks = NEW("f32", HEADS, 1, 1, 1)); //? SINKS
    return set_prec(y); //? PREC
    return y; //? !PREC
}
