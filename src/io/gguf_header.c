/* gguf_header.c - the header of a GGUF file: all lengths checked, nothing copied but names and an
 * index of texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "io/gguf_file.h"

enum { MOST_KEY = 65535, MOST_ALIGNMENT = 1 << 20, DEFAULT_ALIGNMENT = 32 };
enum { LEAST_FIELD = 13, LEAST_TENSOR = 24 }; /* bytes */

/* ---- bytes ----------------------------------------------------------------------------------- */

static qkv_status gguf_bad(const qkv__gguf *g, const char *what)
{
    return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: expected %s, found the end of the file", g->path,
                    what);
}

static size_t gguf_left(const qkv__gguf *g) { return g->map.size - g->at; }

/* The next n bytes. */
static qkv_status gguf_take(qkv__gguf *g, void *out, size_t n, const char *what)
{
    if (gguf_left(g) < n)
        return gguf_bad(g, what);
    memcpy(out, g->map.data + g->at, n);
    g->at += n;
    return QKV_OK;
}

static qkv_status take_u32(qkv__gguf *g, uint32_t *out, const char *what)
{
    return gguf_take(g, out, sizeof *out, what);
}

static qkv_status take_u64(qkv__gguf *g, uint64_t *out, const char *what)
{
    return gguf_take(g, out, sizeof *out, what);
}

static bool is_printable_name(const char *s, size_t len)
{
    int32_t cp = ' ';
    for (size_t i = 0; i < len && qkv__gguf_printable(cp);)
        i += qkv__utf8_next(s + i, len - i, &cp);
    return qkv__gguf_printable(cp);
}

/* A key or a tensor's name, ended by a 0. */
static qkv_status take_name(qkv__gguf *g, const char **out, const char *what)
{
    uint64_t len = 0;
    qkv_status status = take_u64(g, &len, what);
    if (status)
        return status;
    if (len > gguf_left(g))
        return gguf_bad(g, what);
    const char *bytes = (const char *)g->map.data + g->at;
    if (len == 0 || len > MOST_KEY)
        return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: %s: expected 1 to %d bytes, found %llu",
                        g->path, what, MOST_KEY, (unsigned long long)len);
    if (!is_printable_name(bytes, (size_t)len))
        return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: %s: expected UTF-8 without control characters, "
                        "found \"%.*s\"", g->path, what, len < 60 ? (int)len : 60, bytes);
    char *copy = qkv__arena_alloc(g->arena, (size_t)len + 1);
    if (!copy)
        return QKV_E_MEMORY;
    memcpy(copy, bytes, (size_t)len);
    copy[len] = 0;
    g->at += (size_t)len;
    *out = copy;
    return QKV_OK;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static qkv_status take_texts(qkv__gguf *g, qkv__gguf_field *f)
{
    if (f->count > gguf_left(g) / sizeof(uint64_t))
        return qkv__gguf_fail(g, f->key, "expected %zu texts, found the end of the file", f->count);
    f->texts = qkv__arena_alloc(g->arena, (f->count + 1) * sizeof *f->texts);
    if (!f->texts)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < f->count; i++) {
        uint64_t len = 0;
        f->texts[i] = g->map.data + g->at;
        qkv_status status = take_u64(g, &len, f->key);
        if (status)
            return status;
        if (len > gguf_left(g))
            return qkv__gguf_fail(g, f->key, "text %zu: expected %llu bytes, found %zu", i,
                                  (unsigned long long)len, gguf_left(g));
        g->at += (size_t)len;
    }
    return QKV_OK;
}

static qkv_status take_values(qkv__gguf *g, qkv__gguf_field *f)
{
    size_t bytes = qkv__gguf_kind_bytes(f->kind);
    if (f->kind == QKV__GGUF_STRING)
        return take_texts(g, f);
    if (f->count > gguf_left(g) / bytes)
        return qkv__gguf_fail(g, f->key, "expected %zu values, found the end of the file",
                              f->count);
    f->data = g->map.data + g->at;
    g->at += f->count * bytes;
    for (size_t i = 0; i < f->count && f->kind == QKV__GGUF_BOOL; i++)
        if (f->data[i] > 1)
            return qkv__gguf_fail(g, f->key, "expected a 0 or 1, found %d", (int)f->data[i]);
    return QKV_OK;
}

