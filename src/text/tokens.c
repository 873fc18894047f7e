/* tokens.c - token files: ids of a text, packed and mapped.
 *
 *   the ids, little-endian, 2 or 4 bytes each; then, in the last 32 bytes, little-endian:
 *   offset  size  what
 *        0     8  "qkvtoken"
 *        8     4  version, 1
 *       12     4  bytes per id
 *       16     8  how many ids
 *       24     8  bytes of text they stand for
 * What describes the ids comes last because their number is known last.                      */
#include "qkv/tokens.h"

#include <string.h>

#include "base/base.h"
#include "io/file.h"

enum { TRAILER = 32, VERSION = 1 };
static const size_t PIECE = (size_t)1 << 20; /* bytes of text encoded at a time */
static const char magic[8] = {'q', 'k', 'v', 't', 'o', 'k', 'e', 'n'};

struct qkv_tokens {
    qkv_context *ctx;
    qkv__map map;   /* of the file, or nothing */
    uint8_t *owned; /* ids that were packed in memory, or NULL */
    const uint8_t *data;
    size_t width, count, bytes;
};

static void put_le(uint8_t *p, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *p, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* The sentence of a failure begins with the part's name. */
static qkv_status name_failure(qkv_context *ctx, const qkv_text_part *part, qkv_status status)
{
    return status && part->name ? qkv_fail_prefix(ctx, part->name) : status;
}

/* ---- packing --------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    qkv_tokenizer *tokenizer;
    qkv__writer *out;
    size_t width, count, bytes;
    qkv_ids ids;
    uint8_t *packed;
    size_t packed_size;
    bool (*progress)(void *user, size_t done);
    void *user;
} packer;

static qkv_status flush(packer *p)
{
    size_t size = p->ids.count * p->width;
    if (size > p->packed_size) {
        qkv_free(p->ctx, p->packed);
        p->packed_size = 0;
        p->packed = qkv_malloc(p->ctx, size);
        if (!p->packed)
            return QKV_E_MEMORY;
        p->packed_size = size;
    }
    for (size_t i = 0; i < p->ids.count; i++)
        put_le(p->packed + i * p->width, (uint64_t)p->ids.data[i], p->width);
    p->count += p->ids.count;
    p->ids.count = 0;
    return size ? qkv__writer_put(p->out, p->packed, size) : QKV_OK;
}

static qkv_status pack_part(packer *p, const qkv_text_part *part)
{
    size_t done = 0;
    while (done < part->len) {
        size_t left = part->len - done, take = left;
        if (left > PIECE) {
            take = qkv_tokenizer_cut(p->tokenizer, part->data + done, PIECE);
            if (take == 0) /* no place to cut: one huge piece */
                take = left;
        }
        qkv_status status =
            qkv_tokenizer_encode(p->tokenizer, part->data + done, take, 0, &p->ids);
        if (status)
            return name_failure(p->ctx, part, status);
        status = flush(p);
        if (status)
            return status;
        done += take;
        p->bytes += take;
        if (p->progress && !p->progress(p->user, p->bytes))
            return qkv_fail(p->ctx, QKV_E_CANCELLED, "stopped while packing text");
    }
    return QKV_OK;
}

static qkv_status pack_all(packer *p, const qkv_text_part *parts, size_t count)
{
    int32_t eos = qkv_tokenizer_special(p->tokenizer, QKV_TOKEN_EOS);
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (i > 0 && eos >= 0) {
            uint8_t id[4];
            put_le(id, (uint64_t)eos, p->width);
            status = qkv__writer_put(p->out, id, p->width);
            p->count++;
        }
        if (!status)
            status = pack_part(p, &parts[i]);
    }
    return status;
}

static qkv_status write_trailer(packer *p)
{
    uint8_t h[TRAILER];
    memcpy(h, magic, sizeof magic);
    put_le(h + 8, VERSION, 4);
    put_le(h + 12, p->width, 4);
    put_le(h + 16, p->count, 8);
    put_le(h + 24, p->bytes, 8);
    return qkv__writer_put(p->out, h, sizeof h);
}

qkv_status qkv_tokens_pack(qkv_context *ctx, qkv_tokenizer *tokenizer, const qkv_text_part *parts,
                           size_t count, const char *path,
                           bool (*progress)(void *user, size_t done), void *user)
{
    packer p = {.ctx = ctx, .tokenizer = tokenizer, .progress = progress, .user = user};
    p.width = qkv_tokenizer_vocab_size(tokenizer) <= 65536 ? 2 : 4;
    qkv_status status = qkv__writer_open(&p.out, ctx, path);
    if (status)
        return status;
    status = pack_all(&p, parts, count);
    if (!status)
        status = write_trailer(&p);
    if (status)
        qkv__writer_abandon(p.out);
    else
        status = qkv__writer_close(p.out);
    qkv_free(ctx, p.packed);
    qkv_ids_free(ctx, &p.ids);
    return status;
}

