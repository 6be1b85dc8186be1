_Bool ggml_prec_set_acc(ptr, int) __attribute__((weak)); void @setter@(ptr, int) __attribute__((weak));
static ptr set_prec(ptr t) { /* releases have one or the other */
    if (ggml_prec_set_acc) CHECK(ggml_prec_set_acc(t, PREC)); else @setter@(t, PREC);
    return t;
}
