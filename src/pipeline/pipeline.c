/* pipeline.c - opening a model directory whole. */
#include "pipeline/pipeline.h"

#include <stdio.h>

#include "hub/adapter.h"
#include "model/model.h"
#include "pipeline/adapters.h"
#include "pipeline/options.h"
#include "qkv/file.h"
#include "tensor/make.h"

#define FIELD(member) .offset = offsetof(qkv_pipeline_options, member)
static const qkv_option rows[] = {
    {.flag = "weights", .key = "weights", .type = QKV_OPT_ENUM, .names = qkv__weights_names,
     FIELD(weights), .initial = "auto",
     .help = "how matrices are kept in memory: fewer bits are read faster; auto: as in DIR"},
    {.flag = "adapter", .key = "adapters", .type = QKV_OPT_LIST, FIELD(adapters),
     .value = "DIR[=W]", .help = "put this LoRA adapter on the model, W of it; several add up"},
    {.flag = "pack", .key = "pack", .type = QKV_OPT_BOOL, FIELD(pack),
     .help = "copy each f32 matrix once, in the order that products read fastest: for many short "
             "inputs; twice the memory"},
};
QKV__OPTIONS(qkv_pipeline, "Opening the model")

/* A directory without a tokenizer is opened: its model can be used by itself. */
static qkv_status load_tokenizer(qkv_pipeline *p)
{
    qkv_status status = qkv_hub_load_tokenizer(&p->tokenizer, p->ctx, p->dir);
    if (!status || status == QKV_E_MEMORY)
        return status;
    p->no_tokenizer_status = status;
    p->no_tokenizer = qkv_strdup(p->ctx, qkv_context_message(p->ctx));
    return p->no_tokenizer ? QKV_OK : QKV_E_MEMORY;
}

qkv_status qkv__pipeline_text(const qkv_pipeline *p)
{
    return p->tokenizer ? QKV_OK
                        : qkv_fail(p->ctx, p->no_tokenizer_status, "%s", p->no_tokenizer);
}

/* Of an encoder-decoder; an adapter without settings of its own has the base's. */
static qkv_status load_generation(qkv_pipeline *p)
{
    char *at = NULL;
    qkv_status status = qkv__hub_settings(&at, p->ctx, p->dir);
    if (!status)
        status = qkv_hub_load_generation(&p->generation, p->model, qkv_path_beside(at, "").text);
    qkv_free(p->ctx, at);
    return status;
}

qkv_status qkv_pipeline_open(qkv_pipeline **out, qkv_context *ctx, const char *dir)
{
    return qkv_pipeline_open_with(out, ctx, dir, NULL);
}

qkv_status qkv_pipeline_open_with(qkv_pipeline **out, qkv_context *ctx, const char *dir,
                                  const qkv_pipeline_options *options)
{
    const qkv_pipeline_options o = options ? *options : qkv_pipeline_defaults();
    qkv_pipeline *p = qkv_calloc(ctx, 1, sizeof *p);
    *out = NULL;
    if (!p)
        return QKV_E_MEMORY;
    p->ctx = ctx;
    p->o = o;
    p->dir = qkv_strdup(ctx, dir);
    qkv_status status = p->dir ? qkv_hub_load_stored(&p->model, ctx, dir, o.weights)
                               : QKV_E_MEMORY;
    if (!status)
        status = qkv__add_adapters(p->model, &p->o.adapters);
    if (!status && qkv__model_reads_text(p->model))
        status = load_tokenizer(p);
    if (!status && qkv_model_can(p->model, QKV_CAN_TRANSLATE))
        status = load_generation(p);
    if (!status)
        status = qkv_tape_create(&p->tape, ctx);
    if (!status)
        qkv_params_pack(qkv_model_params(p->model), o.pack);
    if (status)
        qkv_pipeline_close(p);
    else
        *out = p;
    return status;
}

void qkv__pipeline_close_ensemble(qkv_pipeline *p)
{
    for (size_t i = 0; i < p->ensemble_count; i++)
        qkv_pipeline_close(p->ensemble[i]);
    qkv_free(p->ctx, p->ensemble);
    p->ensemble = NULL;
    p->ensemble_count = 0;
}

void qkv_pipeline_close(qkv_pipeline *p)
{
    if (!p)
        return;
    qkv__pipeline_close_ensemble(p);
    qkv_pipeline_close(p->reverse);
    qkv__prior_close(&p->codecs);
    qkv_tape_destroy(p->tape);
    qkv_shortlist_destroy(p->shortlist);
    qkv_free(p->ctx, p->shortlist_file);
    qkv_tokenizer_destroy(p->tokenizer);
    qkv_model_destroy(p->model);
    qkv_free(p->ctx, p->no_tokenizer);
    qkv_free(p->ctx, p->dir);
    qkv_free(p->ctx, p);
}

qkv_model *qkv_pipeline_model(const qkv_pipeline *p) { return p->model; }
qkv_tokenizer *qkv_pipeline_tokenizer(const qkv_pipeline *p) { return p->tokenizer; }

qkv_status qkv__pipeline_codecs(qkv_pipeline *p)
{
    if (p->codecs.vqgan)
        return QKV_OK;
    qkv_status status = qkv__prior_open(&p->codecs, p->model, p->dir);
    if (status)
        qkv__prior_close(&p->codecs);
    return status;
}

const char *qkv_pipeline_label(qkv_pipeline *p, size_t i)
{
    if (i < qkv_model_label_count(p->model))
        return qkv_model_label(p->model, i);
    (void)snprintf(p->label, sizeof p->label, "LABEL_%zu", i);
    return p->label;
}

qkv_status qkv__pipeline_refuse(const qkv_pipeline *p, const char *what)
{
    return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: a %s model does not %s", p->dir,
                    qkv_model_type_name(qkv_model_type_of(p->model)), what);
}

qkv_status qkv__pipeline_refuse_head(const qkv_pipeline *p, const char *what)
{
    return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: a %s does not %s", p->dir,
                    qkv_model_type_architecture(qkv_model_type_of(p->model)), what);
}
