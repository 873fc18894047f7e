/* gguf.c - reading GGUF files: all lengths checked, nothing copied but names and an index of
 * texts. */
#include "io/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/safetensors_header.h"

enum { MOST_KEY = 65535, MOST_ALIGNMENT = 1 << 20, DEFAULT_ALIGNMENT = 32 };
enum { LEAST_FIELD = 13, LEAST_TENSOR = 24 }; /* bytes */

struct qkv_gguf {
    qkv_context *ctx;
    char *path;
    qkv__arena *arena;
    qkv__map map;
    size_t at; /* while the header is read: where the next byte is */
    qkv__gguf_field *fields; /* sorted by key once open */
    size_t field_count;
    qkv__gguf_tensor *tensors; /* sorted by name once open */
    size_t count;
};

static const size_t kind_bytes[QKV__GGUF_KINDS] = {
    [QKV__GGUF_U8] = 1,  [QKV__GGUF_I8] = 1,   [QKV__GGUF_U16] = 2, [QKV__GGUF_I16] = 2,
    [QKV__GGUF_U32] = 4, [QKV__GGUF_I32] = 4,  [QKV__GGUF_F32] = 4, [QKV__GGUF_BOOL] = 1,
    [QKV__GGUF_U64] = 8, [QKV__GGUF_I64] = 8,  [QKV__GGUF_F64] = 8};

/* ---- the header's bytes ---------------------------------------------------------------------- */

static qkv_status gguf_bad(const qkv__gguf *g, const char *what)
{
    return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: expected %s, found the end of the file", g->path,
                    what);
}

static size_t gguf_left(const qkv__gguf *g) { return g->map.size - g->at; }

static qkv_status take_u32(qkv__gguf *g, uint32_t *out, const char *what)
{
    if (gguf_left(g) < sizeof *out)
        return gguf_bad(g, what);
    memcpy(out, g->map.data + g->at, sizeof *out);
    g->at += sizeof *out;
    return QKV_OK;
}

static qkv_status take_u64(qkv__gguf *g, uint64_t *out, const char *what)
{
    if (gguf_left(g) < sizeof *out)
        return gguf_bad(g, what);
    memcpy(out, g->map.data + g->at, sizeof *out);
    g->at += sizeof *out;
    return QKV_OK;
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
    if (len == 0 || len > MOST_KEY || memchr(bytes, 0, (size_t)len))
        return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: %s: expected 1 to %d bytes without a 0, found "
                        "%llu", g->path, what, MOST_KEY, (unsigned long long)len);
    char *copy = qkv__arena_alloc(g->arena, (size_t)len + 1);
    if (!copy)
        return QKV_E_MEMORY;
    memcpy(copy, bytes, (size_t)len);
    copy[len] = 0;
    g->at += (size_t)len;
    *out = copy;
    return QKV_OK;
}

/* ---- fields ----------------------------------------------------------------------------------- */

qkv_status qkv__gguf_fail(const qkv__gguf *g, const char *key, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: field \"%.120s\": %s", g->path, key, what);
}

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
    size_t bytes = kind_bytes[f->kind];
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