static qkv_status take_field(qkv__gguf *g, qkv__gguf_field *f)
{
    uint32_t kind = 0;
    uint64_t count = 1;
    *f = (qkv__gguf_field){0};
    qkv_status status = take_name(g, &f->key, "a field's key");
    if (!status)
        status = take_u32(g, &kind, f->key);
    if (!status && kind == QKV__GGUF_ARRAY) {
        f->array = true;
        status = take_u32(g, &kind, f->key);
        if (!status)
            status = take_u64(g, &count, f->key);
    }
    if (status)
        return status;
    if (kind >= QKV__GGUF_KINDS || kind == QKV__GGUF_ARRAY)
        return qkv__gguf_fail(g, f->key, "expected a kind of value from 0 to %d%s, found %u",
                              QKV__GGUF_KINDS - 1, f->array ? " that is no array" : "", kind);
    if (count > g->map.size)
        return qkv__gguf_fail(g, f->key, "expected %llu values, found the end of the file",
                              (unsigned long long)count);
    f->kind = (qkv__gguf_kind)kind;
    f->count = (size_t)count;
    return take_values(g, f);
}

static qkv_status take_fields(qkv__gguf *g, uint64_t count)
{
    if (count > gguf_left(g) / LEAST_FIELD)
        return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: expected %llu fields, found %zu bytes", g->path,
                        (unsigned long long)count, gguf_left(g));
    g->field_count = (size_t)count;
    g->fields = qkv__arena_alloc(g->arena, (g->field_count + 1) * sizeof *g->fields);
    qkv_status status = g->fields ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < g->field_count && !status; i++)
        status = take_field(g, &g->fields[i]);
    if (status)
        return status;
    if (g->field_count)
        qsort(g->fields, g->field_count, sizeof *g->fields, qkv__gguf_by_key);
    for (size_t i = 1; i < g->field_count; i++)
        if (qkv__gguf_by_key(&g->fields[i - 1], &g->fields[i]) == 0)
            return qkv__gguf_fail(g, g->fields[i].key, "is there twice");
    return QKV_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* What lies behind the header. */
typedef struct {
    const uint8_t *start;
    size_t size, alignment;
} gguf_data;

static qkv_status fail_tensor(const qkv__gguf *g, const qkv__gguf_tensor *t, const char *what)
{
    return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: tensor \"%.120s\": %s", g->path, t->name, what);
}

static qkv_status take_type(qkv__gguf *g, qkv__gguf_tensor *t)
{
    uint32_t id = 0;
    qkv_status status = take_u32(g, &id, t->name);
    if (status)
        return status;
    t->type = qkv__gguf_type_find(id);
    return t->type ? QKV_OK
                   : qkv_fail(g->ctx, QKV_E_UNSUPPORTED, "%s: tensor \"%.120s\": type %u is not "
                              "known", g->path, t->name, id);
}

/* Offsets are kept in *offset until it is known where the data begins. */
static qkv_status take_tensor(qkv__gguf *g, qkv__gguf_tensor *t, uint64_t *offset)
{
    uint32_t ndim = 0;
    char what[120];
    *t = (qkv__gguf_tensor){.count = 1};
    qkv_status status = take_name(g, &t->name, "a tensor's name");
    if (!status)
        status = take_u32(g, &ndim, t->name);
    if (status)
        return status;
    if (ndim < 1 || ndim > QKV__GGUF_DIMS) {
        (void)snprintf(what, sizeof what, "expected 1 to %d axes, found %u", QKV__GGUF_DIMS, ndim);
        return fail_tensor(g, t, what);
    }
    t->ndim = (int)ndim;
    for (size_t i = ndim; i-- > 0;) {
        uint64_t size = 0;
        status = take_u64(g, &size, t->name);
        if (status)
            return status;
        if (size > SIZE_MAX || !qkv__mul_size(t->count, (size_t)size, &t->count))
            return fail_tensor(g, t, "its shape is too large");
        t->shape[i] = (size_t)size;
    }
    status = take_type(g, t);
    if (!status)
        status = take_u64(g, offset, t->name);
    if (!status && t->shape[ndim - 1] % t->type->block) {
        (void)snprintf(what, sizeof what, "type %s: expected rows of a multiple of %zu numbers, "
                       "found %zu", t->type->name, t->type->block, t->shape[ndim - 1]);
        return fail_tensor(g, t, what);
    }
    return status;
}

/* *end: where the data of the tensors before it ends, and then its own. That it does not begin
 * earlier bounds the numbers of a file by its bytes. */
