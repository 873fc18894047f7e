/* write.c - tensors as torch.load reads them: {under: {name: tensor}} in the zip archive
 * that torch.save makes since 1.6. Archives beyond 2 GiB are refused: those of 4 take zip64. */
#include <stdio.h>
#include <string.h>

#include "io/convert.h"
#include "io/file.h"
#include "pytorch/pytorch.h"

/* ALIGNED: where torch.save begins numbers, so that they can be mapped. DATE: 1980-01-01. */
enum { CHUNK = 4096, ALIGNED = 64, DATE = 0x21, LOCAL_HEADER = 30, MOST_RECORDS = 65000 };
static const char FOLDER[] = "archive/";

typedef struct {
    qkv_context *ctx;
    const char *path;
    qkv__writer *out;
    qkv_str directory; /* the archive's, so far */
    size_t at, records; /* bytes and records written */
    uint32_t crc[256];  /* what a byte does to the checksum */
    qkv_real *reals;    /* (CHUNK) */
    uint8_t *stored;    /* (8 CHUNK) */
} archive;

/* ---- pickle --------------------------------------------------------------------------------- */

static void put_word(qkv_str *s, uint64_t word, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char byte = (char)(word >> (8 * i) & 0xff);
        qkv_str_add(s, &byte, 1);
    }
}

static void write_put_text(qkv_str *s, const char *text)
{
    qkv_str_puts(s, "X");
    put_word(s, strlen(text), 4);
    qkv_str_puts(s, text);
}

static void put_int(qkv_str *s, size_t n)
{
    qkv_str_puts(s, "J");
    put_word(s, n, 4);
}

static size_t count_of(const qkv_safetensors_entry *e)
{
    size_t count = 1;
    for (int i = 0; i < e->ndim; i++)
        count *= e->shape[i];
    return count;
}

/* _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()) */
static void put_tensor(qkv_str *s, const qkv_safetensors_entry *e, size_t number)
{
    const char *type = e->store == QKV_STORE_F32   ? "Float"
                                                   : e->store == QKV_STORE_F16 ? "Half"
                       : e->store == QKV_STORE_I64 ? "Long"
                                                   : "BFloat16";
    char key[24];
    (void)snprintf(key, sizeof key, "%zu", number);
    qkv_str_puts(s, "ctorch._utils\n_rebuild_tensor_v2\n((");
    write_put_text(s, "storage");
    qkv_str_printf(s, "ctorch\n%sStorage\n", type);
    write_put_text(s, key);
    write_put_text(s, "cpu");
    put_int(s, count_of(e));
    qkv_str_puts(s, "tQ");
    put_int(s, 0);
    qkv_str_puts(s, "(");
    for (int i = 0; i < e->ndim; i++)
        put_int(s, e->shape[i]);
    qkv_str_puts(s, "t(");
    for (int i = 0; i < e->ndim; i++) {
        size_t step = 1;
        for (int k = i + 1; k < e->ndim; k++)
            step *= e->shape[k];
        put_int(s, step);
    }
    qkv_str_puts(s, "t\x89" "ccollections\nOrderedDict\n)RtR");
}

static void put_pickle(qkv_str *s, const char *under, const qkv_safetensors_entry *entries,
                       size_t count)
{
    qkv_str_puts(s, "\x80\x02}");
    write_put_text(s, under);
    qkv_str_puts(s, "}(");
    for (size_t i = 0; i < count; i++) {
        write_put_text(s, entries[i].name);
        put_tensor(s, &entries[i], i);
    }
    qkv_str_puts(s, "us.");
}

/* ---- the archive ---------------------------------------------------------------------------- */

static qkv_status write_put(archive *a, const void *data, size_t size)
{
    a->at += size;
    return qkv__writer_put(a->out, data, size);
}

/* n numbers from begin on, as they are stored: at most CHUNK. */
static qkv_status write_take(archive *a, const qkv_safetensors_entry *e, size_t begin, size_t n,
                             const void **out)
{
    const qkv_real *from = e->data ? e->data + begin : a->reals;
    *out = a->stored;
    if (e->raw) {
        *out = (const uint8_t *)e->raw + begin * qkv_store_bytes(e->store);
        return QKV_OK;
    }
    if (e->fill_raw)
        return e->fill_raw(e->user, begin, n, a->stored);
    qkv_status status = e->data ? QKV_OK : e->fill(e->user, begin, n, a->reals);
    if (!status && !qkv__store_write(a->stored, from, e->store, n))
        status = qkv_fail(a->ctx, QKV_E_ARGUMENT, "%s: tensor \"%s\": F32, F16 or BF16 expected",
                          a->path, e->name);
    return status;
}

/* Writes the numbers, or only their checksum. */
static qkv_status write_walk(archive *a, const qkv_safetensors_entry *e, bool write, uint32_t *crc)
{
    size_t count = count_of(e), unit = qkv_store_bytes(e->store);
    qkv_status status = QKV_OK;
    *crc = UINT32_MAX;
    for (size_t at = 0; at < count && !status; at += CHUNK) {
        const void *bytes;
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        status = write_take(a, e, at, n, &bytes);
        if (!status && write)
            status = write_put(a, bytes, n * unit);
        for (size_t i = 0; !status && !write && i < n * unit; i++)
            *crc = *crc >> 8 ^ a->crc[(*crc ^ ((const uint8_t *)bytes)[i]) & 0xff];
    }
    *crc = ~*crc;
    return status;
}

