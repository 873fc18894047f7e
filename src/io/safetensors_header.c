/* safetensors_header.c - one file: the checks of the reference reader, in its order, and two more:
 * the header begins with '{', and names are not repeated.
 *
 * A file is u64 header length N, N bytes of JSON, data to the end. Every byte of the data
 * belongs to exactly one tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/safetensors_header.h"

/* The format's types: how many bits, and what they are here. */
static const struct {
    const char *name;
    size_t bits;
    qkv_store store;
} dtypes[] = {
    {"BOOL", 8, QKV_STORE_BOOL},    {"F4", 4, QKV_STORE_OTHER},
    {"F6_E2M3", 6, QKV_STORE_OTHER}, {"F6_E3M2", 6, QKV_STORE_OTHER},
    {"U8", 8, QKV_STORE_U8},        {"I8", 8, QKV_STORE_I8},
    {"F8_E5M2", 8, QKV_STORE_OTHER}, {"F8_E4M3", 8, QKV_STORE_OTHER},
    {"F8_E8M0", 8, QKV_STORE_OTHER}, {"F8_E4M3FNUZ", 8, QKV_STORE_OTHER},
    {"F8_E5M2FNUZ", 8, QKV_STORE_OTHER}, {"I16", 16, QKV_STORE_I16},
    {"U16", 16, QKV_STORE_U16},     {"F16", 16, QKV_STORE_F16},
    {"BF16", 16, QKV_STORE_BF16},   {"I32", 32, QKV_STORE_I32},
    {"U32", 32, QKV_STORE_U32},     {"F32", 32, QKV_STORE_F32},
    {"C64", 64, QKV_STORE_OTHER},   {"F64", 64, QKV_STORE_F64},
    {"I64", 64, QKV_STORE_I64},     {"U64", 64, QKV_STORE_U64},
};

bool qkv__file_shape_count(int ndim, const size_t *shape, size_t *count)
{
    size_t n = 1;
    for (int i = 0; i < ndim; i++)
        if (!qkv__mul_size(n, shape[i], &n))
            return false;
    *count = n;
    return true;
}