static qkv_status place_tensor(const qkv__gguf *g, qkv__gguf_tensor *t, uint64_t offset,
                               const gguf_data *data, size_t *end)
{
    char what[160];
    size_t bytes;
    if (offset % data->alignment) {
        (void)snprintf(what, sizeof what, "expected an offset that is a multiple of %zu, found "
                       "%llu", data->alignment, (unsigned long long)offset);
        return fail_tensor(g, t, what);
    }
    if (offset < *end) {
        (void)snprintf(what, sizeof what, "expected an offset behind the tensor before it, %zu or "
                       "more, found %llu", *end, (unsigned long long)offset);
        return fail_tensor(g, t, what);
    }
    if (!qkv__mul_size(t->count / t->type->block, t->type->bytes, &bytes))
        return fail_tensor(g, t, "its shape is too large");
    if (offset > data->size || bytes > data->size - (size_t)offset) {
        (void)snprintf(what, sizeof what, "expected %zu bytes at %llu of the data, found %zu bytes "
                       "in all", bytes, (unsigned long long)offset, data->size);
        return fail_tensor(g, t, what);
    }
    *end = (size_t)offset + bytes;
    t->data = data->start + offset;
    return QKV_OK;
}

static qkv_status gguf_find_data(const qkv__gguf *g, gguf_data *out)
{
    int64_t given = DEFAULT_ALIGNMENT;
    qkv_status status = qkv__gguf_opt_int(g, "general.alignment", 1, MOST_ALIGNMENT, &given);
    if (status)
        return status;
    if (given & (given - 1))
        return qkv__gguf_fail(g, "general.alignment", "expected a power of two, found %lld",
                              (long long)given);
    const size_t alignment = (size_t)given;
    size_t at = (g->at + alignment - 1) / alignment * alignment;
    if (at > g->map.size) /* of a file without tensors */
        at = g->map.size;
    *out = (gguf_data){g->map.data + at, g->map.size - at, alignment};
    return QKV_OK;
}

static qkv_status take_tensors(qkv__gguf *g, uint64_t count)
{
    gguf_data data = {0};
    size_t end = 0;
    if (count > gguf_left(g) / LEAST_TENSOR)
        return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: expected %llu tensors, found %zu bytes", g->path,
                        (unsigned long long)count, gguf_left(g));
    g->count = (size_t)count;
    g->tensors = qkv__arena_alloc(g->arena, (g->count + 1) * sizeof *g->tensors);
    uint64_t *offsets = qkv__arena_alloc(g->arena, (g->count + 1) * sizeof *offsets);
    qkv_status status = g->tensors && offsets ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < g->count && !status; i++)
        status = take_tensor(g, &g->tensors[i], &offsets[i]);
    if (!status)
        status = gguf_find_data(g, &data);
    for (size_t i = 0; i < g->count && !status; i++)
        status = place_tensor(g, &g->tensors[i], offsets[i], &data, &end);
    if (status)
        return status;
    if (g->count)
        qsort(g->tensors, g->count, sizeof *g->tensors, qkv__gguf_by_name);
    for (size_t i = 1; i < g->count; i++)
        if (qkv__gguf_by_name(&g->tensors[i - 1], &g->tensors[i]) == 0)
            return fail_tensor(g, &g->tensors[i], "is there twice");
    return QKV_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

qkv_status qkv__gguf_read_header(qkv_gguf *g)
{
    uint32_t version = 0;
    uint64_t tensors = 0, fields = 0;
    if (g->map.size < QKV__GGUF_MAGIC_BYTES ||
        memcmp(g->map.data, QKV__GGUF_MAGIC, QKV__GGUF_MAGIC_BYTES) != 0)
        return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: expected a file that begins with GGUF",
                        g->path);
    g->at = QKV__GGUF_MAGIC_BYTES;
    qkv_status status = take_u32(g, &version, "a version");
    if (!status && version != 2 && version != 3)
        return qkv_fail(g->ctx, QKV_E_UNSUPPORTED,
                        "%s: expected GGUF of version 2 or 3, found %u%s", g->path, version,
                        version > UINT16_MAX ? " (big-endian?)" : "");
    if (!status)
        status = take_u64(g, &tensors, "the number of tensors");
    if (!status)
        status = take_u64(g, &fields, "the number of fields");
    if (!status)
        status = take_fields(g, fields);
    return status ? status : take_tensors(g, tensors);
}
