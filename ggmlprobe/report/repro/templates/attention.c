static ptr @tensors@; static float * @floats@;
static void fill(ptr cache, const char * name, int64_t hs, uint64_t seed, const char * stream) { //? !ODD
    char * data = pack(name, normal(seed, stream, CELLS*NH*hs), CELLS*NH, hs); //? !ODD
    char * whole = calloc(ggml_nbytes(cache), 1); /* unused cells are zero */ //? !ODD
    ggml_backend_tensor_set(cache, memcpy(whole, data, ggml_nbytes(cache)/N_KV*CELLS), 0, ggml_nbytes(cache)); //? !ODD
    free(whole), free(data); //? !ODD
} //? !ODD
static void fill( /* cells of `parts`, as they were made or with the parts outermost; unused ones are zero */ //? ODD
        ptr cache, const char * name, int64_t hs, int64_t parts, int turned, uint64_t seed, const char * stream) { //? ODD
    const size_t size = ggml_row_size(type(name), hs)*NH/parts; //? ODD
    char * data = pack(name, normal(seed, stream, STREAMS*CELLS*NH*hs), STREAMS*CELLS*NH, hs), * from = data; //? ODD
    char * whole = calloc(ggml_nbytes(cache), 1); //? ODD
    for (int64_t i = 0, c, p; i < STREAMS*N_KV*parts; i++) //? ODD
        if (c = i/parts, p = i%parts, c%N_KV < CELLS) //? ODD
            memcpy(whole + (turned ? (c/N_KV*parts + p)*N_KV + c%N_KV : i)*size, from, size), from += size; //? ODD
    ggml_backend_tensor_set(cache, whole, 0, ggml_nbytes(cache)), free(whole), free(data); //? ODD
} //? ODD
static void load(uint64_t seed) {
    ptr ctx = k_cache ? NULL : CONTEXT, buft = ggml_backend_dev_buffer_type(device);
    if (ctx) k_cache = NEW(TYPE_K, HSK*NH, N_KV, STREAMS, 1); //? V_IN_K
    if (ctx) k_cache = NEW(TYPE_K, HSK*NH, N_KV, STREAMS, 1), v_cache = NEW(TYPE_V, HSV*NH, N_KV, STREAMS, 1); //? !NOFA !V_IN_K
    if (ctx) k_cache = NEW(TYPE_K, HSK*NH, N_KV, STREAMS, 1), v_cache = NEW(TYPE_V, N_KV, HSV*NH, STREAMS, 1); //? NOFA
    if (ctx) CHECK(ggml_backend_alloc_ctx_tensors_from_buft(ctx, buft));
    fill(k_cache, TYPE_K, HSK, seed, "k"); //? !ODD
    fill(v_cache, TYPE_V, HSV, seed, "v"); //? !ODD !V_IN_K
    fill(k_cache, TYPE_K, HSK, NH, @outside@, seed, "k"); //? ODD
    fill(v_cache, TYPE_V, HSV, NH, @outside@, seed, "v"); //? ODD !NOFA !V_IN_K
    fill(v_cache, TYPE_V, HSV, NH*HSV, 1, seed, "v"); //? NOFA
    queries = normal(seed, "q", STREAMS*TOKENS*HEADS*HSK);
    sink_values = normal(seed, "sinks", HEADS); for (int64_t h = 0; h < HEADS; h++) sink_values[h] *= 4; //? SINKS
}
static void feed(int64_t first, int64_t n) { /* token t is in cell CELLS - TOKENS + t and sees those up to it */
    ggml_backend_tensor_set(q, queries + first*HEADS*HSK, 0, n*HEADS*HSK*4); //? PLAIN
    for (int64_t i = 0, t, h; t = i/HEADS, h = i%HEADS, i < STREAMS*n*HEADS; i++) /* [STREAMS][n][HEADS] */ //? !PLAIN
        ggml_backend_tensor_set(q, queries + ((t/n*TOKENS + first + t%n)*HEADS + h)*HSK, @query@*HSK*4, HSK*4); //? !PLAIN
    const int64_t rows = @rows@; float * values = malloc(STREAMS*rows*N_KV*sizeof(float)); /* of the mask */ //? MASK
    for (int64_t i = 0, d; i < STREAMS*rows*N_KV; i++) //? MASK
        d = CELLS - TOKENS + first + i/N_KV%rows - i%N_KV, values[i] = d < 0 || d >= SEEN ? -1.0f/0.0f : @bias@; //? MASK
    char * data = pack("@mask_type@", values, STREAMS*rows, N_KV); //? MASK
    ggml_backend_tensor_set(mask, data, 0, ggml_nbytes(mask)), free(data); //? MASK
    ggml_backend_tensor_set(sinks, sink_values, 0, HEADS*sizeof(float)); //? SINKS
}
