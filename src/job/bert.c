/* bert.c - what the commands that train a BERT share. */
#include "job/bert.h"

#include "model/tables.h"

/* ---- models ------------------------------------------------------------------------------ */

qkv_status qkv__bert_create(qkv__run *j, const qkv_model_type *type, qkv_bert_config *config,
                           const char *preset)
{
    qkv_status status = qkv__run_preset(j, qkv_bert_masked_type(), preset, &qkv__bert_config,
                                        config);
    config->vocab = qkv_tokenizer_vocab_size(j->tokenizer);
    config->pad = qkv_tokenizer_special(j->tokenizer, QKV_TOKEN_PAD);
    return status ? status : qkv__run_create(j, type, config);
}

static qkv_status make_like(qkv__run *j, const qkv_model_type *type, size_t classes,
                            const qkv_model *old)
{
    qkv_bert_config c = *(const qkv_bert_config *)qkv_model_config(old);
    bool same = qkv_model_type_of(old) == type;
    if (!same && classes)
        c.classes = classes;
    qkv_status status = qkv__run_create(j, type, &c);
    if (!status && same)
        status = qkv_model_set_labels(j->model, qkv_model_labels(old),
                                      qkv_model_label_count(old));
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
    const unsigned berts = QKV_CAN_FILL_MASK | QKV_CAN_CLASSIFY_TEXT | QKV_CAN_EMBED_TEXT;
    if (!status && !qkv_model_can(old, berts))
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--init: a BERT, RoBERTa or DistilBERT expected, %s "
                          "holds a %s", j->o.init, qkv_model_type_name(qkv_model_type_of(old)));
    size_t most = status ? 0 : qkv_bert_longest(old);
    if (!status && qkv__run_given(j, "length") && config->positions > most)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--length: at most %zu expected, the positions of "
                           "%s, found %zu", most, j->o.init, config->positions);
    if (!status)
        status = qkv_hub_load_tokenizer(&j->tokenizer, ctx, j->o.init);
    if (!status)
        status = make_like(j, qkv_bert_with_head(old, type), classes, old);
    qkv_model_destroy(old);
    return status;
}