/* What a record's two headers share: version, flags, method, time, date, checksum, sizes. */
static void put_facts(qkv_str *s, uint32_t crc, size_t bytes)
{
    put_word(s, 20, 2);
    put_word(s, 0, 6);
    put_word(s, DATE, 2);
    put_word(s, crc, 4);
    put_word(s, bytes, 4);
    put_word(s, bytes, 4);
}

static void put_local(qkv_str *s, const char *name, uint32_t crc, size_t bytes, size_t at)
{
    size_t length = sizeof FOLDER - 1 + strlen(name);
    size_t begun = at + LOCAL_HEADER + length + 4, pad = (ALIGNED - begun % ALIGNED) % ALIGNED;
    qkv_str_puts(s, "PK\3\4");
    put_facts(s, crc, bytes);
    put_word(s, length, 2);
    put_word(s, pad + 4, 2);
    qkv_str_printf(s, "%s%s", FOLDER, name);
    qkv_str_puts(s, "FB"); /* torch.save's own kind of padding */
    put_word(s, pad, 2);
    for (; pad; pad--)
        qkv_str_puts(s, "Z");
}

static void put_central(qkv_str *s, const char *name, uint32_t crc, size_t bytes, size_t at)
{
    qkv_str_puts(s, "PK\1\2");
    put_word(s, 20, 2);
    put_facts(s, crc, bytes);
    put_word(s, sizeof FOLDER - 1 + strlen(name), 2);
    put_word(s, 0, 8); /* no extra field, comment, disk; binary */
    put_word(s, 0, 4);
    put_word(s, at, 4);
    qkv_str_printf(s, "%s%s", FOLDER, name);
}

static qkv_status write_add_record(archive *a, const char *name, const qkv_safetensors_entry *e)
{
    uint32_t crc = 0;
    size_t begun = a->at, bytes = count_of(e) * qkv_store_bytes(e->store);
    qkv_str local;
    if (bytes > UINT32_MAX / 2 || a->at > UINT32_MAX / 2 || a->records > MOST_RECORDS)
        return qkv_fail(a->ctx, QKV_E_UNSUPPORTED, "%s: too large for such an archive; a "
                        ".safetensors file has no limit", a->path);
    qkv_status status = write_walk(a, e, false, &crc);
    if (status)
        return status;
    qkv_str_init(&local, a->ctx);
    put_local(&local, name, crc, bytes, begun);
    put_central(&a->directory, name, crc, bytes, begun);
    a->records++;
    status = local.failed || a->directory.failed ? QKV_E_MEMORY
                                                 : write_put(a, local.data, local.len);
    qkv_str_free(&local);
    return status ? status : write_walk(a, e, true, &crc);
}

static qkv_status write_add_bytes(archive *a, const char *name, const char *data, size_t size)
{
    const qkv_safetensors_entry e = {.name = name, .ndim = 1, .shape = &size,
                                     .store = QKV_STORE_U8, .raw = data};
    return write_add_record(a, name, &e);
}

static qkv_status pytorch_write_all(archive *a, const char *under,
                                    const qkv_safetensors_entry *entries, size_t count)
{
    char name[40];
    qkv_str pickle;
    qkv_str_init(&pickle, a->ctx);
    put_pickle(&pickle, under, entries, count);
    qkv_status status = pickle.failed ? QKV_E_MEMORY
                                      : write_add_bytes(a, "data.pkl", pickle.data, pickle.len);
    qkv_str_free(&pickle);
    if (!status)
        status = write_add_bytes(a, "byteorder", "little", 6);
    for (size_t i = 0; i < count && !status; i++) {
        (void)snprintf(name, sizeof name, "data/%zu", i);
        status = write_add_record(a, name, &entries[i]);
    }
    if (!status)
        status = write_add_bytes(a, "version", "3\n", 2);
    size_t begun = a->at, size = a->directory.len;
    qkv_str_puts(&a->directory, "PK\5\6");
    put_word(&a->directory, 0, 4);
    put_word(&a->directory, a->records, 2);
    put_word(&a->directory, a->records, 2);
    put_word(&a->directory, size, 4);
    put_word(&a->directory, begun, 4);
    put_word(&a->directory, 0, 2);
    if (!status)
        status = a->directory.failed ? QKV_E_MEMORY
                                     : write_put(a, a->directory.data, a->directory.len);
    return status;
}

qkv_status qkv__pytorch_write(qkv_context *ctx, const char *path, const char *under,
                              const qkv_safetensors_entry *entries, size_t count)
{
    archive a = {.ctx = ctx, .path = path};
    qkv_str_init(&a.directory, ctx);
    for (uint32_t i = 0; i < 256; i++) {
        a.crc[i] = i;
        for (int bit = 0; bit < 8; bit++)
            a.crc[i] = a.crc[i] >> 1 ^ (a.crc[i] & 1 ? 0xEDB88320u : 0);
    }
    a.reals = qkv_malloc(ctx, CHUNK * sizeof *a.reals);
    a.stored = qkv_malloc(ctx, CHUNK * 8);
    qkv_status status = a.reals && a.stored ? qkv__writer_open(&a.out, ctx, path) : QKV_E_MEMORY;
    if (!status)
        status = pytorch_write_all(&a, under, entries, count);
    if (status)
        qkv__writer_abandon(a.out);
    else
        status = qkv__writer_close(a.out);
    qkv_free(ctx, a.stored);
    qkv_free(ctx, a.reals);
    qkv_str_free(&a.directory);
    return status;
}
