/* fill.c - guessing the hidden words of texts. */
#include <string.h>

#include "pipeline/options.h"
#include "pipeline/pipeline.h"
#include "qkv/bert.h"
#include "qkv/pipeline_text.h"

static const qkv_option rows[] = {
    {.flag = "top-k", .key = "top_k", .type = QKV_OPT_SIZE, .min = 1, .max = 16777216,
     .offset = offsetof(qkv_pipeline_fill_options, top_k), .initial = "5",
     .help = "how many tokens, likeliest first"},
};
QKV__OPTIONS(qkv_pipeline_fill, "Filling in")

typedef struct {
    qkv_pipeline *p;
    size_t top;
    int32_t mask; /* the token */
    qkv_ids ids;  /* of a text */
    size_t masks; /* in it */
    qkv_guess *guesses; /* (masks, top) */
    qkv_filling *best;  /* (top) of one mask .. */
    qkv_text spelled;   /* .. and their text */
} job;

static qkv_status fill_encode(job *j, const char *text)
{
    qkv_context *ctx = j->p->ctx;
    j->ids.count = j->masks = 0;
    qkv_status status = qkv_tokenizer_encode(j->p->tokenizer, text, strlen(text),
                                             QKV_ENCODE_ADD_SPECIAL, &j->ids);
    for (size_t i = 0; i < j->ids.count; i++)
        j->masks += j->ids.data[i] == j->mask;
    if (!status && j->masks == 0)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "the text has no %s to fill in",
                          qkv_tokenizer_token(j->p->tokenizer, j->mask, NULL));
    return status;
}

static qkv_status fill_guess(job *j, const char *text)
{
    qkv_status status = fill_encode(j, text);
    qkv_free(j->p->ctx, j->guesses);
    j->guesses = status ? NULL : qkv_calloc(j->p->ctx, j->masks * j->top, sizeof *j->guesses);
    if (!status && !j->guesses)
        status = QKV_E_MEMORY;
    return status ? status
                  : qkv_fill(j->p->model, j->ids.data, j->ids.count, j->mask, j->top, j->guesses);
}

/* The guesses for one mask as text. */
static qkv_status spell(job *j, const qkv_guess *g)
{
    j->spelled.len = 0;
    for (size_t i = 0; i < j->top; i++) {
        size_t before = j->spelled.len;
        qkv_status status = qkv_tokenizer_decode(j->p->tokenizer, &g[i].id, 1, QKV_DECODE_VALID,
                                                 &j->spelled);
        if (status)
            return status;
        j->best[i] = (qkv_filling){.id = g[i].id, .prob = g[i].prob,
                                   .len = j->spelled.len - before};
    }
    const char *at = j->spelled.data ? j->spelled.data : "";
    for (size_t i = 0; i < j->top; at += j->best[i++].len)
        j->best[i].text = at;
    return QKV_OK;
}

static qkv_status fill(job *j, const char *const *texts, size_t count, qkv_filled_fn *fn,
                       void *user)
{
    qkv_status status = QKV_OK;
    for (size_t t = 0; t < count && !status; t++) {
        status = fill_guess(j, texts[t]);
        for (size_t i = 0; i < j->masks && !status; i++) {
            status = spell(j, j->guesses + i * j->top);
            if (!status && !fn(user, &(qkv_filled){t, i, j->best, j->top}))
                return QKV_OK;
        }
        if (!status)
            status = qkv__progress(j->p->ctx, "filling in", "texts", t + 1, count);
    }
    return status;
}

qkv_status qkv_pipeline_fill(qkv_pipeline *p, const char *const *texts, size_t count,
                             const qkv_pipeline_fill_options *options, qkv_filled_fn *fn,
                             void *user)
{
    if (!qkv_model_can(p->model, QKV_CAN_FILL_MASK))
        return qkv__pipeline_refuse_head(p, "guess hidden words");
    if (qkv__pipeline_text(p))
        return p->no_tokenizer_status;
    size_t vocab = qkv_tokenizer_vocab_size(p->tokenizer);
    job j = {.p = p, .top = options ? options->top_k : qkv_pipeline_fill_defaults().top_k,
             .mask = qkv_tokenizer_special(p->tokenizer, QKV_TOKEN_MASK)};
    j.top = j.top < vocab ? j.top : vocab;
    if (j.mask < 0)
        return qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: the tokenizer has no mask token", p->dir);
    j.best = qkv_calloc(p->ctx, j.top, sizeof *j.best);
    qkv_status status = j.best ? fill(&j, texts, count, fn, user) : QKV_E_MEMORY;
    qkv_free(p->ctx, j.best);
    qkv_free(p->ctx, j.guesses);
    qkv_ids_free(&j.ids, p->ctx);
    qkv_text_free(&j.spelled, p->ctx);
    return status;
}
