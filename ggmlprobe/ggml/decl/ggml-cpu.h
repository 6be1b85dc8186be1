/* The part of ggml-cpu.h that is called. */
struct ggml_backend * ggml_backend_cpu_init(void);
void ggml_backend_cpu_set_n_threads(struct ggml_backend * backend_cpu, int n_threads);
