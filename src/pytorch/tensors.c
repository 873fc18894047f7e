/* tensors.c - from the tree that a pickle gave to tensors with names and checked places;
 * their numbers, and all of them as safetensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/convert.h"
#include "io/json.h"
#include "pytorch/objects.h"
#include "io/safetensors_header.h"

enum { DEEPEST = 64, MOST_VALUES = 4000000 };

/* Tensors may be views of one storage, or repeat it with strides of 0. What they are together
 * may have this many bytes, or as many times the file's size; more is a trap. */
enum { UNFOLDED_BYTES = 64 << 20, UNFOLDED_TIMES = 16 };

/* ---- places and names ------------------------------------------------------------------------ */

/* The last number that shape and strides reach is inside the storage. */
static bool inside(const qkv__pickled_tensor *from, size_t unit)
{
    size_t last = from->offset, bytes;
    for (int i = 0; i < from->ndim; i++) {
        size_t way;
        if (!qkv__mul_size(from->shape[i] - 1, from->stride[i], &way) ||
            !qkv__add_size(last, way, &last))
            return false;
    }
    return qkv__add_size(last, 1, &last) && qkv__mul_size(last, unit, &bytes) &&
           bytes <= from->storage->bytes - from->storage->skip;
}

static bool is_contiguous(const qkv__pickled_tensor *from)
{
    size_t step = 1;
    for (int i = from->ndim; i-- > 0; step *= from->shape[i])
        if (from->shape[i] != 1 && from->stride[i] != step)
            return false;
    return true;
}

static qkv_status check_tensor(qkv__pytorch *p, const qkv__pickled_tensor *from,
                               qkv__pytorch_tensor *out)
{
    size_t unit = qkv_store_bytes(from->store), bytes;
    *out = (qkv__pytorch_tensor){.store = from->store, .ndim = from->ndim, .shape = from->shape,
                                 .stride = from->stride, .data = p->map.data, .contiguous = true};
    if (!qkv__file_shape_count(from->ndim, from->shape, &out->count) ||
        !qkv__mul_size(out->count, unit, &bytes) ||
        !qkv__add_size(p->unfolded, bytes, &p->unfolded) ||
        (p->unfolded > UNFOLDED_BYTES && p->unfolded / UNFOLDED_TIMES > p->map.size))
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: tensor \"%s\": it and those before it are far "
                        "larger than the file", p->path, p->name);
    if (out->count == 0)
        return QKV_OK;
    if (!inside(from, unit) || !from->storage->data)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: tensor \"%s\": it reaches beyond its storage",
                        p->path, p->name);
    out->data = from->storage->data + from->storage->skip + from->offset * unit;
    out->contiguous = is_contiguous(from);
    return QKV_OK;
}

/* The collected name as it will be known, or NULL when it is not beneath the wanted one. */
static const char *known_as(const qkv__pytorch *p)
{
    size_t n = p->under ? strlen(p->under) : 0;
    if (n && (strncmp(p->name, p->under, n) != 0 || (p->name[n] && p->name[n] != '.')))
        return NULL;
    const char *name = p->name + n;
    name += n && *name;
    return *name ? name : "tensor";
}

static qkv_status add_tensor(qkv__pytorch *p, const qkv__pickled_tensor *from)
{
    const char *name = known_as(p);
    if (!name) {
        p->left_out++;
        return QKV_OK;
    }
    if (p->count == p->room) {
        size_t more = p->room ? 2 * p->room : 64;
        qkv__pytorch_tensor *wider = qkv__arena_alloc(p->arena, more * sizeof *wider);
        if (!wider)
            return QKV_E_MEMORY;
        if (p->count)
            memcpy(wider, p->tensors, p->count * sizeof *wider);
        p->tensors = wider;
        p->room = more;
    }
    qkv_status status = check_tensor(p, from, &p->tensors[p->count]);
    char *copy = status ? NULL : qkv__arena_alloc(p->arena, strlen(name) + 1);
    if (!status && !copy)
        status = QKV_E_MEMORY;
    if (!status)
        p->tensors[p->count++].name = strcpy(copy, name);
    return status;
}

