/* safetensors_write.c - writing safetensors: by type, then name, as the reference writer does.
 * Streams from the caller's callbacks; the only buffer holds a few thousand numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/convert.h"
#include "io/json.h"
#include "io/safetensors_header.h"

enum { CHUNK = 16384 }; /* numbers converted at a time */

typedef struct {
    const qkv_safetensors_entry *entry;
    size_t count, bytes, shard;
} item;

typedef struct {
    qkv_context *ctx;
    const char *path; /* of the whole model, or of this shard */
    const char *const *metadata;
    item *items; /* sorted */
    size_t count;
    qkv_real *reals;
    unsigned char *stored;
} save;

static int safetensors_write_by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->entry->name, ((const item *)b)->entry->name);
}

/* Shards one after another; in each the widest types first, so that all data is aligned. */
static int by_place(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->entry->store != y->entry->store)
        return x->entry->store > y->entry->store ? -1 : 1;
    return safetensors_write_by_name(a, b);
}

static qkv_status check_entry(const save *s, const qkv_safetensors_entry *e, item *out)
{
    bool floating = e->store == QKV_STORE_F16 || e->store == QKV_STORE_BF16 ||
                    e->store == QKV_STORE_F32 || e->store == QKV_STORE_F64;
    *out = (item){.entry = e};
    if (!e->name || strcmp(e->name, "__metadata__") == 0)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: a tensor cannot be named %s", s->path,
                        e->name ? e->name : "NULL");
    if (!e->store || e->store >= QKV_STORE_OTHER || e->ndim < 0 ||
        (!floating && !e->raw && !e->fill_raw))
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: tensor \"%s\": cannot be written as %s",
                        s->path, e->name, qkv_store_name(e->store));
    if (!qkv__file_shape_count(e->ndim, e->shape, &out->count) ||
        !qkv__mul_size(out->count, qkv_store_bytes(e->store), &out->bytes))
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: tensor \"%s\" is too large", s->path,
                        e->name);
    if (out->count && !e->data && !e->raw && !e->fill && !e->fill_raw)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: tensor \"%s\" has no data", s->path,
                        e->name);
    return QKV_OK;
}

/* Each tensor gets its shard, in the caller's order; returns how many there are. */
static size_t assign_shards(save *s, size_t limit)
{
    size_t shard = 0, used = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (limit && used && s->items[i].bytes > limit - (used < limit ? used : limit)) {
            shard++;
            used = 0;
        }
        s->items[i].shard = shard;
        used += s->items[i].bytes;
    }
    return shard + 1;
}

static void put_header(qkv_json_writer *w, const save *s, const item *items, size_t count)
{
    size_t at = 0;
    qkv_json_begin_object(w, NULL);
    qkv_json_begin_object(w, "__metadata__");
    for (size_t i = 0; s->metadata[i]; i += 2)
        qkv_json_put_string(w, s->metadata[i], s->metadata[i + 1]);
    qkv_json_end_object(w);
    for (size_t i = 0; i < count; i++) {
        const qkv_safetensors_entry *e = items[i].entry;
        qkv_json_begin_object(w, e->name);
        qkv_json_put_string(w, "dtype", qkv_store_name(e->store));
        qkv_json_put_sizes(w, "shape", e->shape, (size_t)e->ndim);
        qkv_json_put_sizes(w, "data_offsets", (size_t[]){at, at + items[i].bytes}, 2);
        at += items[i].bytes;
        qkv_json_end_object(w);
    }
    qkv_json_end_object(w);
}

/* Its length and text, to be freed on success and failure alike; padded to a multiple of 8 bytes,
 * or to room, which is one (0: as long as it gets). */
static qkv_status safetensors_write_make_header(qkv_str *out, const save *s, const item *items,
                                                size_t count, size_t room)
{
    qkv_json_writer w;
    qkv_str_init(out, s->ctx);
    qkv_json_writer_init(&w, s->ctx, -1);
    put_header(&w, s, items, count);
    bool fine = qkv_json_writer_text(&w);
    uint64_t length = (w.text.len + 7) / 8 * 8, most = room ? room - 8 : QKV__MAX_HEADER;
    length = room && length < most ? most : length;
    qkv_str_add(out, (const char *)&length, sizeof length);
    qkv_str_add(out, w.text.data, w.text.len);
    for (size_t pad = (size_t)length - w.text.len; pad; pad--)
        qkv_str_puts(out, " ");
    qkv_json_writer_free(&w);
    if (!fine || out->failed)
        return QKV_E_MEMORY;
    if (length > most)
        return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: the header would have %zu bytes", s->path,
                         (size_t)length);
    return QKV_OK;
}

