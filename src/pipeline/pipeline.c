/* pipeline.c - opening a model directory whole. */
#include "pipeline/pipeline.h"

#include "qkv/bert.h"
#include "qkv/gpt.h"
#include "qkv/marian.h"

/* Does the model read text? A prior continues codes of pictures. */
static bool reads_text(const qkv_model *m)
{
    const qkv_model_type *type = qkv_model_type_of(m);
    return (qkv_model_is_lm(m) && type != &qkv_prior_type) || qkv_model_is_translator(m) ||
           type == &qkv_bert_masked_type || type == &qkv_bert_classifier_type;
}

qkv_status qkv_pipeline_open(qkv_pipeline **out, qkv_context *ctx, const char *dir)
{
    qkv_pipeline *p = qkv_calloc(ctx, 1, sizeof *p);
    *out = NULL;
    if (!p)
        return QKV_E_MEMORY;
    p->ctx = ctx;
    p->dir = qkv_strdup(ctx, dir);
    qkv_status status = p->dir ? qkv_hub_load(&p->model, ctx, dir) : QKV_E_MEMORY;
    if (!status && reads_text(p->model))
        status = qkv_tokenizer_load(&p->tokenizer, ctx, dir);
    if (!status)
        status = qkv_tape_create(&p->tape, ctx);
    if (status)
        qkv_pipeline_close(p);
    else
        *out = p;
    return status;
}

void qkv_pipeline_close(qkv_pipeline *p)
{
    if (!p)
        return;
    qkv_tape_destroy(p->tape);
    qkv_tokenizer_destroy(p->tokenizer);
    qkv_model_destroy(p->model);
    qkv_free(p->ctx, p->dir);
    qkv_free(p->ctx, p);
}

qkv_model *qkv_pipeline_model(const qkv_pipeline *p) { return p->model; }
qkv_tokenizer *qkv_pipeline_tokenizer(const qkv_pipeline *p) { return p->tokenizer; }

qkv_status qkv__pipeline_refuse(const qkv_pipeline *p, const char *what)
{
    return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: a %s model does not %s", p->dir,
                    qkv_model_type_name(qkv_model_type_of(p->model)), what);
}
