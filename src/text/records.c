/* records.c - record files: sequences of ids, mapped.
 *
 *   the ids, 4 bytes each, all sequences one after another; a pad to a multiple of 8 bytes;
 *   for each sequence 8 bytes, where it ends, in ids; then the last 32 bytes:
 *   offset  size  what
 *        0     8  "qkvrecrd"
 *        8     4  version, 1
 *       12     4  sequences in a record
 *       16     8  how many records
 *       24     8  how many ids
 * All in the order of the machine's bytes: the file belongs to a run on one machine. */
#include "qkv/records.h"

#include <string.h>

#include "io/store.h"

enum { TRAILER = 32, MAX_FIELDS = 64 };
static const qkv__trailer trailer = {
    .kind = "record", .magic = {'q', 'k', 'v', 'r', 'e', 'c', 'r', 'd'}, .version = 1,
    .size = TRAILER};

struct qkv_records {
    qkv_context *ctx;
    qkv__map map;
    const int32_t *ids;
    const uint64_t *ends; /* (count fields) */
    size_t fields, count;
};

/* ---- writing --------------------------------------------------------------------------------- */

struct qkv_records_writer {
    qkv_context *ctx;
    qkv__store store;
    size_t fields, sequences;
    uint64_t ids;
    qkv_str ends;
};

qkv_status qkv_records_create(qkv_records_writer **out, qkv_context *ctx, const char *path,
                              size_t fields)
{
    *out = NULL;
    if (fields < 1 || fields > MAX_FIELDS)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "records of %zu sequences: 1 to %d expected", fields,
                        MAX_FIELDS);
    qkv_records_writer *w = qkv_calloc(ctx, 1, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    w->ctx = ctx;
    w->fields = fields;
    qkv_str_init(&w->ends, ctx);
    qkv_status status = qkv__store_begin(&w->store, ctx, path);
    if (status) {
        qkv_records_abandon(w);
        return status;
    }
    *out = w;
    return QKV_OK;
}

qkv_status qkv_records_add(qkv_records_writer *w, const int32_t *ids, size_t n)
{
    w->ids += n;
    w->sequences++;
    qkv_str_add(&w->ends, (const char *)&w->ids, sizeof w->ids);
    return w->ends.failed ? QKV_E_MEMORY : qkv__store_put(&w->store, ids, n * sizeof *ids);
}

/* All that follows the ids. */
static qkv_status put_end(qkv_records_writer *w)
{
    uint32_t fields = (uint32_t)w->fields;
    uint64_t count = w->sequences / w->fields;
    char h[TRAILER];
    memcpy(h, trailer.magic, sizeof trailer.magic);
    memcpy(h + 8, &trailer.version, 4);
    memcpy(h + 12, &fields, 4);
    memcpy(h + 16, &count, 8);
    memcpy(h + 24, &w->ids, 8);
    qkv_status status = qkv__store_pad(&w->store);
    if (!status)
        status = qkv__store_put(&w->store, w->ends.data, w->ends.len);
    return status ? status : qkv__store_put(&w->store, h, sizeof h);
}

static qkv_status take(qkv_records **out, qkv__map *map, const char *name);

qkv_status qkv_records_finish(qkv_records_writer *w, qkv_records **out)
{
    qkv_status status = QKV_OK;
    if (out)
        *out = NULL;
    if (w->sequences % w->fields)
        status = qkv_fail(w->ctx, QKV_E_ARGUMENT, "%zu sequences do not make records of %zu",
                          w->sequences, w->fields);
    if (!status)
        status = put_end(w);
    qkv__map map;
    if (!status)
        status = qkv__store_finish(&w->store, out ? &map : NULL);
    if (!status && out)
        status = take(out, &map, w->store.path ? w->store.path : "records");
    qkv_records_abandon(w);
    return status;
}

void qkv_records_abandon(qkv_records_writer *w)
{
    if (!w)
        return;
    qkv__store_abandon(&w->store);
    qkv_str_free(&w->ends);
    qkv_free(w->ctx, w);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Do the ends lie in order within the ids? */
static bool ends_rise(const qkv_records *r, uint64_t ids)
{
    uint64_t before = 0;
    for (size_t i = 0; i < r->count * r->fields; i++) {
        if (r->ends[i] < before)
            return false;
        before = r->ends[i];
    }
    return before == ids;
}

static qkv_status read_trailer(qkv_records *r, const char *name)
{
    uint32_t fields;
    uint64_t count, ids;
    const uint8_t *h = qkv__trailer_of(&r->map, &trailer, name), *data = r->map.data;
    if (!h)
        return QKV_E_FORMAT;
    memcpy(&fields, h + 12, 4);
    memcpy(&count, h + 16, 8);
    memcpy(&ids, h + 24, 8);
    uint64_t body = r->map.size - TRAILER;
    if (fields < 1 || fields > MAX_FIELDS || count > body / 8 / fields || ids > body / 4 ||
        (ids + ids % 2) * 4 + count * fields * 8 != body)
        return qkv_fail(r->ctx, QKV_E_FORMAT,
                        "%s: %llu records of %u sequences with %llu ids do not fill %llu bytes",
                        name, (unsigned long long)count, (unsigned)fields,
                        (unsigned long long)ids, (unsigned long long)body);
    r->fields = fields;
    r->count = (size_t)count;
    r->ids = (const int32_t *)(const void *)data;
    r->ends = (const uint64_t *)(const void *)(data + (ids + ids % 2) * 4);
    if (!ends_rise(r, ids))
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: sequences that do not lie one after another",
                        name);
    for (size_t i = 0; i < ids; i++)
        if (r->ids[i] < 0)
            return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: id %zu: 0 or more expected, found %d", name,
                            i, (int)r->ids[i]);
    return QKV_OK;
}

/* The map is the records', or closed. */
static qkv_status take(qkv_records **out, qkv__map *map, const char *name)
{
    qkv_records *r = qkv_calloc(map->ctx, 1, sizeof *r);
    if (!r) {
        qkv__map_close(map);
        return QKV_E_MEMORY;
    }
    r->ctx = map->ctx;
    r->map = *map;
    qkv_status status = read_trailer(r, name);
    if (status)
        qkv_records_close(r);
    else
        *out = r;
    return status;
}

qkv_status qkv_records_open(qkv_records **out, qkv_context *ctx, const char *path)
{
    qkv__map map;
    *out = NULL;
    qkv_status status = qkv__map_open(&map, ctx, path);
    return status ? status : take(out, &map, path);
}

void qkv_records_close(qkv_records *r)
{
    if (!r)
        return;
    qkv__map_close(&r->map);
    qkv_free(r->ctx, r);
}

size_t qkv_records_count(const qkv_records *r) { return r->count; }
size_t qkv_records_fields(const qkv_records *r) { return r->fields; }

size_t qkv_records_get(const qkv_records *r, size_t record, size_t field, const int32_t **ids)
{
    size_t i = record * r->fields + field;
    uint64_t from = i ? r->ends[i - 1] : 0;
    *ids = r->ids + from;
    return (size_t)(r->ends[i] - from);
}

size_t qkv_records_ids(const qkv_records *r, size_t field)
{
    const int32_t *ids;
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++)
        n += qkv_records_get(r, i, field, &ids);
    return n;
}

int32_t qkv_records_max(const qkv_records *r, size_t field)
{
    int32_t max = -1;
    for (size_t i = 0; i < r->count; i++) {
        const int32_t *ids;
        size_t n = qkv_records_get(r, i, field, &ids);
        for (size_t k = 0; k < n; k++)
            max = ids[k] > max ? ids[k] : max;
    }
    return max;
}
