/* translate.c - lines of text through a beam search: cut into tokens, sorted by length, searched
 * batch by batch, put together again and handed back in their order. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dist/dist.h"
#include "infer/beam.h"
#include "infer/rerank.h"
#include "qkv/marian.h"
#include "qkv/infer.h"

/* Source tokens of a batch: memory goes with them, and speed gains nothing beyond. */
enum { BATCH_TOKENS = 4096 };

typedef struct {
    const char *text; /* (len) */
    size_t len;
    size_t index, first, count; /* of the text; its ids, the end among them; 0: nothing to search */
    bool cut;
} line;

typedef struct {
    qkv_context *ctx;
    qkv_beam_search *search;
    qkv_tokenizer *tokenizer;
    qkv_translate_text_options o;
    const qkv_marian_config *config;
    qkv_ids ids;      /* of all lines */
    line *lines;      /* (count), longest first when searched */
    size_t count, done;
    qkv_ids batch;    /* ids of those searched together */
    int32_t *offsets; /* (o.batch + 1) */
    size_t keep;      /* hypotheses kept of a line: n_best, or all where they are rescored */
    qkv_translation *found; /* (count, keep) by index */
    size_t *answers;  /* (count) by index: how many were found */
    qkv__reranker reranker;
    qkv_str packed;   /* of several ranks: what this one found */
} job;

qkv_translate_text_options qkv_translate_text_defaults(void)
{
    return (qkv_translate_text_options){.batch = 64, .n_best = 1, .first_line = 1};
}

/* ---- lines to ids ------------------------------------------------------------------------- */

static size_t translate_count_lines(const char *text, size_t len)
{
    size_t n = len && text[len - 1] != '\n';
    for (const char *at = text; at && (at = memchr(at, '\n', len - (size_t)(at - text))); at++)
        n++;
    return n;
}

static qkv_status translate_encode(job *j, line *l, const char *text, size_t len)
{
    size_t most = j->config->positions;
    l->first = j->ids.count;
    qkv_status status = qkv_tokenizer_encode(j->tokenizer, text, len, 0, &j->ids);
    if (status)
        return qkv_fail(j->ctx, status, "line %zu: %s", l->index + j->o.first_line,
                        qkv_context_message(j->ctx));
    if (j->ids.count == l->first)
        return QKV_OK;
    l->cut = j->ids.count - l->first + 1 > most;
    if (l->cut)
        j->ids.count = l->first + most - 1;
    for (size_t i = l->first; i < j->ids.count; i++)
        if ((size_t)j->ids.data[i] >= j->config->vocab)
            return qkv_fail(j->ctx, QKV_E_ARGUMENT, "line %zu: token %d is not below the model's "
                            "%zu: tokenizer and model do not belong together",
                            l->index + j->o.first_line, (int)j->ids.data[i], j->config->vocab);
    status = qkv_ids_add(&j->ids, j->ctx, j->config->eos);
    l->count = j->ids.count - l->first;
    return status;
}

static qkv_status translate_read_lines(job *j, const char *text, size_t len)
{
    qkv_status status = QKV_OK;
    const char *at = text, *end = text + len;
    for (size_t i = 0; i < j->count && !status; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((newline ? newline : end) - at);
        j->lines[i] = (line){.text = at, .len = bytes, .index = i};
        status = translate_encode(j, &j->lines[i], at, bytes);
        at += bytes + 1;
    }
    return status;
}

static int longest_first(const void *a, const void *b)
{
    const line *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->index > y->index ? 1 : -1;
}

/* ---- searching ------------------------------------------------------------------------------ */

/* Lines first .. that are searched together. */
static size_t batch_size(const job *j, size_t first)
{
    size_t longest = j->lines[first].count, n = longest ? BATCH_TOKENS / longest : 1;
    n = n < 1 ? 1 : n < j->o.batch ? n : j->o.batch;
    size_t end = first;
    while (end < j->count && end - first < n && j->lines[end].count)
        end++;
    return end - first;
}

