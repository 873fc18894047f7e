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
 * All in the order of the machine's bytes: the file belongs to a run on one machine, and one
 * written in another order has another version. */
#include "qkv/records.h"

#include <string.h>

#include "base/base.h"
#include "io/file.h"

enum { TRAILER = 32, VERSION = 1, MAX_FIELDS = 64 };
static const char magic[8] = {'q', 'k', 'v', 'r', 'e', 'c', 'r', 'd'};

struct qkv_records {
    qkv_context *ctx;
    qkv__map map; /* of the file, or nothing */
    void *owned;  /* what was made in memory, or NULL */
    const int32_t *ids;
    const uint64_t *ends; /* (count fields) */
    size_t fields, count;
};

/* ---- writing --------------------------------------------------------------------------------- */

/* An array that grows. */
typedef struct {
    char *data;
    size_t size, capacity; /* bytes */
} buffer;

struct qkv_records_writer {
    qkv_context *ctx;
    qkv__writer *file; /* NULL: in memory */
    char *path;        /* NULL: in memory */
    size_t fields, sequences;
    uint64_t ids;
    buffer kept, ends; /* ids when in memory */
};

static qkv_status append(qkv_context *ctx, buffer *b, const void *data, size_t size)
{
    if (size > b->capacity - b->size) {
        size_t capacity = 2 * (b->size + size) + 4096;
        char *grown = qkv__malloc(ctx, capacity);
        if (!grown)
            return QKV_E_MEMORY;
        if (b->size)
            memcpy(grown, b->data, b->size);
        qkv__free(ctx, b->data);
        b->data = grown;
        b->capacity = capacity;
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    return QKV_OK;
}

qkv_status qkv_records_create(qkv_records_writer **out, qkv_context *ctx, const char *path,
                              size_t fields)
{
    *out = NULL;
    if (fields < 1 || fields > MAX_FIELDS)
        return qkv__fail(ctx, QKV_E_ARGUMENT, "records of %zu sequences: 1 to %d expected", fields,
                         MAX_FIELDS);
    qkv_records_writer *w = qkv__calloc(ctx, 1, sizeof *w);
    if (!w)
        return QKV_E_MEMORY;
    w->ctx = ctx;
    w->fields = fields;
    qkv_status status = QKV_OK;
    if (path) {
        w->path = qkv__malloc(ctx, strlen(path) + 1);
        status = w->path ? qkv__writer_open(&w->file, ctx, path) : QKV_E_MEMORY;
    }
    if (status) {
        qkv_records_abandon(w);
        return status;
    }
    if (path)
        memcpy(w->path, path, strlen(path) + 1);
    *out = w;
    return QKV_OK;
}

static qkv_status put(qkv_records_writer *w, const void *data, size_t size)
{
    return w->file ? qkv__writer_put(w->file, data, size) : append(w->ctx, &w->kept, data, size);
}

qkv_status qkv_records_add(qkv_records_writer *w, const int32_t *ids, size_t n)
{
    w->ids += n;
    w->sequences++;
    qkv_status status = put(w, ids, n * sizeof *ids);
    return status ? status : append(w->ctx, &w->ends, &w->ids, sizeof w->ids);
}

/* All that follows the ids. */
static qkv_status put_end(qkv_records_writer *w)
{
    static const char pad[8] = {0};
    uint32_t version = VERSION, fields = (uint32_t)w->fields;
    uint64_t count = w->sequences / w->fields;
    char h[TRAILER];
    memcpy(h, magic, sizeof magic);
    memcpy(h + 8, &version, 4);
    memcpy(h + 12, &fields, 4);
    memcpy(h + 16, &count, 8);
    memcpy(h + 24, &w->ids, 8);
    qkv_status status = put(w, pad, w->ids % 2 * 4);
    if (!status)
        status = put(w, w->ends.data, w->ends.size);
    return status ? status : put(w, h, sizeof h);
}

static qkv_status read_trailer(qkv_records *r, const uint8_t *data, size_t size, const char *name);

/* Takes what was kept in memory. */
static qkv_status adopt(qkv_records_writer *w, qkv_records **out)
{
    qkv_records *r = qkv__calloc(w->ctx, 1, sizeof *r);
    if (!r)
        return QKV_E_MEMORY;
    r->ctx = w->ctx;
    r->owned = w->kept.data;
    w->kept.data = NULL;
    qkv_status status = read_trailer(r, r->owned, w->kept.size, "records");
    if (status)
        qkv_records_close(r);
    else
        *out = r;
    return status;
}

qkv_status qkv_records_finish(qkv_records_writer *w, qkv_records **out)
{
    qkv_status status = QKV_OK;
    if (out)
        *out = NULL;
    if (w->sequences % w->fields)
        status = qkv__fail(w->ctx, QKV_E_ARGUMENT, "%zu sequences do not make records of %zu",
                           w->sequences, w->fields);
    if (!status)
        status = put_end(w);
    if (!status && w->file) {
        qkv__writer *file = w->file;
        w->file = NULL;
        status = qkv__writer_close(file);
        if (!status && out)
            status = qkv_records_open(out, w->ctx, w->path);
    } else if (!status && out) {
        status = adopt(w, out);
    }
    qkv_records_abandon(w);
    return status;
}

void qkv_records_abandon(qkv_records_writer *w)
{
    if (!w)
        return;
    qkv__writer_abandon(w->file);
    qkv__free(w->ctx, w->path);
    qkv__free(w->ctx, w->kept.data);
    qkv__free(w->ctx, w->ends.data);
    qkv__free(w->ctx, w);
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

static qkv_status read_trailer(qkv_records *r, const uint8_t *data, size_t size, const char *name)
{
    uint32_t version, fields;
    uint64_t count, ids;
    if (size < TRAILER || memcmp(data + size - TRAILER, magic, sizeof magic))
        return qkv__fail(r->ctx, QKV_E_FORMAT, "%s: not a qkv record file, or cut short", name);
    const uint8_t *h = data + size - TRAILER;
    memcpy(&version, h + 8, 4);
    memcpy(&fields, h + 12, 4);
    memcpy(&count, h + 16, 8);
    memcpy(&ids, h + 24, 8);
    if (version != VERSION)
        return qkv__fail(r->ctx, QKV_E_FORMAT, "%s: version %d expected, %u found", name, VERSION,
                         (unsigned)version);
    uint64_t body = size - TRAILER;
    if (fields < 1 || fields > MAX_FIELDS || count > body / 8 / fields || ids > body / 4 ||
        (ids + ids % 2) * 4 + count * fields * 8 != body)
        return qkv__fail(r->ctx, QKV_E_FORMAT,
                         "%s: %llu records of %u sequences with %llu ids do not fill %llu bytes",
                         name, (unsigned long long)count, (unsigned)fields,
                         (unsigned long long)ids, (unsigned long long)body);
    r->fields = fields;
    r->count = (size_t)count;
    r->ids = (const int32_t *)(const void *)data;
    r->ends = (const uint64_t *)(const void *)(data + (ids + ids % 2) * 4);
    if (!ends_rise(r, ids))
        return qkv__fail(r->ctx, QKV_E_FORMAT, "%s: sequences that do not lie one after another",
                         name);
    return QKV_OK;
}

qkv_status qkv_records_open(qkv_records **out, qkv_context *ctx, const char *path)
{
    *out = NULL;
    qkv_records *r = qkv__calloc(ctx, 1, sizeof *r);
    if (!r)
        return QKV_E_MEMORY;
    r->ctx = ctx;
    qkv_status status = qkv__map_open(&r->map, ctx, path);
    if (!status)
        status = read_trailer(r, r->map.data, r->map.size, path);
    if (status) {
        qkv_records_close(r);
        return status;
    }
    *out = r;
    return QKV_OK;
}

void qkv_records_close(qkv_records *r)
{
    if (!r)
        return;
    qkv__map_close(&r->map);
    qkv__free(r->ctx, r->owned);
    qkv__free(r->ctx, r);
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
