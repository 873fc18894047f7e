/* packed_batches.c - records in a shuffled order, cut into packs of about equal size. */
#include <string.h>

#include "base/base.h"
#include "qkv/records.h"
#include "qkv/tokens.h"

struct qkv_packed_batches {
    qkv_context *ctx;
    const qkv_records *records;
    size_t n, budget; /* records in an epoch; ids in a pack */
    uint64_t seed;
    /* The epoch that was asked for last. */
    uint64_t epoch, order;  /* order: the key of its shuffle */
    uint64_t first;         /* number of its first pack */
    size_t count;           /* of its packs */
    size_t *begins;         /* (count + 1 of n + 1): places in the order where packs begin */
    uint64_t *members;      /* (n): the last pack that was asked for */
    size_t first_count;     /* of the first epoch's packs */
};

static size_t record_size(const qkv_packed_batches *p, uint64_t record)
{
    const int32_t *ids;
    size_t size = 0;
    for (size_t f = 0; f < qkv_records_fields(p->records); f++)
        size += qkv_records_get(p->records, (size_t)record, f, &ids);
    return size;
}

static void cut_epoch(qkv_packed_batches *p, uint64_t epoch, uint64_t first)
{
    qkv_rng r;
    qkv_rng_init(&r, p->seed, qkv_hash64("packs", 5) + epoch);
    p->order = ((uint64_t)qkv_rng_u32(&r) << 32) | qkv_rng_u32(&r);
    p->epoch = epoch;
    p->first = first;
    p->count = 0;
    p->begins[0] = 0;
    size_t filled = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t size = record_size(p, qkv_shuffled(i, p->n, p->order));
        if (i > p->begins[p->count] && filled + size > p->budget) {
            p->begins[++p->count] = i;
            filled = 0;
        }
        filled += size;
    }
    p->begins[++p->count] = p->n;
}

qkv_status qkv_packed_batches_create(qkv_packed_batches **out, qkv_context *ctx,
                                     const qkv_records *records, size_t budget, uint64_t seed)
{
    *out = NULL;
    size_t n = qkv_records_count(records);
    if (!n)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "there are no records to pack");
    qkv_packed_batches *p = qkv_calloc(ctx, 1, sizeof *p);
    if (!p)
        return QKV_E_MEMORY;
    *p = (qkv_packed_batches){.ctx = ctx, .records = records, .n = n, .budget = budget,
                               .seed = seed};
    p->begins = qkv_calloc(ctx, n + 1, sizeof *p->begins);
    p->members = qkv_calloc(ctx, n, sizeof *p->members);
    if (!p->begins || !p->members) {
        qkv_packed_batches_destroy(p);
        return QKV_E_MEMORY;
    }
    cut_epoch(p, 0, 0);
    p->first_count = p->count;
    *out = p;
    return QKV_OK;
}

void qkv_packed_batches_destroy(qkv_packed_batches *p)
{
    if (!p)
        return;
    qkv_free(p->ctx, p->begins);
    qkv_free(p->ctx, p->members);
    qkv_free(p->ctx, p);
}

size_t qkv_packed_batches_get(qkv_packed_batches *p, uint64_t pack, const uint64_t **records)
{
    if (pack < p->first)
        cut_epoch(p, 0, 0);
    while (pack - p->first >= p->count)
        cut_epoch(p, p->epoch + 1, p->first + p->count);
    size_t from = p->begins[pack - p->first], n = p->begins[pack - p->first + 1] - from;
    for (size_t i = 0; i < n; i++)
        p->members[i] = qkv_shuffled(from + i, p->n, p->order);
    *records = p->members;
    return n;
}

size_t qkv_packed_batches_per_epoch(const qkv_packed_batches *p) { return p->first_count; }
