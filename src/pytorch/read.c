/* read.c - opening what torch.save wrote: which format it is, and where the bytes of its
 * storages are.
 *
 * zip (since 1.6): FOLDER/data.pkl, FOLDER/data/KEY for every storage, FOLDER/byteorder.
 * legacy: five pickles (a magic number, 1001, the machine, the object, the storages' keys), then
 * for every key an i64 count of numbers and the numbers. */
#include "pytorch/pytorch.h"

#include <stdlib.h>
#include <string.h>

#include "pytorch/objects.h"
#include "io/zip.h"

static qkv_status read_broken(const qkv__pytorch *p, const char *what)
{
    return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: %s", p->path, what);
}

static qkv_status unsupported(const qkv__pytorch *p, const char *what)
{
    return qkv_fail(p->ctx, QKV_E_UNSUPPORTED, "%s: %s", p->path, what);
}

static qkv_status storage_fails(const qkv__pytorch *p, const qkv__storage *s, const char *what)
{
    char key[40];
    qkv__pickle_plain(key, sizeof key, s->key, s->key_length);
    return qkv_fail(p->ctx, QKV_E_FORMAT, "%s: storage %s: %s", p->path, key, what);
}

static qkv_status read_pickle(qkv__pytorch *p, const uint8_t **at, const uint8_t *end,
                              qkv__value **out)
{
    qkv__pickle_host host = qkv__pytorch_host(&p->objects);
    return qkv__pickle_read(out, p->ctx, p->arena, p->path, at, end, &host);
}

/* ---- the zip archive ------------------------------------------------------------------------- */

typedef struct {
    qkv__zip zip;
    const char *folder;
    size_t length;
} archive;

static const qkv__zip_entry *entry(const archive *a, const char *name)
{
    return qkv__zip_find(&a->zip, a->folder, a->length, name, strlen(name));
}

static bool read_holds(const qkv__zip_entry *e, const char *text)
{
    return e->size == strlen(text) && memcmp(e->data, text, e->size) == 0;
}

static qkv_status find_in_archive(const qkv__pytorch *p, const archive *a, qkv__storage *s)
{
    char name[80] = "data/";
    size_t prefix = strlen(name);
    if (s->bytes == 0)
        return QKV_OK;
    if (s->key_length > sizeof name - prefix)
        return storage_fails(p, s, "its key is too long");
    memcpy(name + prefix, s->key, s->key_length);
    const qkv__zip_entry *e = qkv__zip_find(&a->zip, a->folder, a->length, name,
                                            prefix + s->key_length);
    if (!e)
        return storage_fails(p, s, "the archive does not hold it");
    if (e->size != s->bytes)
        return storage_fails(p, s, "its size is not what the pickle says");
    s->data = e->data;
    return QKV_OK;
}

static qkv_status read_archive(qkv__pytorch *p, qkv__value **out)
{
    archive a = {.folder = ""};
    qkv_status status = qkv__zip_read(&a.zip, p->ctx, p->arena, p->path, p->map.data,
                                      p->map.size);
    if (status)
        return status;
    const qkv__zip_entry *first = a.zip.first;
    const char *slash = first ? memchr(first->name, '/', first->name_length) : NULL;
    if (slash) {
        a.folder = first->name;
        a.length = (size_t)(slash - first->name);
    }
    const qkv__zip_entry *pickle = entry(&a, "data.pkl"), *order = entry(&a, "byteorder");
    if (entry(&a, "constants.pkl"))
        return unsupported(p, "refused: a TorchScript archive holds code");
    if (!pickle)
        return read_broken(p, "a zip archive without data.pkl: PyTorch did not write it");
    if (order && read_holds(order, "big"))
        return unsupported(p, "its numbers are big-endian; expected little-endian ones");
    if (order && !read_holds(order, "little"))
        return read_broken(p, "expected byteorder \"little\" or \"big\", found something else");
    const uint8_t *at = pickle->data;
    status = read_pickle(p, &at, at + pickle->size, out);
    for (size_t i = 0; i < p->objects.count && !status; i++)
        status = find_in_archive(p, &a, p->objects.storages[i]);
    return status;
}

/* ---- pickles one after another --------------------------------------------------------------- */

static bool is_integer(const qkv__value *v, int64_t x)
{
    return v->kind == QKV__VALUE_INT && v->as.integer == x;
}

/* The three pickles in front. */
static qkv_status check_machine(qkv__pytorch *p, const uint8_t **at, const uint8_t *end)
{
    static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    enum { MAGIC = 10, VERSION = 1001 };
    qkv__value *v;
    qkv_status status = read_pickle(p, at, end, &v);
    if (status)
        return status;
    if (v->kind != QKV__VALUE_LONG || v->as.text.length != MAGIC ||
        memcmp(v->as.text.data, magic, MAGIC) != 0)
        return read_broken(p,
                           "a pickle without PyTorch's magic number: torch.save did not write it");
    status = read_pickle(p, at, end, &v);
    if (!status && !is_integer(v, VERSION))
        status = read_broken(p, "expected version 1001 of PyTorch's older format, found another");
    if (!status)
        status = read_pickle(p, at, end, &v);
    const qkv__value *little = status ? NULL : qkv__value_find(v, "little_endian");
    if (!status && (!little || little->kind != QKV__VALUE_BOOL))
        status = read_broken(p, "expected to be told the order of bytes, found nothing");
    else if (!status && !little->as.integer)
        status = unsupported(p, "its numbers are big-endian; expected little-endian ones");
    return status;
}

static int compare_keys(const qkv__storage *x, const qkv__storage *y)
{
    if (x->key_length != y->key_length)
        return x->key_length < y->key_length ? -1 : 1;
    return x->key_length ? memcmp(x->key, y->key, x->key_length) : 0;
}

