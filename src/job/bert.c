/* bert.c - what the commands that train a BERT share. */
#include "job/bert.h"

#include <string.h>

/* ---- texts ------------------------------------------------------------------------------- */

static qkv_status hold_out(qkv__split *x, qkv_context *ctx, const char *last)
{
    size_t total = 0, lines;
    for (size_t i = 0; i < x->train_count; i++)
        total += qkv__count_lines(&x->data.spans[i]);
    x->held = qkv_calloc(ctx, x->train_count, sizeof *x->held);
    if (!x->held)
        return QKV_E_MEMORY;
    qkv_status status = qkv__held_out(ctx, last, total, "lines", &lines);
    if (!status)
        x->held_count = qkv__cut_lines(x->data.spans, &x->train_count, lines, x->held);
    return status;
}

qkv_status qkv__split_open(qkv__split *x, qkv_context *ctx, const qkv_strings *data,
                           const char *valid, const char *last)
{
    qkv_status status = qkv_texts_open(&x->data, ctx, data);
    x->train_count = x->data.count;
    if (status || !valid)
        return status ? status : hold_out(x, ctx, last);
    status = qkv_texts_open_one(&x->valid_file, ctx, valid);
    x->held = qkv_calloc(ctx, 1, sizeof *x->held);
    if (!status && !x->held)
        status = QKV_E_MEMORY;
    if (!status)
        x->held[x->held_count++] = x->valid_file.spans[0];
    return status;
}

void qkv__split_close(qkv__split *x)
{
    if (x->data.ctx)
        qkv_free(x->data.ctx, x->held);
    qkv_texts_close(&x->data);
    qkv_texts_close(&x->valid_file);
    x->held = NULL;
    x->held_count = x->train_count = 0;
}

/* ---- models ------------------------------------------------------------------------------ */

qkv_status qkv__bert_create(qkv__run *j, const qkv_model_type *type, qkv_bert_config *config,
                           const char *preset)
{
    const qkv_options *o = j->options;
    qkv_bert_config *c = config, sizes = *config;
    if (!qkv_model_type_preset(&qkv_bert_masked_type, preset, &sizes))
        return qkv_fail(j->ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", preset);
    if (!qkv_options_given(o, "hidden_size"))
        c->width = sizes.width;
    if (!qkv_options_given(o, "num_hidden_layers"))
        c->layers = sizes.layers;
    if (!qkv_options_given(o, "num_attention_heads"))
        c->heads = sizes.heads;
    c->vocab = qkv_tokenizer_vocab_size(j->tokenizer);
    c->pad = qkv_tokenizer_special(j->tokenizer, QKV_TOKEN_PAD);
    qkv_status status = qkv_model_create(&j->model, j->ctx, type, c);
    return status ? status : qkv_model_init(j->model, j->o.seed);
}

/* The labels of one model for another. */
static qkv_status copy_labels(qkv_model *to, const qkv_model *from)
{
    qkv_context *ctx = qkv_model_context(to);
    size_t count = qkv_model_label_count(from);
    const char **names = qkv_calloc(ctx, count + 1, sizeof *names);
    if (!names)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < count; i++)
        names[i] = qkv_model_label(from, i);
    qkv_status status = qkv_model_set_labels(to, names, count);
    qkv_free(ctx, names);
    return status;
}

static qkv_status make_like(qkv__run *j, const qkv_model_type *type, size_t classes,
                            const qkv_model *old)
{
    qkv_bert_config c = *(const qkv_bert_config *)qkv_model_config(old);
    bool same = qkv_model_type_of(old) == type;
    if (!same && classes)
        c.classes = classes;
    qkv_status status = qkv_model_create(&j->model, j->ctx, type, &c);
    if (!status)
        status = qkv_model_init(j->model, j->o.seed);
    if (!status && same)
        status = copy_labels(j->model, old);
    if (!status && same)
        return qkv_hub_load_weights(j->model, j->o.init);
    return status ? status : qkv_hub_load_matching(j->model, j->o.init);
}

qkv_status qkv__bert_init(qkv__run *j, const qkv_model_type *type, const qkv_bert_config *config,
                         size_t classes)
{
    qkv_context *ctx = j->ctx;
    qkv_model *old = NULL;
    qkv_status status = qkv_hub_load_config_with(&old, ctx, j->o.init,
                                                 qkv_options_pairs(j->options));
    if (!status && strcmp(qkv_model_type_name(qkv_model_type_of(old)),
                          qkv_model_type_name(type)) != 0)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--init: a %s model expected, %s holds a %s",
                           qkv_model_type_name(type), j->o.init,
                           qkv_model_type_name(qkv_model_type_of(old)));
    const qkv_bert_config *had = status ? NULL : qkv_model_config(old);
    if (had && qkv__run_given(j, "length") && config->positions > had->positions)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--length: at most %zu expected, the positions of "
                           "%s, found %zu", had->positions, j->o.init, config->positions);
    if (!status)
        status = qkv_tokenizer_load(&j->tokenizer, ctx, j->o.init);
    if (!status)
        status = make_like(j, type, classes, old);
    qkv_model_destroy(old);
    return status;
}
