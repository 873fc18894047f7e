/* text.c - looking inside models of text: language models, masked words, classifiers of texts,
 * translators. */
#include "report/patches.h"
#include "report/looking.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qkv/bert.h"
#include "qkv/gpt.h"
#include "qkv/marian.h"
#include "qkv/pipeline_text.h"

enum { ROWS_AT_ONCE = 64 }; /* positions whose logits are in memory together */

static qkv_status no_text(const qkv__looking *l)
{
    return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: a %s model reads text: none was given",
                    l->p->dir, l->out->kind);
}

/* l->ids[axis] of a text, and their axis. */
static qkv_status encode_axis(qkv__looking *l, size_t axis, const char *text, unsigned flags,
                              const char *name, size_t most)
{
    if (!text)
        return no_text(l);
    if (qkv__pipeline_text(l->p))
        return l->p->no_tokenizer_status;
    qkv_status status = qkv_tokenizer_encode(l->p->tokenizer, text, strlen(text), flags,
                                             &l->ids[axis]);
    if (!status && !l->ids[axis].count)
        status = qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: the text has no tokens", l->p->dir);
    if (!status && most && l->ids[axis].count > most)
        status = qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: the text has %zu tokens, the model "
                          "reads %zu", l->p->dir, l->ids[axis].count, most);
    return status ? status : qkv__look_tokens(l, axis, name);
}

qkv_status qkv__look_read_text(qkv__looking *l, size_t most)
{
    return encode_axis(l, 0, l->in->text, QKV_ENCODE_ADD_SPECIAL, "tokens", most);
}

static qkv_tensor *axis_ids(const qkv__looking *l, size_t axis)
{
    return qkv__look_ids(l, axis, 1);
}