static int read_by_key(const void *a, const void *b)
{
    return compare_keys(*(qkv__storage *const *)a, *(qkv__storage *const *)b);
}

/* The first of the sorted storages that is not in front of the key. */
static size_t find_key(const qkv__pytorch_objects *o, const qkv__storage *key)
{
    size_t low = 0, high = o->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_keys(o->storages[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The numbers of one key, for every storage that has it. */
static qkv_status take_storage(qkv__pytorch *p, const qkv__value *key, const uint8_t **at)
{
    const qkv__pytorch_objects *o = &p->objects;
    const uint8_t *end = p->map.data + p->map.size;
    if (key->kind != QKV__VALUE_TEXT)
        return read_broken(p, "a storage's key is no text");
    const qkv__storage wanted = {.key = key->as.text.data, .key_length = key->as.text.length};
    size_t first = find_key(o, &wanted), bytes = 0;
    uint64_t count;
    if (first == o->count || compare_keys(o->storages[first], &wanted) != 0)
        return storage_fails(p, &wanted, "no tensor has it");
    if ((size_t)(end - *at) < sizeof count)
        return read_broken(p, "it is cut short");
    memcpy(&count, *at, sizeof count);
    *at += sizeof count;
    if (count > SIZE_MAX ||
        !qkv__mul_size((size_t)count, qkv_store_bytes(o->storages[first]->store), &bytes) ||
        bytes > (size_t)(end - *at))
        return storage_fails(p, &wanted, "the file is too short for it");
    for (size_t i = first; i < o->count && !compare_keys(o->storages[i], &wanted); i++) {
        if (o->storages[i]->bytes != bytes)
            return storage_fails(p, &wanted, "its size is not what the pickle says");
        o->storages[i]->data = *at;
    }
    *at += bytes;
    return QKV_OK;
}

static qkv_status read_legacy(qkv__pytorch *p, qkv__value **out)
{
    const uint8_t *at = p->map.data, *end = at + p->map.size;
    qkv__value *keys;
    qkv_status status = check_machine(p, &at, end);
    if (!status)
        status = read_pickle(p, &at, end, out);
    if (!status)
        status = read_pickle(p, &at, end, &keys);
    if (!status && keys->kind != QKV__VALUE_LIST)
        status = read_broken(p, "expected a list of storages' keys, found something else");
    if (status)
        return status;
    if (p->objects.count)
        qsort(p->objects.storages, p->objects.count, sizeof *p->objects.storages, read_by_key);
    for (size_t i = 0; i < keys->as.list.count && !status; i++)
        status = take_storage(p, keys->as.list.items[i], &at);
    for (size_t i = 0; i < p->objects.count && !status; i++)
        if (p->objects.storages[i]->bytes && !p->objects.storages[i]->data)
            status = storage_fails(p, p->objects.storages[i], "the file does not hold it");
    return status;
}

/* ---- shared ---------------------------------------------------------------------------------- */

/* A tar archive says "ustar" in its first header. */
static bool is_tar(const qkv__map *m)
{
    return m->size >= 512 && memcmp(m->data + 257, "ustar", 5) == 0;
}

static qkv_status pytorch_read_file(qkv__pytorch *p)
{
    qkv__value *root = NULL;
    qkv_status status = qkv__map_open(&p->map, p->ctx, p->path);
    if (status)
        return status;
    if (is_tar(&p->map))
        return unsupported(p, "a tar archive, PyTorch's first format; have a PyTorch of today "
                              "load and save it");
    bool pickle = p->map.size && memchr("\x80" "c(]})", p->map.data[0], 6);
    if (qkv__zip_begins(p->map.data, p->map.size))
        status = read_archive(p, &root);
    else if (pickle)
        status = read_legacy(p, &root);
    else
        return read_broken(p, "expected a PyTorch file (a zip archive or a pickle), found other "
                              "bytes");
    return status ? status : qkv__pytorch_collect(p, root);
}

qkv_status qkv__pytorch_open(qkv__pytorch **out, qkv_context *ctx, const char *path,
                             const qkv__pytorch_options *options)
{
    *out = NULL;
    qkv__pytorch *p = qkv_calloc(ctx, 1, sizeof *p);
    if (!p)
        return QKV_E_MEMORY;
    char *copy = NULL;
    p->ctx = p->objects.ctx = ctx;
    if (options && options->under && *options->under)
        p->under = options->under;
    p->objects.skip_objects = options && options->skip_objects;
    qkv_status status = qkv__arena_create(&p->arena, ctx, "pytorch");
    if (!status) {
        copy = qkv__arena_alloc(p->arena, strlen(path) + 1);
        status = copy ? QKV_OK : QKV_E_MEMORY;
    }
    if (!status) {
        p->path = p->objects.path = strcpy(copy, path);
        p->objects.arena = p->arena;
        status = pytorch_read_file(p);
    }
    if (status) {
        qkv__pytorch_close(p);
        return status;
    }
    *out = p;
    return QKV_OK;
}

void qkv__pytorch_close(qkv__pytorch *p)
{
    if (!p)
        return;
    qkv__map_close(&p->map);
    if (p->arena)
        qkv__arena_destroy(p->arena);
    qkv_free(p->ctx, p);
}

size_t qkv__pytorch_count(const qkv__pytorch *p)
{
    return p->count;
}

const qkv__pytorch_tensor *qkv__pytorch_at(const qkv__pytorch *p, size_t i)
{
    return &p->tensors[i];
}

size_t qkv__pytorch_left_out(const qkv__pytorch *p)
{
    return p->left_out;
}
