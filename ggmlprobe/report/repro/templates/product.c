ptr ggml_mul_mat(ptr, ptr, ptr), ggml_mul_mat_id(ptr, ptr, ptr, ptr);
void ggml_backend_buffer_set_usage(ptr, int);
static ptr a, b;
static char * x;
static ptr buffer_type(void) { //? BUFT
    ptr (*get)(ptr) = (ptr (*)(ptr)) ggml_backend_reg_get_proc_address( //? BUFT
        ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"); //? BUFT
    for (ptr * each = get ? get(device) : NULL; each && *each; each++) //? BUFT
        if (!strcmp(ggml_backend_buft_name(*each), BUFT)) return *each; //? BUFT
    ptr own = ggml_backend_dev_buffer_type(device), host = ggml_backend_dev_host_buffer_type(device); //? BUFT
    own = strcmp(ggml_backend_buft_name(own), BUFT) ? host : own; //? BUFT
    CHECK(own && !strcmp(ggml_backend_buft_name(own), BUFT)); //? BUFT
    return own; //? BUFT
} //? BUFT
static void load_weights(ptr ctx, int64_t rows, uint64_t seed) { /* POOL distinct rows, repeated */
    const size_t row = ggml_row_size(type(TYPE_A), K);
    char * pool = pack(TYPE_A, normal(seed, "weights", POOL*K), POOL, K), * whole = malloc(rows*row);
    ptr buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_dev_buffer_type(device)); //? !BUFT
    ptr buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, buffer_type()); //? BUFT
    CHECK(buffer);
    ggml_backend_buffer_set_usage(buffer, 1); /* GGML_BACKEND_BUFFER_USAGE_WEIGHTS */
    for (int64_t i = 0; i < rows; i++) memcpy(whole + i*row, pool + i%POOL*row, row);
    ggml_backend_tensor_set(a, whole, 0, rows*row);
    free(whole), free(pool);
}
static char * activations(uint64_t seed, int64_t rows) {
    float * v = normal(seed, "activations", rows*K);
    for (int64_t i = 0; i < rows*K; i++) //? OUTLIERS
        if (hash(seed, "channels:outlier_gain", i%K) >> 58 == 0) v[i] *= 32; //? OUTLIERS
    return pack(TYPE_B, v, rows, K);
}