static qkv_status put_together(job *j, const line *l, size_t place)
{
    qkv_status status = QKV_OK;
    size_t rank = 0;
    for (; rank < j->keep && !status; rank++) {
        const qkv_hypothesis *h = qkv_beam_search_found(j->search, place, rank);
        qkv_translation *to = &j->found[l->index * j->keep + rank];
        if (!h)
            break;
        to->score = h->score;
        status = qkv_tokenizer_decode(j->tokenizer, h->ids, h->count,
                                      QKV_DECODE_SKIP_SPECIAL | QKV_DECODE_VALID, &to->text);
    }
    j->answers[l->index] = rank;
    return status;
}

/* Keeps the best of all that was found of these lines, by the sums of both directions. */
static qkv_status rerank_lines(job *j, size_t first, size_t n)
{
    qkv_status status = QKV_OK;
    for (size_t i = first; i < first + n && !status; i++) {
        const line *l = &j->lines[i];
        status = qkv__rerank_add(&j->reranker, l->text, l->len, j->found + l->index * j->keep,
                                 j->answers[l->index]);
    }
    const double *log_p = NULL;
    if (!status)
        status = qkv__rerank_log_p(&j->reranker, &log_p);
    for (size_t i = first; i < first + n && !status; i++) {
        size_t index = j->lines[i].index, *count = &j->answers[index];
        qkv__rerank_sort(j->found + index * j->keep, *count, log_p, j->o.reverse.weight);
        log_p += *count;
        *count = *count < j->o.n_best ? *count : j->o.n_best;
    }
    return status;
}

static qkv_status translate_search(job *j, size_t first, size_t n)
{
    qkv_status status = QKV_OK;
    j->batch.count = 0;
    j->offsets[0] = 0;
    for (size_t i = 0; i < n && !status; i++) {
        const line *l = &j->lines[first + i];
        for (size_t k = 0; k < l->count && !status; k++)
            status = qkv_ids_add(&j->batch, j->ctx, j->ids.data[l->first + k]);
        j->offsets[i + 1] = (int32_t)j->batch.count;
    }
    if (!status)
        status = qkv_beam_search_run(j->search, j->batch.data, j->offsets, n);
    for (size_t i = 0; i < n && !status; i++)
        status = put_together(j, &j->lines[first + i], i);
    if (!status && j->o.reverse.model)
        status = rerank_lines(j, first, n);
    return status;
}

static qkv_status infer_translate_report(job *j, size_t lines)
{
    j->done += lines;
    if (!j->o.progress || j->o.progress(j->o.user, j->done))
        return QKV_OK;
    return qkv_fail(j->ctx, QKV_E_CANCELLED, "stopped after %zu of %zu lines", j->done, j->count);
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* What is found of a batch: of each line its index, the number of answers, and of each answer the
 * score, the bytes and the text. */
static void pack_batch(job *j, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        size_t index = j->lines[i].index;
        const qkv_translation *best = j->found + index * j->keep;
        qkv_str_add(&j->packed, (const char *)&index, sizeof index);
        qkv_str_add(&j->packed, (const char *)&j->answers[index], sizeof index);
        for (size_t k = 0; k < j->answers[index]; k++) {
            qkv_str_add(&j->packed, (const char *)&best[k].score, sizeof best[k].score);
            qkv_str_add(&j->packed, (const char *)&best[k].text.len, sizeof best[k].text.len);
            qkv_str_add(&j->packed, best[k].text.data ? best[k].text.data : "", best[k].text.len);
        }
    }
}

static const char *take(void *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return from + bytes;
}

static qkv_status unpack(job *j, const char *at, size_t bytes)
{
    const char *end = at + bytes;
    bool fine = true;
    while (at < end && fine) {
        size_t index, len;
        at = take(&index, at, sizeof index);
        at = take(&j->answers[index], at, sizeof index);
        qkv_translation *best = j->found + index * j->keep;
        for (size_t k = 0; k < j->answers[index] && fine; k++) {
            at = take(&best[k].score, at, sizeof best[k].score);
            at = take(&len, at, sizeof len);
            best[k].text.len = 0; /* where it is this rank's own */
            fine = qkv__text_add(j->ctx, &best[k].text, at, len);
            at += len;
        }
    }
    return fine ? QKV_OK : QKV_E_MEMORY;
}

