/* safetensors.c - opening safetensors files and directories of shards; reading their numbers.
 * What is inside one file is checked in safetensors_header.c. */
#include "io/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

#include "io/convert.h"
#include "io/json.h"

/* ---- shards ------------------------------------------------------------------------------- */

static int safetensors_by_name(const void *a, const void *b)
{
    return strcmp(((const qkv_safetensor *)a)->name, ((const qkv_safetensor *)b)->name);
}

static qkv_status sort_tensors(qkv_safetensors *s)
{
    if (s->count)
        qsort(s->tensors, s->count, sizeof *s->tensors, safetensors_by_name);
    for (size_t i = 1; i < s->count; i++)
        if (safetensors_by_name(&s->tensors[i - 1], &s->tensors[i]) == 0)
            return qkv_fail(s->ctx, QKV_E_FORMAT, "%s: tensor \"%s\" is in %s too",
                            s->tensors[i].file, s->tensors[i].name, s->tensors[i - 1].file);
    return QKV_OK;
}

/* map: the file's, which is moved into the shard; NULL: it is to be mapped. */
static qkv_status add_shard(qkv_safetensors *s, const char *path, qkv__map *map)
{
    for (size_t i = 0; i < s->shard_count; i++)
        if (strcmp(s->shards[i].path, path) == 0)
            return QKV_OK;
    qkv__shard *to = &s->shards[s->shard_count];
    *to = (qkv__shard){.path = qkv__safetensors_text(s, path)};
    if (!to->path)
        return QKV_E_MEMORY;
    if (map) {
        to->map = *map;
        *map = (qkv__map){0};
    }
    s->shard_count++;
    return qkv__shard_read(s, to);
}

/* A shard is a file of the index's own folder: nothing that leads elsewhere. */
static bool plain_name(const char *name)
{
    return *name && *name != '.' && !strpbrk(name, "/\\");
}

static qkv_status check_map(qkv_safetensors *s, const qkv__json *map)
{
    const char *name;
    json_t *value;
    json_object_foreach(map->value, name, value) {
        const qkv_safetensor *t = qkv_safetensors_find(s, name);
        if (!t || strcmp(qkv_path_name(t->file), json_string_value(value)) != 0)
            return qkv__json_fail(map, name, "expected the tensor in %s, found none",
                                  json_string_value(value));
    }
    return QKV_OK;
}

static qkv_status open_shards(qkv_safetensors *s, const qkv__json *map, const char *index)
{
    const char *name, *file;
    json_t *value;
    size_t count = qkv__json_count(map);
    s->shards = qkv__arena_alloc(s->arena, (count + 1) * sizeof *s->shards);
    if (!s->shards)
        return QKV_E_MEMORY;
    json_object_foreach(map->value, name, value) {
        qkv_status status = qkv__json_get_string(map, name, &file);
        if (status)
            return status;
        if (!plain_name(file))
            return qkv__json_fail(map, name, "expected a plain file name, found \"%.80s\"", file);
        status = add_shard(s, qkv_path_beside(index, file).text, NULL);
        if (status)
            return status;
    }
    qkv_status status = sort_tensors(s);
    return status ? status : check_map(s, map);
}

static qkv_status open_index(qkv_safetensors *s, const char *index)
{
    qkv__json root, map;
    qkv_status status = qkv__json_load(&root, s->ctx, index);
    if (status)
        return status;
    status = qkv__json_get_object(&root, "weight_map", &map);
    if (!status)
        status = open_shards(s, &map, index);
    qkv__json_free(&root);
    return status;
}

static qkv_status safetensors_open_file(qkv_safetensors *s, const char *path, qkv__map *map)
{
    s->shards = qkv__arena_alloc(s->arena, sizeof *s->shards);
    qkv_status status = s->shards ? add_shard(s, path, map) : QKV_E_MEMORY;
    return status ? status : sort_tensors(s);
}

static qkv_status safetensors_open_folder(qkv_safetensors *s, const char *path)
{
    const qkv_path file = qkv_path_in(path, "model.safetensors");
    const qkv_path index = qkv_path_in(path, "model.safetensors.index.json");
    const qkv_path adapter = qkv_path_in(path, "adapter_model.safetensors");
    bool whole = qkv_file_exists(file.text);
    if (!whole && qkv_file_exists(index.text))
        return open_index(s, index.text);
    bool adapts = !whole && qkv_file_exists(adapter.text);
    return safetensors_open_file(s, adapts ? adapter.text : file.text, NULL);
}

/* ---- public ------------------------------------------------------------------------------- */

/* What map holds, or if it is NULL what lies at path. */
static qkv_status open_any(qkv_safetensors **out, qkv_context *ctx, const char *path,
                           qkv__map *map)
{
    *out = NULL;
    qkv_safetensors *s = qkv_calloc(ctx, 1, sizeof *s);
    if (!s)
        return QKV_E_MEMORY;
    s->ctx = ctx;
    size_t length = strlen(path);
    bool is_index = length > 5 && strcmp(path + length - 5, ".json") == 0;
    qkv_status status = qkv__arena_create(&s->arena, ctx, "safetensors");
    if (!status && !map && qkv_dir_exists(path))
        status = safetensors_open_folder(s, path);
    else if (!status)
        status = is_index && !map ? open_index(s, path) : safetensors_open_file(s, path, map);
    if (status) {
        qkv_safetensors_close(s);
        return status;
    }
    *out = s;
    return QKV_OK;
}

