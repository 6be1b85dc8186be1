_Bool ggml_prec_set_acc(ptr, int) __attribute__((weak)); void @setter@(ptr, int) __attribute__((weak));
ptr ggml_gelu_erf(ptr, ptr) __attribute__((weak)); //? EARLY
static ptr set_prec(ptr t) { /* releases have one or the other */
    if (ggml_prec_set_acc) CHECK(ggml_prec_set_acc(t, PREC)); else @setter@(t, PREC); //? !EARLY
    @setter@(t, ggml_gelu_erf ? PREC : 1); /* in March 2025 the number of f32 was 1 */ //? EARLY
    return t;
}