static void begin_pass(const qkv__looking *l)
{
    qkv_tape_reset(l->p->tape);
    qkv_tape_mode(l->p->tape, false, false);
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* Logits (rows, V) of rows of hidden (1, T, C). */
typedef qkv_tensor *logits_fn(qkv_model *m, qkv_tape *t, qkv_tensor *rows_of_hidden);

/* The likeliest ids at every position of hidden, as lens layer `layer`. Resets the tape. */
static qkv_status guess_positions(qkv__looking *l, const qkv_real *hidden, size_t layer,
                                  logits_fn *logits)
{
    qkv_tape *t = l->p->tape;
    size_t T = l->out->axes[l->out->predicted].count, k = l->out->top;
    size_t C = l->state_size / sizeof *hidden / T;
    qkv_look_guess *out = l->out->guesses + layer * T * k;
    qkv_status status = QKV_OK;
    qkv_real *p = qkv_calloc(l->p->ctx, ROWS_AT_ONCE * k, sizeof *p);
    int32_t *ids = qkv_calloc(l->p->ctx, ROWS_AT_ONCE * k, sizeof *ids);
    if (!p || !ids)
        status = QKV_E_MEMORY;
    for (size_t row = 0; row < T && !status; row += ROWS_AT_ONCE) {
        size_t n = T - row < ROWS_AT_ONCE ? T - row : ROWS_AT_ONCE;
        begin_pass(l);
        qkv_tensor *x = qkv_tensor_from(t, hidden + row * C, 3, (size_t[]){1, n, C});
        (void)qkv_topk(t, logits(l->p->model, t, x), &(qkv_topk_options){.k = k}, p, ids);
        status = qkv_tape_status(t);
        for (size_t i = 0; i < n * k && !status; i++)
            out[row * k + i] = (qkv_look_guess){ids[i], (float)exp((double)p[i])};
    }
    qkv_free(l->p->ctx, p);
    qkv_free(l->p->ctx, ids);
    return status;
}

/* The stack's output (1, T, width) when the stream behind its last layer is x; NULL on failure. */
typedef qkv_tensor *finish_fn(qkv__looking *l);

/* The predictions of each layer: the stream there, through the final norm and the output layer
 * (nostalgebraist 2020). states[i] is the stream before layer i. */
static qkv_status predict_with(qkv__looking *l, const char *stack, finish_fn *finish,
                               logits_fn *logits)
{
    qkv_context *ctx = l->p->ctx;
    qkv_tape *t = l->p->tape;
    size_t layers = l->state_count, T = l->out->axes[l->out->predicted].count;
    size_t first = l->o.lens || !layers ? 0 : layers - 1;
    qkv_real *hidden = qkv_malloc(ctx, l->state_size + 1);
    qkv_status status = QKV_E_MEMORY;
    if (hidden && layers)
        status = qkv__look_guesses(l, l->out->predicted, layers - first);
    char end[64];
    (void)snprintf(end, sizeof end, "%s.%zu", stack, layers ? layers - 1 : 0);
    for (size_t i = first; i < layers && !status; i++) {
        begin_pass(l);
        size_t shape[] = {1, T, l->state_size / sizeof *hidden / T};
        status = qkv_tape_enter(t, end, qkv_tensor_from(t, l->states[i], 3, shape));
        const qkv_real *y = status ? NULL : qkv_data(t, finish(l));
        if (!status)
            status = qkv_tape_status(t);
        if (y)
            memcpy(hidden, y, l->state_size);
        if (!status)
            status = guess_positions(l, hidden, i - first, logits);
    }
    qkv_free(ctx, hidden);
    return status;
}

/* ---- language models ------------------------------------------------------------------------- */

static qkv_status prepare_lm(qkv__looking *l)
{
    qkv_model *m = l->p->model;
    size_t most = qkv_lm_has_max_positions(m) ? qkv_lm_positions(m) : 0;
    return qkv__look_read_text(l, most);
}

static qkv_tensor *lm_hidden(qkv__looking *l)
{
    return qkv_lm_hidden(l->p->model, l->p->tape, axis_ids(l, 0), 0, NULL, NULL);
}

static qkv_status run_lm(qkv__looking *l)
{
    begin_pass(l);
    (void)lm_hidden(l);
    return qkv_tape_status(l->p->tape);
}

static qkv_status predict_lm(qkv__looking *l, const qkv__look_kind *k)
{
    return predict_with(l, k->predicting, lm_hidden, qkv_lm_logits);
}

const qkv__look_kind qkv__look_lm = {
    .can = QKV_CAN_GENERATE, .final_norm = true, .predicting = "h",
    .attentions = {{"h", "attn", 0, 0, true}}, .prepare = prepare_lm, .run = run_lm,
    .predict = predict_lm, .panels = qkv__look_positions, .patch = &qkv__patch_lm};

/* ---- BERT ------------------------------------------------------------------------------------ */

static size_t bert_positions(const qkv__looking *l)
{
    return qkv_bert_longest(l->p->model);
}

static qkv_status prepare_words(qkv__looking *l)
{
    return qkv__look_read_text(l, bert_positions(l));
}

static qkv_tensor *bert_hidden(qkv__looking *l)
{
    const qkv_bert_input in = {.ids = axis_ids(l, 0)};
    return qkv_bert_hidden(l->p->model, l->p->tape, &in);
}

static qkv_status run_words(qkv__looking *l)
{
    begin_pass(l);
    (void)bert_hidden(l);
    return qkv_tape_status(l->p->tape);
}

static qkv_tensor *word_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden)
{
    int32_t rows[ROWS_AT_ONCE];
    size_t n = hidden ? qkv_dim(hidden, 1) : 0;
    for (size_t i = 0; i < n; i++)
        rows[i] = (int32_t)i;
    return qkv_bert_word_logits(m, t, hidden, qkv_tensor_ids(t, rows, 1, &n));
}

static qkv_status predict_words(qkv__looking *l, const qkv__look_kind *k)
{
    return predict_with(l, k->predicting, bert_hidden, word_logits);
}

const qkv__look_kind qkv__look_words = {
    .can = QKV_CAN_FILL_MASK, .predicting = "layer",
    .attentions = {{"layer", "attn", 0, 0, false}}, .prepare = prepare_words, .run = run_words,
    .predict = predict_words, .panels = qkv__look_positions, .patch = &qkv__patch_words};

static qkv_status prepare_text_classes(qkv__looking *l)
{
    qkv_status status = l->in->text ? qkv__pipeline_text(l->p) : no_text(l);
    const char *second = l->in->second;
    if (!status && second)
        status = qkv_tokenizer_encode_pair(l->p->tokenizer, l->in->text, strlen(l->in->text),
                                           second, strlen(second), QKV_ENCODE_ADD_SPECIAL,
                                           &l->ids[0], &l->ids[1]);
    if (status || !second)
        return status ? status : prepare_words(l);
    if (l->ids[0].count > bert_positions(l))
        return qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: the texts have %zu tokens, the model "
                        "reads %zu", l->p->dir, l->ids[0].count, bert_positions(l));
    return qkv__look_tokens(l, 0, "tokens");
}