qkv_status qkv_tokens_pack_memory(qkv_tokens **out, qkv_context *ctx, qkv_tokenizer *tokenizer,
                                  const qkv_text_part *parts, size_t count)
{
    *out = NULL;
    int32_t eos = qkv_tokenizer_special(tokenizer, QKV_TOKEN_EOS);
    qkv_ids ids = {0};
    size_t bytes = 0;
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (i > 0 && eos >= 0)
            status = qkv_tokenizer_encode(tokenizer, qkv_tokenizer_token(tokenizer, eos, NULL),
                                          strlen(qkv_tokenizer_token(tokenizer, eos, NULL)), 0,
                                          &ids);
        if (!status)
            status = name_failure(ctx, &parts[i], qkv_tokenizer_encode(tokenizer, parts[i].data,
                                                                       parts[i].len, 0, &ids));
        bytes += parts[i].len;
    }
    qkv_tokens *t = status ? NULL : qkv_calloc(ctx, 1, sizeof *t);
    uint8_t *owned = t ? qkv_malloc(ctx, ids.count * 4) : NULL;
    if (owned) {
        for (size_t i = 0; i < ids.count; i++)
            put_le(owned + 4 * i, (uint64_t)ids.data[i], 4);
        *t = (qkv_tokens){.ctx = ctx, .owned = owned, .data = owned, .width = 4,
                          .count = ids.count, .bytes = bytes};
        *out = t;
    } else if (!status) {
        qkv_free(ctx, t);
        status = QKV_E_MEMORY;
    }
    qkv_ids_free(ctx, &ids);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------ */

static qkv_status read_trailer(qkv_tokens *t, const char *path)
{
    if (t->map.size < TRAILER || memcmp(t->map.data + t->map.size - TRAILER, magic, sizeof magic))
        return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: not a qkv token file, or cut short", path);
    const uint8_t *h = t->map.data + t->map.size - TRAILER;
    uint64_t version = get_le(h + 8, 4), width = get_le(h + 12, 4), count = get_le(h + 16, 8);
    if (version != VERSION)
        return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: version %d expected, %llu found", path, VERSION,
                        (unsigned long long)version);
    size_t body = t->map.size - TRAILER;
    if ((width != 2 && width != 4) || count > body / width || count * width != body)
        return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: %llu ids of %llu bytes do not fill %zu bytes",
                        path, (unsigned long long)count, (unsigned long long)width, body);
    t->width = (size_t)width;
    t->count = (size_t)count;
    t->bytes = (size_t)get_le(h + 24, 8);
    if (t->count && !t->bytes)
        return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: ids of no text", path);
    t->data = t->map.data;
    return QKV_OK;
}

qkv_status qkv_tokens_open(qkv_tokens **out, qkv_context *ctx, const char *path)
{
    *out = NULL;
    qkv_tokens *t = qkv_calloc(ctx, 1, sizeof *t);
    if (!t)
        return QKV_E_MEMORY;
    t->ctx = ctx;
    qkv_status status = qkv__map_open(&t->map, ctx, path);
    if (!status)
        status = read_trailer(t, path);
    if (status) {
        qkv_tokens_close(t);
        return status;
    }
    *out = t;
    return QKV_OK;
}

void qkv_tokens_close(qkv_tokens *t)
{
    if (!t)
        return;
    qkv__map_close(&t->map);
    qkv_free(t->ctx, t->owned);
    qkv_free(t->ctx, t);
}

size_t qkv_tokens_count(const qkv_tokens *t) { return t->count; }
size_t qkv_tokens_bytes(const qkv_tokens *t) { return t->bytes; }

void qkv_tokens_read(const qkv_tokens *t, size_t from, size_t n, int32_t *ids)
{
    const uint8_t *p = t->data + from * t->width;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)get_le(p + i * t->width, t->width);
}

int32_t qkv_tokens_max(const qkv_tokens *t)
{
    uint64_t max = 0;
    for (size_t i = 0; i < t->count; i++) {
        uint64_t id = get_le(t->data + i * t->width, t->width);
        max = id > max ? id : max;
    }
    return !t->count ? -1 : max < INT32_MAX ? (int32_t)max : INT32_MAX;
}

size_t qkv_tokens_windows(const qkv_tokens *t, size_t T)
{
    /* One less than would fit, so that the cut can start anywhere within the first window. */
    size_t fit = t->count > T ? (t->count - 1) / T : 0;
    return fit > 1 ? fit - 1 : fit;
}

void qkv_tokens_window(const qkv_tokens *t, uint64_t seed, uint64_t sample, size_t T, int32_t *ids,
                       int32_t *targets)
{
    uint64_t windows = qkv_tokens_windows(t, T);
    uint64_t epoch = sample / windows;
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64("windows", 7) + epoch);
    uint64_t slack = t->count - 1 - windows * T; /* tokens that no window of this cut holds */
    uint64_t offset = qkv_rng_below(&r, (uint32_t)slack + 1);
    uint64_t order = ((uint64_t)qkv_rng_u32(&r) << 32) | qkv_rng_u32(&r);
    uint64_t from = offset + qkv_shuffled(sample % windows, windows, order) * T;
    qkv_tokens_read(t, from, T, ids);
    qkv_tokens_read(t, from + 1, T, targets);
}
