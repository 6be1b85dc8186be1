// What `ggmlprobe model compare` measures, by a program that shares no code with it.
//
//   model_compare MODEL PROMPT N WIDTH FA THREADS EXTRA_BUFTS
//
// Every window starts from a wiped memory and a prefill of the tokens before it as one batch; the
// single path then evaluates WIDTH tokens one by one, the block path all at once. A line of output
// for each cell (t, j): t j token l_ar l_single l_block argmax_ar argmax_single argmax_block
// hash_ar hash_single hash_block. Logits as hexadecimal floats, hashes FNV-1a over a row's bytes.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend.h"
#include "llama.h"

enum { N_CTX = 1024, N_BATCH = 512 };

static struct llama_context * context;
static int n_vocab;

struct row {
    float *  logits;
    int      argmax;
    uint64_t hash;
};

static void fail(const char * what) {
    fprintf(stderr, "model_compare: %s\n", what);
    exit(2);
}

static struct row take_row(int index) {
    const float * logits = llama_get_logits_ith(context, index);
    if (logits == NULL) {
        fail("no logits");
    }
    struct row row = { malloc(n_vocab * sizeof(float)), 0, 14695981039346656037u };
    memcpy(row.logits, logits, n_vocab * sizeof(float));
    for (int i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[row.argmax]) {
            row.argmax = i;
        }
    }
    const unsigned char * bytes = (const unsigned char *) logits;
    for (size_t i = 0; i < n_vocab * sizeof(float); i++) {
        row.hash = (row.hash ^ bytes[i]) * 1099511628211u;
    }
    return row;
}

static void wipe(void) {
    if (!llama_memory_seq_rm(llama_get_memory(context), 0, -1, -1)) {
        fail("the memory cannot be wiped");
    }
}

// One llama_decode of count tokens from position first on; logits of all of them if wanted.
static void decode(const llama_token * tokens, int count, int first, int wanted) {
    struct llama_batch batch = llama_batch_init(count, 0, 1);
    batch.n_tokens = count;
    for (int i = 0; i < count; i++) {
        batch.token[i]     = tokens[i];
        batch.pos[i]       = first + i;
        batch.n_seq_id[i]  = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i]    = (int8_t) wanted;
    }
    if (llama_decode(context, batch) != 0) {
        fail("llama_decode failed");
    }
    llama_batch_free(batch);
}

static void restart(const llama_token * tokens, int count) {
    wipe();
    if (count > 0) {
        decode(tokens, count, 0, 0);
    }
}

static void print_cell(int t, int j, int token, struct row ar, struct row single, struct row block) {
    printf("%d %d %d %a %a %a %d %d %d %016llx %016llx %016llx\n", t, j, token,
           (double) ar.logits[token], (double) single.logits[token], (double) block.logits[token],
           ar.argmax, single.argmax, block.argmax, (unsigned long long) ar.hash,
           (unsigned long long) single.hash, (unsigned long long) block.hash);
}

int main(int argc, char ** argv) {
    if (argc != 8) {
        fail("give MODEL PROMPT N WIDTH FA THREADS EXTRA_BUFTS");
    }
    const int n = atoi(argv[3]), width = atoi(argv[4]), threads = atoi(argv[6]);
    ggml_backend_load_all();
    llama_backend_init();

    struct llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers    = 0;
    model_params.use_extra_bufts = atoi(argv[7]) != 0;
    struct llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (model == NULL) {
        fail("the model cannot be loaded");
    }
    const struct llama_vocab * vocab = llama_model_get_vocab(model);
    n_vocab = llama_vocab_n_tokens(vocab);

    struct llama_context_params params = llama_context_default_params();
    params.n_ctx           = N_CTX;
    params.n_batch         = N_BATCH;
    params.n_ubatch        = N_BATCH;
    params.n_threads       = threads;
    params.n_threads_batch = threads;
    params.swa_full        = false;
    params.flash_attn_type = atoi(argv[5]) ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    context = llama_init_from_model(model, params);
    if (context == NULL) {
        fail("no context");
    }

    // tokens: the prompt's, then those of the greedy run
    llama_token tokens[N_CTX];
    const int n_prompt = llama_tokenize(vocab, argv[2], (int) strlen(argv[2]), tokens, N_CTX, true, true);
    if (n_prompt < 1 || n_prompt + n > N_CTX) {
        fail("the prompt has no tokens or too many");
    }
    const int start = n_prompt - 1;

    struct row * ar = malloc(n * sizeof(*ar));
    restart(tokens, start);
    for (int i = 0; i < n; i++) {
        decode(tokens + start + i, 1, start + i, 1);
        ar[i] = take_row(0);
        tokens[n_prompt + i] = ar[i].argmax;
    }

    struct row * single = malloc(width * sizeof(*single));
    for (int t = 0; t < n; t++) {
        const int first = start + t;
        const int count = t + width <= n ? width : n - t;
        restart(tokens, first);
        for (int j = 0; j < count; j++) {
            decode(tokens + first + j, 1, first + j, 1);
            single[j] = take_row(0);
        }
        restart(tokens, first);
        decode(tokens + first, count, first, 1);
        for (int j = 0; j < count; j++) {
            const struct row block = take_row(j);
            print_cell(t, j, tokens[n_prompt + t + j], ar[t + j], single[j], block);
            free(block.logits);
            free(single[j].logits);
        }
    }
    for (int i = 0; i < n; i++) {
        free(ar[i].logits);
    }
    free(single);
    free(ar);
    llama_free(context);
    llama_model_free(model);
    return 0;
}