void qkv__file_shape_text(char *out, size_t size, int ndim, const size_t *shape)
{
    size_t used = (size_t)snprintf(out, size, "(");
    for (int i = 0; i < ndim && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%zu", i ? ", " : "", shape[i]);
    if (used < size)
        (void)snprintf(out + used, size - used, ")");
}

char *qkv__safetensors_text(qkv_safetensors *s, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = qkv__arena_alloc(s->arena, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

/* ---- one header --------------------------------------------------------------------------- */

/* A non-negative integer; 3.0, which is one elsewhere, is not one here. */
static qkv_status read_size(const qkv__json *array, size_t i, size_t *out)
{
    qkv__json item;
    int64_t value;
    qkv__json_item(array, i, &item);
    if (json_is_real(item.value))
        return qkv__json_fail(&item, NULL, "expected an integer, found a number");
    qkv_status status = qkv__json_get_int(&item, NULL, 0, INT64_MAX, &value);
    *out = status ? 0 : (size_t)value;
    return status;
}

static qkv_status safetensors_header_read_shape(qkv_safetensors *s, const qkv__json *info,
                                                qkv_safetensor *t)
{
    qkv__json shape;
    qkv_status status = qkv__json_get_array(info, "shape", &shape);
    if (status)
        return status;
    size_t ndim = qkv__json_count(&shape);
    size_t *sizes = qkv__arena_alloc(s->arena, ndim * sizeof *sizes);
    if (!sizes)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < ndim && !status; i++)
        status = read_size(&shape, i, &sizes[i]);
    t->ndim = (int)ndim; /* at most the header's 1e8 bytes */
    t->shape = sizes;
    return status;
}

/* What the shape and the type need, against what the offsets give. */
static qkv_status safetensors_header_check_bytes(const qkv__json *info, const qkv_safetensor *t,
                                                 size_t bits)
{
    size_t count, all;
    char shape[200];
    qkv__file_shape_text(shape, sizeof shape, t->ndim, t->shape);
    if (!qkv__file_shape_count(t->ndim, t->shape, &count) || !qkv__mul_size(count, bits, &all))
        return qkv__json_fail(info, "shape", "%s is too large", shape);
    if (all % 8)
        return qkv__json_fail(info, "shape", "%s of %s is no whole number of bytes", shape,
                              t->dtype);
    if (all / 8 != t->bytes)
        return qkv__json_fail(info, "data_offsets", "expected %zu bytes for %s of shape %s, "
                              "found %zu", all / 8, t->dtype, shape, t->bytes);
    return QKV_OK;
}

/* Offsets are kept in data and bytes; the data's bounds are checked for all tensors together. */
static qkv_status read_info(qkv_safetensors *s, const qkv__json *info, qkv_safetensor *t,
                            size_t *begin, size_t *bits)
{
    const char *dtype;
    qkv__json offsets;
    size_t end = 0, d = 0;
    qkv_status status = qkv__json_get_string(info, "dtype", &dtype);
    if (status)
        return status;
    while (d < sizeof dtypes / sizeof *dtypes && strcmp(dtypes[d].name, dtype) != 0)
        d++;
    if (d == sizeof dtypes / sizeof *dtypes)
        return qkv__json_fail(info, "dtype", "expected a type of safetensors, found \"%.40s\"",
                              dtype);
    t->dtype = dtypes[d].name;
    t->store = dtypes[d].store;
    *bits = dtypes[d].bits;
    status = safetensors_header_read_shape(s, info, t);
    if (!status)
        status = qkv__json_get_array(info, "data_offsets", &offsets);
    if (!status && qkv__json_count(&offsets) != 2)
        return qkv__json_fail(info, "data_offsets", "expected 2 numbers, found %zu",
                              qkv__json_count(&offsets));
    if (!status)
        status = read_size(&offsets, 0, begin);
    if (!status)
        status = read_size(&offsets, 1, &end);
    if (!status && end < *begin)
        return qkv__json_fail(info, "data_offsets", "expected the end at or behind %zu, found %zu",
                              *begin, end);
    t->bytes = end - *begin;
    return status;
}

static qkv_status read_metadata(qkv_safetensors *s, const qkv__json *root)
{
    qkv__json all;
    const char *key;
    json_t *value;
    qkv_status status = qkv__json_get_object(root, "__metadata__", &all);
    if (status)
        return status;
    const char **pairs = qkv__arena_alloc(s->arena, 2 * qkv__json_count(&all) * sizeof *pairs);
    if (!pairs)
        return QKV_E_MEMORY;
    size_t n = 0;
    json_object_foreach(all.value, key, value) {
        if (!json_is_string(value))
            return qkv__json_fail(&all, key, "expected a string");
        pairs[n++] = qkv__safetensors_text(s, key);
        pairs[n++] = qkv__safetensors_text(s, json_string_value(value));
        if (!pairs[n - 2] || !pairs[n - 1])
            return QKV_E_MEMORY;
    }
    if (!s->metadata) {
        s->metadata = pairs;
        s->metadata_count = n / 2;
    }
    return QKV_OK;
}

typedef struct {
    qkv_safetensor t;
    size_t begin, bits;
} found;

static int by_offset(const void *a, const void *b)
{
    const found *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->t.bytes != y->t.bytes)
        return x->t.bytes < y->t.bytes ? -1 : 1;
    return 0;
}

/* Tensors follow each other without gap or overlap and fill the data. */
static qkv_status check_layout(const qkv__json *root, found *all, size_t count, size_t data_bytes)
{
    size_t at = 0;
    if (count)
        qsort(all, count, sizeof *all, by_offset);
    for (size_t i = 0; i < count; i++) {
        qkv__json info;
        qkv_status status = qkv__json_get_object(root, all[i].t.name, &info);
        if (status)
            return status;
        if (all[i].begin != at)
            return qkv__json_fail(&info, "data_offsets", "expected the begin %zu, found %zu", at,
                                  all[i].begin);
        at += all[i].t.bytes;
        status = safetensors_header_check_bytes(&info, &all[i].t, all[i].bits);
        if (status)
            return status;
    }
    if (at != data_bytes)
        return qkv__json_fail(root, NULL, "expected %zu bytes of tensors after the header, found "
                              "%zu", at, data_bytes);
    return QKV_OK;
}

/* Appends the tensors of the parsed header to s->tensors, which has room. */
static qkv_status add_tensors(qkv_safetensors *s, const qkv__shard *from, const qkv__json *root,
                              found *all, size_t header)
{
    const char *name;
    json_t *value;
    size_t count = 0;
    const unsigned char *data = from->map.data + 8 + header;
    qkv_status status = QKV_OK;
    json_object_foreach(root->value, name, value) {
        qkv__json info;
        found *f = &all[count];
        if (strcmp(name, "__metadata__") == 0) {
            status = read_metadata(s, root);
        } else {
            *f = (found){.t = {.file = from->path}};
            f->t.name = qkv__safetensors_text(s, name);
            status = f->t.name ? qkv__json_get_object(root, name, &info) : QKV_E_MEMORY;
            if (!status)
                status = read_info(s, &info, &f->t, &f->begin, &f->bits);
            count++;
        }
        if (status)
            return status;
    }
    status = check_layout(root, all, count, from->map.size - 8 - header);
    for (size_t i = 0; i < count && !status; i++) {
        all[i].t.data = data + all[i].begin;
        (void)qkv__file_shape_count(all[i].t.ndim, all[i].t.shape, &all[i].t.count); /* checked */
        s->tensors[s->count++] = all[i].t;
    }
    return status;
}

static qkv_status grow_tensors(qkv_safetensors *s, size_t more)
{
    qkv_safetensor *tensors =
        qkv__arena_alloc(s->arena, (s->count + more) * sizeof *tensors);
    if (!tensors)
        return QKV_E_MEMORY;
    if (s->count)
        memcpy(tensors, s->tensors, s->count * sizeof *tensors);
    s->tensors = tensors;
    return QKV_OK;
}

/* The shard's file: lengths first, then the JSON between them. */
qkv_status qkv__shard_read(qkv_safetensors *s, qkv__shard *from)
{
    qkv__json root;
    uint64_t header = 0;
    qkv_status status =
        from->map.data ? QKV_OK : qkv__map_open(&from->map, s->ctx, from->path);
    if (status)
        return status;
    if (from->map.size < 8)
        return qkv_fail(s->ctx, QKV_E_FORMAT, "%s: expected a header, found %zu bytes in all",
                        from->path, from->map.size);
    memcpy(&header, from->map.data, 8);
    if (header > QKV__MAX_HEADER)
        return qkv_fail(s->ctx, QKV_E_FORMAT,
                        "%s: expected a header of at most %d bytes, found the length %llu",
                        from->path, QKV__MAX_HEADER, (unsigned long long)header);
    if (header > from->map.size - 8)
        return qkv_fail(s->ctx, QKV_E_FORMAT, "%s: expected a header of %llu bytes, found %zu",
                        from->path, (unsigned long long)header, from->map.size - 8);
    const char *text = (const char *)from->map.data + 8;
    if (header == 0 || text[0] != '{')
        return qkv_fail(s->ctx, QKV_E_FORMAT, "%s: expected a header that begins with {",
                        from->path);
    status = qkv__json_parse(&root, s->ctx, from->path, text, (size_t)header);
    if (status)
        return status;
    size_t count = qkv__json_count(&root);
    found *all = qkv_calloc(s->ctx, count + 1, sizeof *all);
    status = all ? grow_tensors(s, count) : QKV_E_MEMORY;
    if (!status)
        status = add_tensors(s, from, &root, all, (size_t)header);
    qkv_free(s->ctx, all);
    qkv__json_free(&root);
    return status;
}