static qkv_status tensors_visit(qkv__pytorch *p, const qkv__value *v, size_t length, int depth);

/* A container's part: its name goes behind the container's. */
static qkv_status visit_part(qkv__pytorch *p, const qkv__value *v, const char *part, size_t n,
                             size_t length, int depth)
{
    size_t dot = length ? 1 : 0;
    if (n > QKV__LONGEST_NAME - length - dot)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: a name beneath \"%s\" is too long", p->path,
                        p->name);
    for (size_t i = 0, step; i < n; i += step) {
        step = qkv__utf8_length((const unsigned char *)part + i, n - i);
        if (!step || (unsigned char)part[i] < ' ')
            return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: a name beneath \"%s\" is not text",
                            p->path, p->name);
    }
    if (dot)
        p->name[length] = '.';
    memcpy(p->name + length + dot, part, n);
    p->name[length + dot + n] = 0;
    qkv_status status = tensors_visit(p, v, length + dot + n, depth + 1);
    p->name[length] = 0;
    return status;
}

static qkv_status visit_index(qkv__pytorch *p, const qkv__value *v, int64_t index, size_t length,
                              int depth)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)index);
    return visit_part(p, v, text, (size_t)n, length, depth);
}

static bool may_hold_tensors(const qkv__value *v)
{
    return (v->kind >= QKV__VALUE_TUPLE && v->kind <= QKV__VALUE_DICT) ||
           v->kind == QKV__VALUE_OBJECT;
}

/* Values beneath a dict or sequence; what can be no tensor needs no name. */
static qkv_status tensors_visit_all(qkv__pytorch *p, const qkv__value *v, size_t length, int depth)
{
    bool dict = v->kind == QKV__VALUE_DICT;
    size_t step = dict ? 2 : 1;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < v->as.list.count && !status; i += step) {
        const qkv__value *key = v->as.list.items[i], *part = v->as.list.items[i + step - 1];
        if (!may_hold_tensors(part) || (dict && key->kind == QKV__VALUE_UNKNOWN))
            p->left_out++;
        else if (!dict)
            status = visit_index(p, part, (int64_t)i, length, depth);
        else if (key->kind == QKV__VALUE_INT)
            status = visit_index(p, part, key->as.integer, length, depth);
        else if (key->kind == QKV__VALUE_TEXT)
            status = visit_part(p, part, key->as.text.data, key->as.text.length, length, depth);
        else
            status = qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: a key beneath \"%s\" is %s; "
                              "expected a text or an integer", p->path, p->name,
                              qkv__value_name(key));
    }
    return status;
}

/* p->name, of that length, is the value's name. */
static qkv_status tensors_visit(qkv__pytorch *p, const qkv__value *v, size_t length, int depth)
{
    if (depth > DEEPEST)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: its containers are nested more than %d deep, "
                        "or hold themselves", p->path, DEEPEST);
    p->visited += 1 + (v->kind >= QKV__VALUE_TUPLE && v->kind <= QKV__VALUE_DICT
                           ? v->as.list.count : 0);
    if (p->visited > MOST_VALUES)
        return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: its containers hold too many values",
                        p->path);
    if (v->kind >= QKV__VALUE_TUPLE && v->kind <= QKV__VALUE_DICT)
        return tensors_visit_all(p, v, length, depth);
    if (v->kind == QKV__VALUE_OBJECT && v->what == QKV__IS_TENSOR)
        return add_tensor(p, v->as.object);
    p->left_out++;
    return QKV_OK;
}

static int tensors_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static qkv_status refuse_equal_names(const qkv__pytorch *p)
{
    const char **names = qkv__arena_alloc(p->arena, p->count * sizeof *names);
    if (!names)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < p->count; i++)
        names[i] = p->tensors[i].name;
    qsort(names, p->count, sizeof *names, tensors_by_name);
    for (size_t i = 1; i < p->count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: two tensors are named \"%s\"", p->path,
                            names[i]);
    return QKV_OK;
}

