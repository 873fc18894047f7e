/* words.c - BERT at work: hidden words, classes of texts. */
#include "infer/read_texts.h"
#include "model/model.h"
#include "qkv/bert.h"
#include "qkv/infer.h"
#include "tensor/make.h"

/* ---- hidden words -------------------------------------------------------------------------- */

/* The k greatest of p (V), by insertion: k is small. */
static void words_find_best(const qkv_real *p, size_t V, size_t k, qkv_guess *best)
{
    size_t found = 0;
    for (size_t i = 0; i < V; i++) {
        if (found == k && !((double)p[i] > best[k - 1].prob))
            continue;
        size_t at = found < k ? found++ : k - 1;
        for (; at > 0 && best[at - 1].prob < (double)p[i]; at--)
            best[at] = best[at - 1];
        best[at] = (qkv_guess){(int32_t)i, (double)p[i]};
    }
}

static qkv_status check_ids(qkv_model *m, const int32_t *ids, size_t n, size_t k)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_bert_config *c = qkv_model_config(m);
    if (n > qkv_bert_longest(m))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the text has %zu tokens, the model only %zu "
                        "positions", n, qkv_bert_longest(m));
    if (k < 1 || k > c->vocab)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the best %zu tokens: 1 to %zu expected", k,
                        c->vocab);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= c->vocab)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the text has token %d, the model only %zu",
                            (int)ids[i], c->vocab);
    return QKV_OK;
}

static qkv_status words_guess(qkv_model *m, qkv_tape *t, qkv__packed *p, const int32_t *rows,
                              size_t n, size_t k, qkv_guess *out)
{
    size_t V = ((const qkv_bert_config *)qkv_model_config(m))->vocab;
    qkv_tape_mode(t, false, false);
    qkv_tensor *h = qkv__packed_hidden(p, m, t);
    qkv_tensor *y = qkv_bert_word_logits(m, t, h, qkv_tensor_ids(t, rows, 1, &n));
    const qkv_real *probs = qkv_data(t, qkv_softmax(t, y));
    for (size_t i = 0; i < n && probs; i++)
        words_find_best(probs + i * V, V, k, out + i * k);
    return p->failed ? QKV_E_MEMORY : qkv_tape_status(t);
}

qkv_status qkv_fill(qkv_model *m, const int32_t *ids, size_t n, int32_t mask, size_t k,
                    qkv_guess *out)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_FILL_MASK))
        return QKV_E_ARGUMENT;
    qkv_context *ctx = qkv_model_context(m);
    qkv_status status = check_ids(m, ids, n, k);
    if (status)
        return status;
    qkv_tape *t = NULL;
    qkv__packed p = {.ctx = ctx};
    size_t masks = 0;
    int32_t *rows = qkv_malloc(ctx, n * sizeof *rows);
    status = rows ? qkv_tape_create(&t, ctx) : QKV_E_MEMORY;
    for (size_t i = 0; i < n && !status; i++)
        if (ids[i] == mask)
            rows[masks++] = (int32_t)i;
    qkv__packed_add(&p, ids, n, 0);
    qkv__packed_end(&p);
    if (!status && masks)
        status = words_guess(m, t, &p, rows, masks, k, out);
    qkv_tape_destroy(t);
    qkv__packed_free(&p);
    qkv_free(ctx, rows);
    return status;
}

/* ---- classes ------------------------------------------------------------------------------- */

/* Probabilities of the texts in p, which is emptied. */
static qkv_status classify_batch(qkv__packed *p, qkv_model *m, qkv_tape *t, qkv_real *probs)
{
    size_t classes = ((const qkv_bert_config *)qkv_model_config(m))->classes;
    size_t n = p->sequences;
    if (p->failed)
        return QKV_E_MEMORY;
    qkv__begin_inference(t);
    qkv_tensor *h = qkv__packed_hidden(p, m, t);
    qkv_tensor *y = qkv_bert_class_logits(m, t, h, qkv_tensor_ids(t, p->offsets, 1, &n));
    const qkv_real *from = qkv_data(t, qkv_softmax(t, y));
    for (size_t i = 0; i < n * classes && from; i++)
        probs[i] = from[i];
    qkv__packed_clear(p);
    return qkv_tape_status(t);
}

qkv_status qkv_classify(qkv_model *m, qkv_tokenizer *t, const qkv_text_pair *texts, size_t count,
                        qkv_real *probs, size_t *cut)
{
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_CLASSIFY_TEXT))
        return QKV_E_ARGUMENT;
    const qkv_bert_config *c = qkv_model_config(m);
    const qkv__text_reader r = {.model = m, .tokenizer = t, .vocab = c->vocab,
                                .length = qkv_bert_longest(m), .width = c->classes,
                                .read = classify_batch};
    return qkv__read_texts(&r, texts, count, probs, cut);
}
