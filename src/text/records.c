/* records.c - record files: sequences of ids, mapped.
 *
 * A safetensors file: `tokens`, I32, all sequences one after another; `offsets`, I64 (records,
 * fields + 1): field f of record r is tokens[offsets[r, f]] up to before
 * tokens[offsets[r, f + 1]], and a record ends where the next one begins. */
#include "qkv/records.h"

#include <string.h>

#include "io/safetensors_header.h"

enum { MAX_FIELDS = 64 };

struct qkv_records {
    qkv_context *ctx;
    qkv_safetensors *file;
    const int32_t *ids;
    const uint8_t *offsets; /* (count, fields + 1), possibly unaligned */
    size_t fields, count;
};

/* ---- writing --------------------------------------------------------------------------------- */

struct qkv_records_writer {
    qkv_context *ctx;
    qkv__stream out;
    size_t fields, sequences, ids;
    qkv_str offsets;
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
    qkv_str_init(&w->offsets, ctx);
    qkv_status status = qkv__stream_begin(&w->out, ctx, path);
    if (status) {
        qkv_records_abandon(w);
        return status;
    }
    *out = w;
    return QKV_OK;
}

static void add_offset(qkv_records_writer *w)
{
    const int64_t at = (int64_t)w->ids;
    qkv_str_add(&w->offsets, (const char *)&at, sizeof at);
}

qkv_status qkv_records_add(qkv_records_writer *w, const int32_t *ids, size_t n)
{
    if (w->sequences++ % w->fields == 0)
        add_offset(w);
    w->ids += n;
    add_offset(w);
    return w->offsets.failed ? QKV_E_MEMORY : qkv__stream_put(&w->out, ids, n * sizeof *ids);
}

static qkv_status records_take(qkv_records **out, qkv_context *ctx, qkv_safetensors *file,
                               const char *name);

qkv_status qkv_records_finish(qkv_records_writer *w, qkv_records **out)
{
    static const char *const metadata[] = {NULL};
    const size_t shape[2] = {w->sequences / w->fields, w->fields + 1};
    const qkv_safetensors_entry entries[] = {
        {.name = "tokens", .ndim = 1, .shape = &w->ids, .store = QKV_STORE_I32, .raw = ""},
        {.name = "offsets", .ndim = 2, .shape = shape, .store = QKV_STORE_I64,
         .raw = w->offsets.data ? w->offsets.data : ""}};
    qkv_safetensors *file = NULL;
    qkv_status status = QKV_OK;
    if (out)
        *out = NULL;
    if (w->sequences % w->fields)
        status = qkv_fail(w->ctx, QKV_E_ARGUMENT, "%zu sequences do not make records of %zu",
                          w->sequences, w->fields);
    if (!status)
        status = qkv__stream_finish(&w->out, entries, 2, metadata, out ? &file : NULL);
    if (file)
        status = records_take(out, w->ctx, file, w->out.path ? w->out.path : "records");
    qkv_records_abandon(w);
    return status;
}

void qkv_records_abandon(qkv_records_writer *w)
{
    if (!w)
        return;
    qkv__stream_abandon(&w->out);
    qkv_str_free(&w->offsets);
    qkv_free(w->ctx, w);
}

/* ---- reading ------------------------------------------------------------------------------ */

static size_t records_offset(const qkv_records *r, size_t record, size_t field)
{
    int64_t at;
    memcpy(&at, r->offsets + (record * (r->fields + 1) + field) * sizeof at, sizeof at);
    return (size_t)at;
}

/* Do the sequences lie one after another and fill the ids? */
static bool records_offsets_fit(const qkv_records *r, size_t ids)
{
    size_t before = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (records_offset(r, i, 0) != before)
            return false;
        for (size_t f = 1; f <= r->fields; f++) {
            if (records_offset(r, i, f) < before || records_offset(r, i, f) > ids)
                return false;
            before = records_offset(r, i, f);
        }
    }
    return before == ids;
}

static qkv_status records_check(qkv_records *r, const char *name)
{
    const qkv_safetensor *ids, *offsets;
    qkv_status status = qkv__safetensors_expect(r->file, "tokens", QKV_STORE_I32, 1, &ids);
    if (!status)
        status = qkv__safetensors_expect(r->file, "offsets", QKV_STORE_I64, 2, &offsets);
    if (status)
        return status;
    if (offsets->shape[1] < 2 || offsets->shape[1] - 1 > MAX_FIELDS)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: offsets of %zu columns: 2 to %d expected", name,
                        offsets->shape[1], MAX_FIELDS + 1);
    if ((uintptr_t)ids->data % sizeof *r->ids)
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: tokens at a multiple of 4 bytes expected", name);
    r->ids = ids->data;
    r->offsets = offsets->data;
    r->count = offsets->shape[0];
    r->fields = offsets->shape[1] - 1;
    if (!records_offsets_fit(r, ids->count))
        return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: sequences that do not lie one after another",
                        name);
    for (size_t i = 0; i < ids->count; i++)
        if (r->ids[i] < 0)
            return qkv_fail(r->ctx, QKV_E_FORMAT, "%s: id %zu: 0 or more expected, found %d", name,
                            i, (int)r->ids[i]);
    return QKV_OK;
}

/* The file is the records', or closed. */
static qkv_status records_take(qkv_records **out, qkv_context *ctx, qkv_safetensors *file,
                               const char *name)
{
    qkv_records *r = qkv_calloc(ctx, 1, sizeof *r);
    if (!r) {
        qkv_safetensors_close(file);
        return QKV_E_MEMORY;
    }
    r->ctx = ctx;
    r->file = file;
    qkv_status status = records_check(r, name);
    if (status)
        qkv_records_close(r);
    else
        *out = r;
    return status;
}

qkv_status qkv_records_open(qkv_records **out, qkv_context *ctx, const char *path)
{
    qkv_safetensors *file;
    *out = NULL;
    qkv_status status = qkv_safetensors_open(&file, ctx, path);
    return status ? status : records_take(out, ctx, file, path);
}

void qkv_records_close(qkv_records *r)
{
    if (!r)
        return;
    qkv_safetensors_close(r->file);
    qkv_free(r->ctx, r);
}

size_t qkv_records_count(const qkv_records *r) { return r->count; }
size_t qkv_records_fields(const qkv_records *r) { return r->fields; }

size_t qkv_records_get(const qkv_records *r, size_t record, size_t field, const int32_t **ids)
{
    size_t from = records_offset(r, record, field);
    *ids = r->ids + from;
    return records_offset(r, record, field + 1) - from;
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