/* All ranks get what each has found. status: of the search; every rank fails if one does. */
static qkv_status share_found(job *j, qkv_status status)
{
    void *all = NULL;
    size_t total = 0;
    if (qkv_dist_size(j->ctx) == 1)
        return status;
    if (!status && j->packed.failed)
        status = QKV_E_MEMORY;
    status = qkv__dist_agree(j->ctx, status);
    if (!status)
        status = qkv__dist_concat(j->ctx, j->packed.data, j->packed.len, &all, &total);
    if (!status)
        status = unpack(j, all, total);
    qkv_free(j->ctx, all);
    return status;
}

static qkv_status search_all(job *j)
{
    size_t first = 0, rank = 0;
    qkv_status status = QKV_OK;
    qsort(j->lines, j->count, sizeof *j->lines, longest_first);
    while (first < j->count && j->lines[first].count && !status) {
        size_t n = batch_size(j, first);
        status = qkv__beam_search_deal(j->search, &rank);
        if (!status && rank == (size_t)qkv_dist_rank(j->ctx)) {
            status = translate_search(j, first, n);
            if (!status && qkv_dist_size(j->ctx) > 1)
                pack_batch(j, first, n);
        }
        if (!status)
            status = infer_translate_report(j, n);
        first += n;
    }
    status = share_found(j, status);
    for (; first < j->count && !status; first++) /* empty lines come last */
        j->answers[j->lines[first].index] = 1;
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int by_index(const void *a, const void *b)
{
    return ((const line *)a)->index > ((const line *)b)->index ? 1 : -1;
}

static qkv_status translate_set_up(job *j, const char *text, size_t len)
{
    j->count = translate_count_lines(text, len);
    j->lines = qkv_calloc(j->ctx, j->count + 1, sizeof *j->lines);
    j->answers = qkv_calloc(j->ctx, j->count + 1, sizeof *j->answers);
    j->found = qkv_calloc(j->ctx, j->count + 1, j->keep * sizeof *j->found);
    j->offsets = qkv_calloc(j->ctx, j->o.batch + 1, sizeof *j->offsets);
    if (!j->lines || !j->answers || !j->found || !j->offsets)
        return QKV_E_MEMORY;
    if (j->config->eos < 0)
        return qkv_fail(j->ctx, QKV_E_ARGUMENT, "the model has no token that ends a sentence");
    qkv_status status = QKV_OK;
    if (j->o.reverse.model)
        status = qkv__rerank_begin(&j->reranker, j->o.batch * j->keep);
    return status ? status : translate_read_lines(j, text, len);
}

static void translate_clean_up(job *j)
{
    for (size_t i = 0; j->found && i < j->count * j->keep; i++)
        qkv_text_free(&j->found[i].text, j->ctx);
    qkv__rerank_free(&j->reranker);
    qkv_str_free(&j->packed);
    qkv_ids_free(&j->ids, j->ctx);
    qkv_ids_free(&j->batch, j->ctx);
    qkv_free(j->ctx, j->lines);
    qkv_free(j->ctx, j->answers);
    qkv_free(j->ctx, j->found);
    qkv_free(j->ctx, j->offsets);
}

qkv_status qkv_translate(qkv_beam_search *s, qkv_tokenizer *t, const char *text, size_t len,
                         const qkv_translate_text_options *options, qkv_translated_fn *fn,
                         void *user)
{
    qkv_model *m = qkv_beam_search_model(s);
    job j = {.ctx = qkv_model_context(m), .search = s, .tokenizer = t,
             .o = options ? *options : qkv_translate_text_defaults(),
             .config = qkv_model_config(m)};
    if (!j.o.batch || !j.o.n_best)
        return qkv_fail(j.ctx, QKV_E_ARGUMENT, "batches of %zu lines, %zu answers a line: neither "
                        "may be 0", j.o.batch, j.o.n_best);
    j.keep = j.o.reverse.model ? qkv__beam_search_beams(s) : j.o.n_best;
    j.reranker = (qkv__reranker){.ctx = j.ctx, .reverse = &j.o.reverse};
    qkv_str_init(&j.packed, j.ctx);
    qkv_status status = translate_set_up(&j, text, len);
    if (!status)
        status = search_all(&j);
    if (!status && j.count)
        qsort(j.lines, j.count, sizeof *j.lines, by_index);
    for (size_t i = 0; i < j.count && !status; i++)
        fn(user, i, &(qkv_translated){j.found + i * j.keep, j.answers[i], j.lines[i].cut});
    translate_clean_up(&j);
    return status;
}