qkv_status qkv_safetensors_open(qkv_safetensors **out, qkv_context *ctx, const char *path)
{
    return open_any(out, ctx, path, NULL);
}

qkv_status qkv__safetensors_take(qkv_safetensors **out, qkv__map *map, const char *name)
{
    qkv_status status = open_any(out, map->ctx, name, map);
    qkv__map_close(map);
    return status;
}

void qkv_safetensors_close(qkv_safetensors *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->shard_count; i++)
        qkv__map_close(&s->shards[i].map);
    if (s->arena)
        qkv__arena_destroy(s->arena);
    qkv_free(s->ctx, s);
}

size_t qkv_safetensors_count(const qkv_safetensors *s)
{
    return s->count;
}

const qkv_safetensor *qkv_safetensors_at(const qkv_safetensors *s, size_t i)
{
    return &s->tensors[i];
}

const qkv_safetensor *qkv_safetensors_find(const qkv_safetensors *s, const char *name)
{
    const qkv_safetensor key = {.name = name};
    if (s->count == 0)
        return NULL;
    return bsearch(&key, s->tensors, s->count, sizeof key, safetensors_by_name);
}

const char *qkv_safetensors_metadata(const qkv_safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->metadata_count; i++)
        if (strcmp(s->metadata[2 * i], key) == 0)
            return s->metadata[2 * i + 1];
    return NULL;
}

static const qkv_safetensor *find_or_fail(const qkv_safetensors *s, const char *name)
{
    const qkv_safetensor *t = qkv_safetensors_find(s, name);
    if (!t)
        qkv_fail(s->ctx, QKV_E_FORMAT, "%s: tensor \"%s\" is missing",
                  s->shard_count ? s->shards[0].path : "safetensors", name);
    return t;
}

qkv_status qkv__safetensors_expect(const qkv_safetensors *s, const char *name, qkv_store store,
                                   int ndim, const qkv_safetensor **out)
{
    const qkv_safetensor *t = find_or_fail(s, name);
    *out = t;
    if (!t)
        return QKV_E_FORMAT;
    if (t->store != store || t->ndim != ndim)
        return qkv_fail(s->ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected %s of %d dimensions, "
                         "found %s of %d", t->file, name, qkv_store_name(store), ndim, t->dtype,
                         t->ndim);
    return QKV_OK;
}

qkv_status qkv_safetensors_get(const qkv_safetensors *s, const char *name, int ndim,
                               const size_t *shape, const qkv_safetensor **out)
{
    char expected[200], actual[200];
    const qkv_safetensor *t = find_or_fail(s, name);
    *out = NULL;
    if (!t)
        return QKV_E_FORMAT;
    bool same = t->ndim == ndim;
    for (int i = 0; i < ndim && same; i++)
        same = t->shape[i] == shape[i];
    if (!same) {
        qkv__file_shape_text(expected, sizeof expected, ndim, shape);
        qkv__file_shape_text(actual, sizeof actual, t->ndim, t->shape);
        return qkv_fail(s->ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected shape %s, found %s",
                        t->file, name, expected, actual);
    }
    *out = t;
    return QKV_OK;
}

static qkv_status check_span(const qkv_safetensors *s, const qkv_safetensor *t, size_t begin,
                             size_t count)
{
    if (begin > t->count || count > t->count - begin)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT,
                        "%s: tensor \"%s\": %zu numbers from %zu wanted, found %zu in all",
                        t->file, t->name, count, begin, t->count);
    return QKV_OK;
}

qkv_status qkv_safetensors_read(const qkv_safetensors *s, const qkv_safetensor *tensor,
                                size_t begin, size_t count, qkv_real *out)
{
    qkv_status status = check_span(s, tensor, begin, count);
    if (status)
        return status;
    const char *p = (const char *)tensor->data + begin * qkv_store_bytes(tensor->store);
    if (!qkv__store_read(out, p, tensor->store, count))
        return qkv_fail(s->ctx, QKV_E_UNSUPPORTED, "%s: tensor \"%s\": type %s cannot be read",
                        tensor->file, tensor->name, tensor->dtype);
    return QKV_OK;
}

void qkv__safetensors_drop(const qkv_safetensors *s, const qkv_safetensor *t, size_t begin,
                           size_t count)
{
    size_t bytes = qkv_store_bytes(t->store);
    for (size_t i = 0; i < s->shard_count; i++)
        qkv__map_drop(&s->shards[i].map, (const char *)t->data + begin * bytes, count * bytes);
}

qkv_status qkv_safetensors_read_ints(const qkv_safetensors *s, const qkv_safetensor *tensor,
                                     size_t begin, size_t count, int64_t *out)
{
    qkv_status status = check_span(s, tensor, begin, count);
    if (status)
        return status;
    const char *p = (const char *)tensor->data + begin * qkv_store_bytes(tensor->store);
    if (!qkv__store_read_ints(out, p, tensor->store, count))
        return qkv_fail(s->ctx, QKV_E_FORMAT, "%s: tensor \"%s\": expected integers, found %s",
                        tensor->file, tensor->name, tensor->dtype);
    return QKV_OK;
}
