/* rerank.c - the log-probability of a line given each of its hypotheses, by a translator of the
 * other direction ("Simple and effective noisy channel modeling", Yee et al. 2019, without the
 * language model). */
#include "infer/rerank.h"

#include <math.h>

#include "model/model.h"
#include "qkv/marian.h"
#include "text/pairs.h"

/* Appends a text's ids and its end; what the model has no positions for is left out. */
static qkv_status rerank_encode(qkv__reranker *r, const char *text, size_t len, unsigned flags)
{
    const qkv_marian_config *c = qkv_model_config(r->reverse->model);
    const size_t begin = r->ids.count, most = c->positions - 1;
    qkv_status status = qkv_tokenizer_encode(r->reverse->tokenizer, text, len, flags, &r->ids);
    if (!status && r->ids.count - begin > most)
        r->ids.count = begin + most;
    for (size_t i = begin; i < r->ids.count && !status; i++)
        if ((size_t)r->ids.data[i] >= c->vocab)
            status = qkv_fail(r->ctx, QKV_E_ARGUMENT, "reverse: token %d is not below the "
                              "model's %zu: tokenizer and model do not belong together",
                              (int)r->ids.data[i], c->vocab);
    return status ? status : qkv_ids_add(&r->ids, r->ctx, c->eos);
}

qkv_status qkv__rerank_begin(qkv__reranker *r, size_t capacity)
{
    const qkv_reverse *x = r->reverse;
    if (!qkv__model_as(x->model, NULL, "qkv_translate", QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    const qkv_marian_config *c = qkv_model_config(x->model);
    if (qkv_model_context(x->model) != r->ctx || !x->tokenizer || !isfinite(x->weight))
        return qkv_fail(r->ctx, QKV_E_ARGUMENT, "reverse: a model of the search's context, its "
                        "tokenizer and a weight that is a number expected");
    if (c->eos < 0 || c->start < 0)
        return qkv_fail(r->ctx, QKV_E_ARGUMENT, "reverse: the model has no token that ends a "
                        "sentence, or none to begin with");
    r->begins = qkv_calloc(r->ctx, capacity, QKV__SIDES * sizeof *r->begins);
    r->log_p = qkv_calloc(r->ctx, capacity, sizeof *r->log_p);
    r->pairs = qkv_calloc(r->ctx, capacity, sizeof *r->pairs);
    return r->begins && r->log_p && r->pairs ? qkv_tape_create(&r->tape, r->ctx) : QKV_E_MEMORY;
}

qkv_status qkv__rerank_add(qkv__reranker *r, const char *line, size_t len,
                           const qkv_translation *found, size_t count)
{
    const size_t target = r->ids.count;
    qkv_status status = rerank_encode(r, line, len, QKV_ENCODE_TARGET);
    const size_t targets = r->ids.count - target;
    for (size_t i = 0; i < count && !status; i++) {
        const qkv_text *text = &found[i].text;
        const size_t source = r->ids.count;
        status = rerank_encode(r, text->data ? text->data : "", text->len, 0);
        r->begins[QKV__SIDES * r->count + QKV__SOURCE] = source;
        r->begins[QKV__SIDES * r->count + QKV__TARGET] = target;
        r->pairs[r->count++] = (qkv_id_pair){.size = {r->ids.count - source, targets}};
    }
    return status;
}

qkv_status qkv__rerank_log_p(qkv__reranker *r, const double **log_p)
{
    for (size_t i = 0; i < QKV__SIDES * r->count; i++)
        r->pairs[i / QKV__SIDES].ids[i % QKV__SIDES] = r->ids.data + r->begins[i];
    qkv_status status = qkv_translate_log_p(r->reverse->model, r->tape, r->pairs, r->count,
                                            r->log_p);
    for (size_t i = 0; i < r->count && !status; i++) {
        r->log_p[i] /= (double)r->pairs[i].size[QKV__TARGET];
        if (!isfinite(r->log_p[i]))
            status = qkv_fail(r->ctx, QKV_E_NUMERIC, "reverse: a log-probability is not a number");
    }
    r->count = r->ids.count = 0;
    *log_p = r->log_p;
    return status;
}

void qkv__rerank_free(qkv__reranker *r)
{
    qkv_tape_destroy(r->tape);
    qkv_ids_free(&r->ids, r->ctx);
    qkv_free(r->ctx, r->begins);
    qkv_free(r->ctx, r->log_p);
    qkv_free(r->ctx, r->pairs);
}

void qkv__rerank_sort(qkv_translation *found, size_t count, const double *log_p, double weight)
{
    for (size_t i = 0; i < count; i++) {
        qkv_translation x = found[i];
        size_t at = i;
        x.score += weight * log_p[i];
        for (; at > 0 && found[at - 1].score < x.score; at--)
            found[at] = found[at - 1];
        found[at] = x;
    }
}
