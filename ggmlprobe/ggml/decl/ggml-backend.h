/* The part of ggml-backend.h that is called. ggml_backend_feature is laid out: the library
   returns an array of it. */
struct ggml_backend_buffer_type;
struct ggml_backend_buffer;
struct ggml_backend;
struct ggml_backend_reg;
struct ggml_backend_device;
struct ggml_backend_sched;

struct ggml_backend_feature {
    const char * name;
    const char * value;
};

typedef struct ggml_backend_feature * (*ggml_backend_get_features_t)(struct ggml_backend_reg * reg);
typedef struct ggml_backend_buffer_type ** (*ggml_backend_dev_get_extra_bufts_t)(struct ggml_backend_device * device);
typedef void (*ggml_backend_set_n_threads_t)(struct ggml_backend * backend, int n_threads);
typedef struct ggml_backend_reg * (*ggml_backend_rpc_add_server_t)(const char * endpoint);
typedef struct ggml_backend_device * (*ggml_backend_rpc_add_device_t)(const char * endpoint);

const char * ggml_backend_buft_name(struct ggml_backend_buffer_type * buft);
size_t ggml_backend_buft_get_alloc_size(struct ggml_backend_buffer_type * buft, const struct ggml_tensor * tensor);

const char * ggml_backend_buffer_name(struct ggml_backend_buffer * buffer);
void   ggml_backend_buffer_free(struct ggml_backend_buffer * buffer);
size_t ggml_backend_buffer_get_size(struct ggml_backend_buffer * buffer);
void   ggml_backend_buffer_clear(struct ggml_backend_buffer * buffer, uint8_t value);
void   ggml_backend_buffer_set_usage(struct ggml_backend_buffer * buffer, int usage);

void ggml_backend_free(struct ggml_backend * backend);
void ggml_backend_tensor_set(struct ggml_tensor * tensor, const void * data, size_t offset, size_t size);
void ggml_backend_tensor_get(const struct ggml_tensor * tensor, void * data, size_t offset, size_t size);
int  ggml_backend_graph_compute(struct ggml_backend * backend, struct ggml_cgraph * cgraph);

const char * ggml_backend_dev_name(struct ggml_backend_device * device);
const char * ggml_backend_dev_description(struct ggml_backend_device * device);
void ggml_backend_dev_memory(struct ggml_backend_device * device, size_t * free, size_t * total);
int  ggml_backend_dev_type(struct ggml_backend_device * device);
struct ggml_backend_reg * ggml_backend_dev_backend_reg(struct ggml_backend_device * device);
struct ggml_backend * ggml_backend_dev_init(struct ggml_backend_device * device, const char * params);
struct ggml_backend_buffer_type * ggml_backend_dev_buffer_type(struct ggml_backend_device * device);
struct ggml_backend_buffer_type * ggml_backend_dev_host_buffer_type(struct ggml_backend_device * device);
bool ggml_backend_dev_supports_op(struct ggml_backend_device * device, const struct ggml_tensor * op);
bool ggml_backend_dev_supports_buft(struct ggml_backend_device * device, struct ggml_backend_buffer_type * buft);

const char * ggml_backend_reg_name(struct ggml_backend_reg * reg);
size_t ggml_backend_reg_dev_count(struct ggml_backend_reg * reg);
void * ggml_backend_reg_get_proc_address(struct ggml_backend_reg * reg, const char * name);
size_t ggml_backend_reg_count(void);
struct ggml_backend_reg * ggml_backend_reg_get(size_t index);
size_t ggml_backend_dev_count(void);
struct ggml_backend_device * ggml_backend_dev_get(size_t index);

void ggml_backend_register(struct ggml_backend_reg * reg);
void ggml_backend_device_register(struct ggml_backend_device * device);
struct ggml_backend_reg * ggml_backend_load(const char * path);
void ggml_backend_load_all_from_path(const char * dir_path);

/* The signature of ggml_backend_sched_new since May 2025, when op_offload came. */
struct ggml_backend_sched * ggml_backend_sched_new(struct ggml_backend ** backends, struct ggml_backend_buffer_type ** bufts, int n_backends, size_t graph_size, bool parallel, bool op_offload);
void   ggml_backend_sched_free(struct ggml_backend_sched * sched);
bool   ggml_backend_sched_alloc_graph(struct ggml_backend_sched * sched, struct ggml_cgraph * graph);
int    ggml_backend_sched_graph_compute(struct ggml_backend_sched * sched, struct ggml_cgraph * graph);
size_t ggml_backend_sched_get_buffer_size(struct ggml_backend_sched * sched, struct ggml_backend * backend);
struct ggml_backend * ggml_backend_sched_get_tensor_backend(struct ggml_backend_sched * sched, struct ggml_tensor * node);