static qkv_status write_item(const save *s, qkv__writer *out, const item *it)
{
    const qkv_safetensors_entry *e = it->entry;
    if (e->raw && !e->data)
        return qkv__writer_put(out, e->raw, it->bytes);
    if (e->data && e->store == QKV_STORE_F32 && sizeof(qkv_real) == 4)
        return qkv__writer_put(out, e->data, it->bytes);
    qkv_status status = QKV_OK;
    for (size_t at = 0; at < it->count && !status; at += CHUNK) {
        size_t n = it->count - at < CHUNK ? it->count - at : CHUNK;
        if (!e->data && !e->fill)
            status = e->fill_raw(e->user, at, n, s->stored);
        else if (!e->data)
            status = e->fill(e->user, at, n, s->reals);
        if (e->data || e->fill)
            qkv__store_write(s->stored, e->data ? e->data + at : s->reals, e->store, n);
        if (!status)
            status = qkv__writer_put(out, s->stored, n * qkv_store_bytes(e->store));
    }
    return status;
}

static qkv_status safetensors_write_file(const save *s, const char *path, const item *items,
                                         size_t count)
{
    qkv__writer *out;
    qkv_str header;
    qkv_status status = qkv__writer_open(&out, s->ctx, path);
    if (status)
        return status;
    status = safetensors_write_make_header(&header, s, items, count, 0);
    if (!status)
        status = qkv__writer_put(out, header.data, header.len);
    qkv_str_free(&header);
    for (size_t i = 0; i < count && !status; i++)
        status = write_item(s, out, &items[i]);
    if (!status)
        return qkv__writer_close(out);
    qkv__writer_abandon(out);
    return status;
}

/* "DIR/model-00001-of-00003.safetensors" beside "DIR/model.safetensors". */
static qkv_path shard_path(const char *path, size_t shard, size_t shards)
{
    const char *name = qkv_path_name(path), *dot = strrchr(name, '.');
    size_t stem = dot ? (size_t)(dot - path) : strlen(path);
    qkv_path out;
    (void)snprintf(out.text, sizeof out.text, "%.*s-%05zu-of-%05zu%s", (int)stem, path, shard + 1,
                   shards, dot ? dot : "");
    return out;
}

static qkv_status write_index(save *s, const char *path, const char *index, size_t shards)
{
    qkv_json_writer w;
    int64_t total = 0;
    qkv_json_writer_init(&w, s->ctx, 2);
    for (size_t i = 0; i < s->count; i++)
        total += (int64_t)s->items[i].bytes;
    qsort(s->items, s->count, sizeof *s->items, safetensors_write_by_name);
    qkv_json_begin_object(&w, NULL);
    qkv_json_begin_object(&w, "metadata");
    qkv_json_put_int(&w, "total_size", total);
    qkv_json_end_object(&w);
    qkv_json_begin_object(&w, "weight_map");
    for (size_t i = 0; i < s->count; i++) {
        const qkv_path file = shard_path(path, s->items[i].shard, shards);
        qkv_json_put_string(&w, s->items[i].entry->name, qkv_path_name(file.text));
    }
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    return qkv_json_writer_save(&w, index);
}

static qkv_status write_shards(save *s, const char *path, const char *index, size_t shards)
{
    qkv_status status = QKV_OK;
    size_t first = 0;
    for (size_t i = 0; i < shards && !status; i++) {
        size_t end = first;
        while (end < s->count && s->items[end].shard == i)
            end++;
        status = safetensors_write_file(s, shard_path(path, i, shards).text, s->items + first, end -
                                        first);
        first = end;
    }
    if (!status)
        status = write_index(s, path, index, shards);
    return status ? status : qkv__file_remove(s->ctx, path);
}

static qkv_status safetensors_write_all(save *s, const char *path, size_t shard_bytes)
{
    qkv_path index;
    (void)snprintf(index.text, sizeof index.text, "%s.index.json", path);
    size_t shards = assign_shards(s, shard_bytes);
    if (s->count)
        qsort(s->items, s->count, sizeof *s->items, by_place);
    if (shards > 1)
        return write_shards(s, path, index.text, shards);
    qkv_status status = safetensors_write_file(s, path, s->items, s->count);
    return status ? status : qkv__file_remove(s->ctx, index.text);
}