static int by_key(const void *a, const void *b)
{
    return strcmp(((const qkv__gguf_field *)a)->key, ((const qkv__gguf_field *)b)->key);
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
        qsort(g->fields, g->field_count, sizeof *g->fields, by_key);
    for (size_t i = 1; i < g->field_count; i++)
        if (by_key(&g->fields[i - 1], &g->fields[i]) == 0)
            return qkv__gguf_fail(g, g->fields[i].key, "is there twice");
    return QKV_OK;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

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
    if (t->type && t->type->block)
        return QKV_OK;
    char number[24];
    (void)snprintf(number, sizeof number, "%u", id);
    return qkv_fail(g->ctx, QKV_E_UNSUPPORTED, "%s: tensor \"%.120s\": type %s is not supported",
                    g->path, t->name, t->type ? t->type->name : number);
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

static qkv_status place_tensor(const qkv__gguf *g, qkv__gguf_tensor *t, uint64_t offset,
                               size_t data, size_t alignment)
{
    char what[160];
    size_t bytes;
    if (offset % alignment) {
        (void)snprintf(what, sizeof what, "expected an offset that is a multiple of %zu, found "
                       "%llu", alignment, (unsigned long long)offset);
        return fail_tensor(g, t, what);
    }
    if (!qkv__mul_size(t->count / t->type->block, t->type->bytes, &bytes))
        return fail_tensor(g, t, "its shape is too large");
    if (offset > g->map.size - data || bytes > g->map.size - data - (size_t)offset) {
        (void)snprintf(what, sizeof what, "expected %zu bytes at %llu of the data, found %zu bytes "
                       "in all", bytes, (unsigned long long)offset, g->map.size - data);
        return fail_tensor(g, t, what);
    }
    t->data = g->map.data + data + offset;
    return QKV_OK;
}

static int gguf_by_name(const void *a, const void *b)
{
    return strcmp(((const qkv__gguf_tensor *)a)->name, ((const qkv__gguf_tensor *)b)->name);
}

/* Where the data begins. */
static qkv_status find_data(const qkv__gguf *g, size_t *data, size_t *alignment)
{
    int64_t given = DEFAULT_ALIGNMENT;
    qkv_status status = qkv__gguf_opt_int(g, "general.alignment", 1, MOST_ALIGNMENT, &given);
    if (status)
        return status;
    if (given & (given - 1))
        return qkv__gguf_fail(g, "general.alignment", "expected a power of two, found %lld",
                              (long long)given);
    *alignment = (size_t)given;
    *data = (g->at + *alignment - 1) / *alignment * *alignment;
    if (*data > g->map.size) /* of a file without tensors */
        *data = g->map.size;
    return QKV_OK;
}

static qkv_status take_tensors(qkv__gguf *g, uint64_t count)
{
    size_t data = 0, alignment = 1;
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
        status = find_data(g, &data, &alignment);
    for (size_t i = 0; i < g->count && !status; i++)
        status = place_tensor(g, &g->tensors[i], offsets[i], data, alignment);
    if (status)
        return status;
    if (g->count)
        qsort(g->tensors, g->count, sizeof *g->tensors, gguf_by_name);
    for (size_t i = 1; i < g->count; i++)
        if (gguf_by_name(&g->tensors[i - 1], &g->tensors[i]) == 0)
            return fail_tensor(g, &g->tensors[i], "is there twice");
    return QKV_OK;
}

/* ---- opening ---------------------------------------------------------------------------------- */

static const char magic[] = {'G', 'G', 'U', 'F'};

bool qkv_gguf_is(const char *path)
{
    char start[sizeof magic];
    FILE *f = qkv_dir_exists(path) ? NULL : fopen(path, "rb");
    bool is = f && fread(start, 1, sizeof start, f) == sizeof start &&
              memcmp(start, magic, sizeof magic) == 0;
    if (f)
        (void)fclose(f);
    return is;
}

static qkv_status read_header(qkv__gguf *g)
{
    uint32_t version = 0;
    uint64_t tensors = 0, fields = 0;
    if (g->map.size < sizeof magic || memcmp(g->map.data, magic, sizeof magic) != 0)
        return qkv_fail(g->ctx, QKV_E_FORMAT, "%s: expected a file that begins with GGUF",
                        g->path);
    g->at = sizeof magic;
    qkv_status status = take_u32(g, &version, "a version");
    if (!status && version != 2 && version != 3)
        return qkv_fail(g->ctx, QKV_E_UNSUPPORTED, "%s: expected GGUF of version 2 or 3, found %u%s",
                        g->path, version, version > UINT16_MAX ? " (big-endian?)" : "");
    if (!status)
        status = take_u64(g, &tensors, "the number of tensors");
    if (!status)
        status = take_u64(g, &fields, "the number of fields");
    if (!status)
        status = take_fields(g, fields);
    return status ? status : take_tensors(g, tensors);
}

qkv_status qkv_gguf_open(qkv__gguf **out, qkv_context *ctx, const char *path)
{
    *out = NULL;
    qkv__gguf *g = qkv_calloc(ctx, 1, sizeof *g);
    if (!g)
        return QKV_E_MEMORY;
    g->ctx = ctx;
    g->path = qkv_strdup(ctx, path);
    qkv_status status = g->path ? qkv__arena_create(&g->arena, ctx, "gguf") : QKV_E_MEMORY;
    if (!status)
        status = qkv__map_file(&g->map, ctx, path);
    if (!status)
        status = read_header(g);
    if (status) {
        qkv_gguf_close(g);
        return status;
    }
    *out = g;
    return QKV_OK;
}

void qkv_gguf_close(qkv__gguf *g)
{
    if (!g)
        return;
    qkv__map_close(&g->map);
    if (g->arena)
        qkv__arena_destroy(g->arena);
    qkv_free(g->ctx, g->path);
    qkv_free(g->ctx, g);
}

const char *qkv__gguf_path(const qkv__gguf *g) { return g->path; }
qkv_context *qkv__gguf_context(const qkv__gguf *g) { return g->ctx; }

/* ---- fields of an open file -------------------------------------------------------------------- */

size_t qkv_gguf_fields(const qkv__gguf *g) { return g->field_count; }
const qkv__gguf_field *qkv__gguf_field_at(const qkv__gguf *g, size_t i) { return &g->fields[i]; }

const qkv__gguf_field *qkv__gguf_find(const qkv__gguf *g, const char *key)
{
    const qkv__gguf_field wanted = {.key = key};
    return g->field_count ? bsearch(&wanted, g->fields, g->field_count, sizeof wanted, by_key)
                          : NULL;
}

const char *qkv__gguf_text(const qkv__gguf_field *f, size_t i, size_t *len)
{
    uint64_t bytes;
    memcpy(&bytes, f->texts[i], sizeof bytes);
    *len = (size_t)bytes;
    return (const char *)f->texts[i] + sizeof bytes;
}

static bool is_number(qkv__gguf_kind kind)
{
    return kind != QKV__GGUF_STRING && kind != QKV__GGUF_ARRAY && kind != QKV__GGUF_BOOL;
}

static bool is_fraction(qkv__gguf_kind kind)
{
    return kind == QKV__GGUF_F32 || kind == QKV__GGUF_F64;
}

double qkv__gguf_real(const qkv__gguf_field *f, size_t i)
{
    const uint8_t *p = f->data + i * kind_bytes[f->kind];
    float single;
    double twice;
    if (f->kind == QKV__GGUF_F32) {
        memcpy(&single, p, sizeof single);
        return (double)single;
    }
    if (f->kind != QKV__GGUF_F64)
        return (double)qkv__gguf_int(f, i);
    memcpy(&twice, p, sizeof twice);
    return twice;
}

/* U64 beyond 2^63 - 1 and fractions beyond it become the largest integer. */
int64_t qkv__gguf_int(const qkv__gguf_field *f, size_t i)
{
    size_t bytes = kind_bytes[f->kind];
    uint64_t word = 0, sign = (uint64_t)1 << (8 * bytes - 1);
    int64_t value;
    if (is_fraction(f->kind)) {
        double x = qkv__gguf_real(f, i);
        return x > -9e18 && x < 9e18 ? (int64_t)x : INT64_MAX;
    }
    memcpy(&word, f->data + i * bytes, bytes);
    if (f->kind == QKV__GGUF_I8 || f->kind == QKV__GGUF_I16 || f->kind == QKV__GGUF_I32)
        word = (word ^ sign) - sign;
    if (f->kind == QKV__GGUF_U64 && word > INT64_MAX)
        word = INT64_MAX;
    memcpy(&value, &word, sizeof value);
    return value;
}

qkv_status qkv__gguf_opt_string(const qkv__gguf *g, const char *key, const char **out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    size_t len;
    if (!f)
        return QKV_OK;
    if (f->array || f->kind != QKV__GGUF_STRING)
        return qkv__gguf_fail(g, key, "expected a text");
    const char *text = qkv__gguf_text(f, 0, &len);
    if (memchr(text, 0, len))
        return qkv__gguf_fail(g, key, "expected a text without a 0 byte");
    for (size_t i = 0, n; i < len; i += n) {
        n = qkv__utf8_length((const unsigned char *)text + i, len - i);
        if (!n)
            return qkv__gguf_fail(g, key, "expected UTF-8, found another byte at %zu", i);
    }
    char *copy = qkv__arena_alloc(g->arena, len + 1);
    if (!copy)
        return QKV_E_MEMORY;
    memcpy(copy, text, len);
    copy[len] = 0;
    *out = copy;
    return QKV_OK;
}

qkv_status qkv__gguf_get_string(const qkv__gguf *g, const char *key, const char **out)
{
    return qkv__gguf_find(g, key) ? qkv__gguf_opt_string(g, key, out)
                                  : qkv__gguf_fail(g, key, "is missing");
}

qkv_status qkv__gguf_opt_int(const qkv__gguf *g, const char *key, int64_t min, int64_t max,
                             int64_t *out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    if (!f)
        return QKV_OK;
    if (f->array || !is_number(f->kind) || is_fraction(f->kind))
        return qkv__gguf_fail(g, key, "expected an integer");
    int64_t value = qkv__gguf_int(f, 0);
    if (value < min || value > max)
        return qkv__gguf_fail(g, key, "expected %lld to %lld, found %lld", (long long)min,
                              (long long)max, (long long)value);
    *out = value;
    return QKV_OK;
}

qkv_status qkv__gguf_opt_real(const qkv__gguf *g, const char *key, double *out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    if (!f)
        return QKV_OK;
    if (f->array || !is_number(f->kind))
        return qkv__gguf_fail(g, key, "expected a number");
    *out = qkv__gguf_real(f, 0);
    return QKV_OK;
}

qkv_status qkv__gguf_opt_bool(const qkv__gguf *g, const char *key, bool *out)
{
    const qkv__gguf_field *f = qkv__gguf_find(g, key);
    if (!f)
        return QKV_OK;
    if (f->array || f->kind != QKV__GGUF_BOOL)
        return qkv__gguf_fail(g, key, "expected a truth value");
    *out = f->data[0] != 0;
    return QKV_OK;
}

qkv_status qkv__gguf_opt_strings(const qkv__gguf *g, const char *key, const qkv__gguf_field **out)
{
    *out = qkv__gguf_find(g, key);
    if (*out && (!(*out)->array || (*out)->kind != QKV__GGUF_STRING))
        return qkv__gguf_fail(g, key, "expected an array of texts");
    return QKV_OK;
}

qkv_status qkv__gguf_opt_numbers(const qkv__gguf *g, const char *key, const qkv__gguf_field **out)
{
    *out = qkv__gguf_find(g, key);
    if (*out && (!(*out)->array || !is_number((*out)->kind)))
        return qkv__gguf_fail(g, key, "expected an array of numbers");
    return QKV_OK;
}

/* ---- tensors of an open file -------------------------------------------------------------------- */

size_t qkv_gguf_tensors(const qkv__gguf *g) { return g->count; }
const qkv__gguf_tensor *qkv__gguf_at(const qkv__gguf *g, size_t i) { return &g->tensors[i]; }

const qkv__gguf_tensor *qkv__gguf_tensor_find(const qkv__gguf *g, const char *name)
{
    const qkv__gguf_tensor wanted = {.name = name};
    return g->count ? bsearch(&wanted, g->tensors, g->count, sizeof wanted, gguf_by_name) : NULL;
}

void qkv__gguf_read(const qkv__gguf *g, const qkv__gguf_tensor *t, size_t begin, size_t count,
                    qkv_real *out)
{
    const qkv__gguf_type *type = t->type;
    while (count) {
        size_t block = begin / type->block, inside = begin % type->block, n;
        const uint8_t *in = t->data + block * type->bytes;
        if (inside == 0 && count >= type->block) {
            n = count / type->block * type->block;
            type->decode(out, in, n / type->block);
            qkv__map_drop(&g->map, in, n / type->block * type->bytes);
        } else { /* a part of a block */
            qkv_real whole[QKV__GGUF_MOST_BLOCK];
            n = type->block - inside < count ? type->block - inside : count;
            type->decode(whole, in, 1);
            memcpy(out, whole + inside, n * sizeof *out);
        }
        begin += n;
        count -= n;
        out += n;
    }
}
