/* lm.c - judging models that continue text. */
#include "eval/kinds.h"
#include "text/texts.h"

/* Tokens of the file, or those that training kept in the model's directory. */
static qkv_status open_tokens(eval *e, qkv_tokens **out)
{
    char *path = NULL;
    qkv_texts text = {0};
    qkv_status status;
    if (e->file) {
        status = qkv_texts_open_one(&text, e->c->ctx, e->file);
        if (!status)
            status = qkv_tokens_pack(out, e->c->ctx, e->tokenizer, text.parts, 1, NULL,
                                     NULL, NULL);
    } else {
        status = eval_held_out(e, "valid-tokens.safetensors", &path);
        if (!status)
            status = qkv_tokens_open(out, e->c->ctx, path);
    }
    qkv_free(e->c->ctx, path);
    qkv_texts_close(&text);
    return status;
}

qkv_status eval_lm(eval *e, qkv_measures *out)
{
    qkv_tokens *tokens = NULL;
    qkv_lm_score s = {0};
    qkv_status status = open_tokens(e, &tokens);
    if (status)
        return status;
    status = qkv_lm_evaluate(e->model, e->tape, tokens, qkv_lm_positions(e->model), 0, &s);
    if (status)
        qkv_fail_prefix(e->c->ctx, e->file ? e->file : e->dir);
    qkv_measures_add(out, "loss", s.loss);
    qkv_measures_add(out, "perplexity", s.perplexity);
    qkv_measures_add(out, "bits_per_byte", s.bits_per_byte);
    out->scored = s.tokens;
    qkv_tokens_close(tokens);
    return status;
}