static qkv_status check_entries(save *s, const qkv_safetensors_entry *entries)
{
    for (size_t i = 0; i < s->count; i++) {
        qkv_status status = check_entry(s, &entries[i], &s->items[i]);
        if (status)
            return status;
    }
    if (s->count)
        qsort(s->items, s->count, sizeof *s->items, safetensors_write_by_name);
    for (size_t i = 1; i < s->count; i++)
        if (safetensors_write_by_name(&s->items[i - 1], &s->items[i]) == 0)
            return qkv_fail(s->ctx, QKV_E_ARGUMENT, "%s: two tensors are named \"%s\"", s->path,
                            s->items[i].entry->name);
    for (size_t i = 0; i < s->count; i++) /* the caller's order again, for shards */
        (void)check_entry(s, &entries[i], &s->items[i]);
    return QKV_OK;
}

qkv_status qkv_safetensors_save(qkv_context *ctx, const char *path,
                                const qkv_safetensors_entry *entries, size_t count,
                                const qkv_safetensors_options *options)
{
    static const char *const torch[] = {"format", "pt", NULL};
    save s = {.ctx = ctx, .path = path, .count = count, .metadata = torch};
    if (options && options->metadata)
        s.metadata = options->metadata;
    s.items = qkv_calloc(ctx, count + 1, sizeof *s.items);
    s.reals = qkv_malloc(ctx, CHUNK * sizeof *s.reals);
    s.stored = qkv_malloc(ctx, CHUNK * 8);
    qkv_status status = s.items && s.reals && s.stored ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = check_entries(&s, entries);
    if (!status)
        status = safetensors_write_all(&s, path, options ? options->shard_bytes : 0);
    qkv_free(ctx, s.items);
    qkv_free(ctx, s.reals);
    qkv_free(ctx, s.stored);
    return status;
}

/* ---- streaming ---------------------------------------------------------------------------- */

enum { ROOM = 1024, STREAMED = 4 }; /* bytes before the data; tensors */

qkv_status qkv__stream_begin(qkv__stream *s, qkv_context *ctx, const char *path)
{
    static const char room[ROOM] = {0};
    qkv_status status = QKV_OK;
    *s = (qkv__stream){.ctx = ctx};
    qkv_str_init(&s->kept, ctx);
    if (path) {
        s->path = qkv_strdup(ctx, path);
        status = s->path ? qkv__writer_open(&s->file, ctx, path) : QKV_E_MEMORY;
    }
    return status ? status : qkv__stream_put(s, room, sizeof room);
}

qkv_status qkv__stream_put(qkv__stream *s, const void *data, size_t size)
{
    if (s->file)
        return qkv__writer_put(s->file, data, size);
    qkv_str_add(&s->kept, data, size);
    return s->kept.failed ? QKV_E_MEMORY : QKV_OK;
}

/* The header in its room, which qkv__stream_begin left. */
static qkv_status put_room(qkv__stream *s, const save *all)
{
    qkv_str header;
    qkv_status status = safetensors_write_make_header(&header, all, all->items, all->count, ROOM);
    if (!status && s->file)
        status = qkv__writer_rewind(s->file);
    if (!status && s->file)
        status = qkv__writer_put(s->file, header.data, header.len);
    else if (!status)
        memcpy(s->kept.data, header.data, header.len);
    qkv_str_free(&header);
    return status;
}

qkv_status qkv__stream_finish(qkv__stream *s, const qkv_safetensors_entry *entries, size_t count,
                              const char *const *metadata, qkv_safetensors **out)
{
    item items[STREAMED];
    const save all = {.ctx = s->ctx, .path = s->path ? s->path : "tensors", .metadata = metadata,
                      .items = items, .count = count};
    qkv_status status = QKV_OK;
    if (out)
        *out = NULL;
    for (size_t i = 0; i < count && !status; i++) {
        status = check_entry(&all, &entries[i], &items[i]);
        if (!status && i)
            status = qkv__stream_put(s, entries[i].raw, items[i].bytes);
    }
    if (!status)
        status = put_room(s, &all);
    if (!status && s->file) {
        status = qkv__writer_close(s->file);
        s->file = NULL;
        return status || !out ? status : qkv_safetensors_open(out, s->ctx, s->path);
    }
    if (status || !out)
        return status;
    qkv__map map = {.ctx = s->ctx, .data = (uint8_t *)s->kept.data, .size = s->kept.len};
    qkv_str_init(&s->kept, s->ctx);
    return qkv__safetensors_take(out, &map, all.path);
}

void qkv__stream_abandon(qkv__stream *s)
{
    qkv__writer_abandon(s->file);
    qkv_str_free(&s->kept);
    qkv_free(s->ctx, s->path);
}
