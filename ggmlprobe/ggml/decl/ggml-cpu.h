/* The part of ggml-cpu.h that is called. */
struct ggml_backend * ggml_backend_cpu_init(void);
