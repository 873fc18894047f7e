/* ensemble.c - translators that are asked beside a pipeline's own. */
#include <string.h>

#include "pipeline/pipeline.h"
#include "qkv/marian.h"

static bool is_kept(const qkv_pipeline *p, const qkv_strings *dirs)
{
    bool same = p->ensemble_count == dirs->count;
    for (size_t i = 0; i < dirs->count && same; i++)
        same = strcmp(p->ensemble[i]->dir, dirs->items[i]) == 0;
    return same;
}

/* The first id that means another token than p's, or one that only one of them has; -1: none. */
static int32_t other_token(const qkv_pipeline *p, const qkv_pipeline *q)
{
    size_t count = qkv_tokenizer_vocab_size(p->tokenizer), len = 0, its_len = 0;
    size_t its_count = qkv_tokenizer_vocab_size(q->tokenizer);
    for (int32_t id = 0; (size_t)id < count && (size_t)id < its_count; id++) {
        const char *token = qkv_tokenizer_token(p->tokenizer, id, &len);
        const char *its = qkv_tokenizer_token(q->tokenizer, id, &its_len);
        if (!token != !its || (token && (len != its_len || memcmp(token, its, len) != 0)))
            return id;
    }
    return count == its_count ? -1 : (int32_t)(count < its_count ? count : its_count);
}

/* Opens a translator. On failure *out is NULL. */
static qkv_status open_beside(qkv_pipeline **out, const qkv_pipeline *p, const char *dir,
                              const qkv_pipeline_options *o)
{
    qkv_status status = qkv_pipeline_open_with(out, p->ctx, dir, o);
    if (!status && !qkv_model_can((*out)->model, QKV_CAN_TRANSLATE))
        status = qkv__pipeline_refuse(*out, "translate");
    if (!status)
        status = qkv__pipeline_text(*out);
    if (status) {
        qkv_pipeline_close(*out);
        *out = NULL;
    }
    return status;
}

static qkv_status open_one(qkv_pipeline *p, const char *dir)
{
    qkv_pipeline *q;
    qkv_status status = open_beside(&q, p, dir, &p->o);
    if (status)
        return status;
    p->ensemble[p->ensemble_count++] = q;
    int32_t id = other_token(p, q);
    return id < 0 ? QKV_OK
                  : qkv_fail(p->ctx, QKV_E_ARGUMENT, "%s: the tokenizer of %s expected, found one "
                             "with another token %d", dir, p->dir, (int)id);
}

qkv_status qkv__pipeline_ensemble(qkv_pipeline *p, const qkv_strings *dirs)
{
    if (is_kept(p, dirs))
        return QKV_OK;
    qkv__pipeline_close_ensemble(p);
    p->ensemble = qkv_calloc(p->ctx, dirs->count + 1, sizeof(qkv_pipeline *));
    qkv_status status = p->ensemble ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < dirs->count && !status; i++)
        status = open_one(p, dirs->items[i]);
    if (status)
        qkv__pipeline_close_ensemble(p);
    return status;
}

/* A T5's line says what it asks for, which is no part of a translation. */
static qkv_status refuse_t5(const qkv_pipeline *p)
{
    if (qkv_model_type_of(p->model) != qkv_t5_type())
        return QKV_OK;
    return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: no t5 rescores, or is rescored by another "
                    "model: its lines say what they ask for", p->dir);
}

qkv_status qkv__pipeline_reverse(qkv_pipeline *p, const char *dir)
{
    qkv_status status = refuse_t5(p);
    if (!status && !(p->reverse && strcmp(p->reverse->dir, dir) == 0)) {
        qkv_pipeline_options o = p->o;
        o.adapters = (qkv_strings){0}; /* they are the other direction's */
        qkv_pipeline_close(p->reverse);
        status = open_beside(&p->reverse, p, dir, &o);
    }
    return status ? status : refuse_t5(p->reverse);
}
