/* The part of llama.h that is called: plain prototypes over opaque structs, enums as int. The
   structs that are passed by value come from the library's own header, see structs.py. */
struct llama_model;
struct llama_context;
struct llama_vocab;
struct llama_memory_i;

typedef void (*ggmlprobe_log_callback)(int level, const char * text, void * user_data);
typedef bool (*ggmlprobe_eval_callback)(struct ggml_tensor * t, bool ask, void * user_data);

struct llama_model_params llama_model_default_params(void);
struct llama_context_params llama_context_default_params(void);
struct llama_model_quantize_params llama_model_quantize_default_params(void);
struct llama_batch llama_batch_get_one(int32_t * tokens, int32_t n_tokens);

void llama_backend_init(void);
void llama_log_set(ggmlprobe_log_callback log_callback, void * user_data);

struct llama_model * llama_model_load_from_file(const char * path_model, struct llama_model_params params);
void llama_model_free(struct llama_model * model);
struct llama_context * llama_init_from_model(struct llama_model * model, struct llama_context_params params);
void llama_free(struct llama_context * ctx);

const struct llama_vocab * llama_model_get_vocab(const struct llama_model * model);
int32_t  llama_model_n_ctx_train(const struct llama_model * model);
int32_t  llama_model_n_layer(const struct llama_model * model);
int32_t  llama_model_n_swa(const struct llama_model * model);
int32_t  llama_model_desc(const struct llama_model * model, char * buf, size_t buf_size);
uint64_t llama_model_size(const struct llama_model * model);
int32_t  llama_model_meta_val_str(const struct llama_model * model, const char * key, char * buf, size_t buf_size);
bool     llama_model_is_recurrent(const struct llama_model * model);
bool     llama_model_is_hybrid(const struct llama_model * model);
bool     llama_model_has_encoder(const struct llama_model * model);
const char * llama_model_chat_template(const struct llama_model * model, const char * name);
int32_t  llama_chat_apply_template(const char * tmpl, const struct llama_chat_message * chat, size_t n_msg, bool add_ass, char * buf, int32_t length);

int32_t llama_vocab_n_tokens(const struct llama_vocab * vocab);
bool    llama_vocab_is_eog(const struct llama_vocab * vocab, int32_t token);
int32_t llama_tokenize(const struct llama_vocab * vocab, const char * text, int32_t text_len, int32_t * tokens, int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const struct llama_vocab * vocab, int32_t token, char * buf, int32_t length, int32_t lstrip, bool special);

uint32_t llama_n_ctx(const struct llama_context * ctx);
uint32_t llama_n_batch(const struct llama_context * ctx);
uint32_t llama_n_ubatch(const struct llama_context * ctx);
uint32_t llama_n_seq_max(const struct llama_context * ctx);
int32_t  llama_n_threads(struct llama_context * ctx);
int32_t  llama_n_threads_batch(struct llama_context * ctx);

struct llama_memory_i * llama_get_memory(const struct llama_context * ctx);
void    llama_memory_clear(struct llama_memory_i * mem, bool data);
bool    llama_memory_seq_rm(struct llama_memory_i * mem, int32_t seq_id, int32_t p0, int32_t p1);
int32_t llama_memory_seq_pos_min(struct llama_memory_i * mem, int32_t seq_id);
int32_t llama_memory_seq_pos_max(struct llama_memory_i * mem, int32_t seq_id);

size_t llama_state_seq_get_size(struct llama_context * ctx, int32_t seq_id);
size_t llama_state_seq_get_data(struct llama_context * ctx, uint8_t * dst, size_t size, int32_t seq_id);
size_t llama_state_seq_set_data(struct llama_context * ctx, const uint8_t * src, size_t size, int32_t seq_id);

int32_t llama_decode(struct llama_context * ctx, struct llama_batch batch);
float * llama_get_logits(struct llama_context * ctx);
void    llama_synchronize(struct llama_context * ctx);

uint32_t llama_model_quantize(const char * fname_inp, const char * fname_out, const struct llama_model_quantize_params * params);