static qkv_status run_text_classes(qkv__looking *l)
{
    qkv_tape *t = l->p->tape;
    static const int32_t first[] = {0};
    begin_pass(l);
    qkv_bert_input in = {.ids = axis_ids(l, 0)};
    if (l->ids[1].count)
        in.segments = axis_ids(l, 1);
    qkv_tensor *h = qkv_bert_hidden(l->p->model, t, &in);
    qkv_tensor *y = qkv_bert_class_logits(l->p->model, t, h,
                                          qkv_tensor_ids(t, first, 1, (size_t[]){1}));
    const qkv_real *p = qkv_data(t, qkv_softmax(t, y));
    return p ? qkv__look_classes(l, p, qkv_dim(y, -1)) : qkv_tape_status(t);
}

const qkv__look_kind qkv__look_text_classes = {
    .can = QKV_CAN_CLASSIFY_TEXT, .attentions = {{"layer", "attn", 0, 0, false}},
    .prepare = prepare_text_classes, .run = run_text_classes, .panels = qkv__look_positions,
    .patch = &qkv__patch_text_classes};

/* ---- translators ----------------------------------------------------------------------------- */

static bool take_translation(void *user, size_t line, const qkv_translated *found)
{
    qkv_str *out = user;
    if (!line && found->count)
        qkv_str_add(out, found->best[0].text.data, found->best[0].text.len);
    return false;
}

/* The decoder's input: its first token, then the target without the end. */
static qkv_status prepare_translator(qkv__looking *l)
{
    const qkv_marian_config *c = qkv_model_config(l->p->model);
    qkv_str own;
    qkv_str_init(&own, l->p->ctx);
    qkv_status status = encode_axis(l, 0, l->in->text, QKV_ENCODE_ADD_SPECIAL, "source tokens",
                                    c->positions);
    if (!status && !l->in->second)
        status = qkv_pipeline_translate(l->p, l->in->text, strlen(l->in->text), NULL,
                                        take_translation, &own);
    const char *target = l->in->second ? l->in->second : own.data ? own.data : "";
    qkv_ids *ids = &l->ids[1];
    if (!status)
        status = qkv_ids_add(ids, l->p->ctx, c->start);
    if (!status)
        status = qkv_tokenizer_encode(l->p->tokenizer, target, strlen(target),
                                      QKV_ENCODE_ADD_SPECIAL | QKV_ENCODE_TARGET, ids);
    if (!status && ids->count > 1 && ids->data[ids->count - 1] == c->eos)
        ids->count--;
    if (!status && !l->in->second && !(l->out->target = qkv_strdup(l->p->ctx, target)))
        status = QKV_E_MEMORY;
    if (!status && ids->count > c->positions)
        status = qkv_fail(l->p->ctx, QKV_E_ARGUMENT, "%s: the target has %zu tokens, the model "
                          "reads %zu", l->p->dir, ids->count, c->positions);
    qkv_str_free(&own);
    l->out->predicted = 1;
    return status ? status : qkv__look_tokens(l, 1, "target tokens");
}

static qkv_tensor *translator_hidden(qkv__looking *l)
{
    qkv_tape *t = l->p->tape;
    const qkv_marian_side source = {.ids = axis_ids(l, 0)}, target = {.ids = axis_ids(l, 1)};
    return qkv_marian_decode(l->p->model, t, &target, qkv_marian_encode(l->p->model, t, &source),
                             &source, NULL);
}

static qkv_status run_translator(qkv__looking *l)
{
    begin_pass(l);
    (void)translator_hidden(l);
    return qkv_tape_status(l->p->tape);
}

static qkv_status predict_translator(qkv__looking *l, const qkv__look_kind *k)
{
    return predict_with(l, k->predicting, translator_hidden, qkv_marian_logits);
}

const qkv__look_kind qkv__look_translator = {
    .can = QKV_CAN_TRANSLATE, .predicting = "decoder", .final_norm = true,
    .attentions = {{"encoder", "attn", 0, 0, false}, {"decoder", "attn", 1, 1, true},
                   {"decoder", "cross", 1, 0, false}},
    .prepare = prepare_translator, .run = run_translator, .predict = predict_translator,
    .panels = qkv__look_positions, .patch = &qkv__patch_translator};