qkv_status qkv__pytorch_collect(qkv__pytorch *p, const qkv__value *root)
{
    qkv_status status = tensors_visit(p, root, 0, 0);
    if (!status && p->count == 0)
        status = qkv_fail(p->ctx, QKV_E_FORMAT, "%s: it holds no tensors%s%s", p->path,
                          p->under ? " beneath " : "", p->under ? p->under : "");
    return status ? status : refuse_equal_names(p);
}

/* ---- numbers --------------------------------------------------------------------------------- */

void qkv__pytorch_gather(const qkv__pytorch_tensor *t, size_t begin, size_t count, void *out)
{
    size_t unit = qkv_store_bytes(t->store), index[QKV__PICKLED_DIMS], at = 0, rest = begin;
    unsigned char *to = out;
    if (t->contiguous) {
        if (count)
            memcpy(to, t->data + begin * unit, count * unit);
        return;
    }
    for (int d = t->ndim; d-- > 0; rest /= t->shape[d]) {
        index[d] = rest % t->shape[d];
        at += index[d] * t->stride[d];
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * unit, t->data + at * unit, unit);
        for (int d = t->ndim; d-- > 0;) {
            at += t->stride[d];
            if (++index[d] < t->shape[d])
                break;
            at -= t->shape[d] * t->stride[d];
            index[d] = 0;
        }
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
    const qkv__pytorch_tensor *tensor;
    void *stored; /* a few numbers as the file has them; shared by all sources */
} source;

enum { STORED = 4096 }; /* numbers */

static qkv_status fill_raw(void *user, size_t begin, size_t count, void *out)
{
    const source *s = user;
    qkv__pytorch_gather(s->tensor, begin, count, out);
    return QKV_OK;
}

static qkv_status tensors_fill(void *user, size_t begin, size_t count, qkv_real *out)
{
    const source *s = user;
    for (size_t at = 0; at < count; at += STORED) {
        size_t n = count - at < STORED ? count - at : STORED;
        qkv__pytorch_gather(s->tensor, begin + at, n, s->stored);
        (void)qkv__store_read(out + at, s->stored, s->tensor->store, n);
    }
    return QKV_OK;
}

static bool is_floating(qkv_store store)
{
    return store == QKV_STORE_F16 || store == QKV_STORE_BF16 || store == QKV_STORE_F32 ||
           store == QKV_STORE_F64;
}

qkv_status qkv__pytorch_save(const qkv__pytorch *p, const char *path, qkv_store store,
                             size_t shard_bytes)
{
    qkv_safetensors_entry *entries = qkv_calloc(p->ctx, p->count, sizeof *entries);
    source *sources = qkv_calloc(p->ctx, p->count, sizeof *sources);
    void *stored = qkv_malloc(p->ctx, STORED * 8);
    qkv_status status = entries && sources && stored ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < p->count && !status; i++) {
        const qkv__pytorch_tensor *t = &p->tensors[i];
        qkv_safetensors_entry *e = &entries[i];
        sources[i] = (source){t, stored};
        *e = (qkv_safetensors_entry){.name = t->name, .ndim = t->ndim, .shape = t->shape,
                                     .store = t->store, .user = &sources[i]};
        if (store && is_floating(t->store) && store != t->store) {
            e->store = store;
            e->fill = tensors_fill;
        } else if (t->contiguous) {
            e->raw = t->data;
        } else {
            e->fill_raw = fill_raw;
        }
    }
    qkv_safetensors_options options = {.shard_bytes = shard_bytes};
    if (!status)
        status = qkv_safetensors_save(p->ctx, path, entries, p->count, &options);
    qkv_free(p->ctx, stored);
    qkv_free(p->ctx, sources);
    qkv_free(p->ctx, entries);
    return status;
}
