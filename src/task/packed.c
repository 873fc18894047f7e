/* packed.c - texts one after another, with where each begins. */
#include "task/packed.h"

#include <string.h>

#include "qkv/bert.h"

void qkv__packed_free(qkv__packed *p)
{
    qkv_free(p->ctx, p->ids);
    qkv_free(p->ctx, p->segments);
    qkv_free(p->ctx, p->offsets);
    *p = (qkv__packed){.ctx = p->ctx};
}

void qkv__packed_clear(qkv__packed *p)
{
    p->rows = p->sequences = 0;
    p->failed = false;
}

void qkv__packed_add(qkv__packed *p, const int32_t *ids, size_t n, int32_t segment)
{
    if (p->failed)
        return;
    size_t rows = p->rows + n;
    p->failed = !qkv__grow(p->ctx, &p->ids, &p->row_room, rows, sizeof *p->ids) ||
                !qkv__grow(p->ctx, &p->segments, &p->segment_room, rows, sizeof *p->segments);
    if (p->failed)
        return;
    if (n)
        memcpy(p->ids + p->rows, ids, n * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        p->segments[p->rows + i] = segment;
    p->rows += n;
}

void qkv__packed_end(qkv__packed *p)
{
    if (p->failed)
        return;
    p->failed = !qkv__grow(p->ctx, &p->offsets, &p->sequence_room, p->sequences + 2,
                           sizeof *p->offsets);
    if (p->failed)
        return;
    p->offsets[0] = 0;
    p->offsets[++p->sequences] = (int32_t)p->rows;
}

void qkv__packed_field(qkv__packed *p, const qkv_records *r, size_t record, size_t field)
{
    const int32_t *ids;
    size_t n = qkv_records_get(r, record, field, &ids);
    qkv__packed_add(p, ids, n, 0);
    qkv__packed_end(p);
}

void qkv__packed_record(qkv__packed *p, const qkv_records *r, size_t record, size_t fields)
{
    for (size_t f = 0; f < fields; f++) {
        const int32_t *ids;
        size_t n = qkv_records_get(r, record, f, &ids);
        qkv__packed_add(p, ids, n, (int32_t)f);
    }
    qkv__packed_end(p);
}

qkv_tensor *qkv__packed_hidden(const qkv__packed *p, qkv_model *m, qkv_tape *t)
{
    const size_t shape[] = {1, p->rows};
    if (p->failed)
        return NULL;
    qkv_bert_input in = {.ids = qkv_tensor_ids(t, p->ids, 2, shape),
                         .segments = qkv_tensor_ids(t, p->segments, 2, shape),
                         .sequences = p->sequences, .offsets = p->offsets};
    return qkv_bert_hidden(m, t, &in);
}

/* The fewest and the most ids in the first fields of a record. */
static void find_lengths(const qkv_records *r, size_t fields, size_t *least, size_t *most)
{
    *least = SIZE_MAX;
    *most = 0;
    for (size_t i = 0; i < qkv_records_count(r); i++) {
        size_t n = 0;
        for (size_t f = 0; f < fields; f++) {
            const int32_t *ids;
            n += qkv_records_get(r, i, f, &ids);
        }
        *least = n < *least ? n : *least;
        *most = n > *most ? n : *most;
    }
}

qkv_status qkv__packed_check(const qkv_model *m, const qkv_records *r, size_t fields,
                             const char *what)
{
    qkv_context *ctx = qkv_model_context(m);
    const qkv_bert_config *c = qkv_model_config(m);
    if (qkv_records_count(r) == 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data hold no text", what);
    size_t least, most;
    find_lengths(r, fields, &least, &most);
    if (least == 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have a text of no tokens", what);
    if (most > qkv_bert_longest(m))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have a text of %zu tokens, the model "
                        "only %zu positions", what, most, qkv_bert_longest(m));
    if (fields > c->segments && qkv_records_ids(r, 1))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have pairs of texts, the model only "
                        "%zu kind of segment", what, c->segments);
    for (size_t f = 0; f < fields; f++)
        if (qkv_records_max(r, f) >= (int64_t)c->vocab)
            return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s data have token %d, the model only %zu",
                            what, (int)qkv_records_max(r, f), c->vocab);
    return QKV_OK;
}
