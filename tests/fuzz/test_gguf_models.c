/* test_gguf_models.c - models and tokenizers in GGUF files under random changes; a tokenizer that
 * was accepted is used. */
#include "fuzz.h"

#include "hub/gguf.h"

static qkv_status read_gguf_model(qkv_context *ctx, const char *path)
{
    static const char text[] = "The cats' 123 <tool> sat\xc3\xa9 </s>";
    qkv_model *m;
    qkv_tokenizer *t;
    qkv_status status = qkv__hub_read_gguf(&m, &t, ctx, path, (qkv_strings){0},
                                           QKV_WEIGHTS_F32);
    qkv_model_destroy(m);
    if (t)
        use_tokenizer(ctx, t, text, sizeof text - 1);
    return status;
}

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/gguf/"
const fuzz_target fuzz = {
    .read = read_gguf_model,
    .seeds = {GOLDEN "llama.gguf", GOLDEN "spm.gguf", GOLDEN "gpt2.gguf", GOLDEN "bert.gguf",
              GOLDEN "roberta.gguf", GOLDEN "distilbert.gguf", GOLDEN "unigram.gguf"},
    .rounds = 6000,
};
