/* tokens.c - token files: the ids of a text, packed and mapped.
 *
 * A safetensors file: `tokens`, U16 or I32 (count), and in the metadata "bytes", the length of the
 * text that they stand for. */
#include "qkv/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "io/safetensors_header.h"

static const size_t PIECE = (size_t)1 << 20; /* bytes of text encoded at a time */

struct qkv_tokens {
    qkv_context *ctx;
    qkv_safetensors *file;
    const qkv_safetensor *ids;
    size_t bytes;
};

static qkv_status tokens_take(qkv_tokens **out, qkv_context *ctx, qkv_safetensors *file,
                              const char *name);

/* ---- packing --------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    qkv_tokenizer *tokenizer;
    qkv__stream out;
    bool narrow; /* U16 */
    size_t count, bytes;
    qkv_ids ids;
    bool (*progress)(void *user, size_t done);
    void *user;
} packer;

/* Writes the ids; narrow ones are made in place. */
static qkv_status tokens_flush(packer *p)
{
    size_t n = p->ids.count;
    char *narrow = (char *)p->ids.data;
    for (size_t i = 0; i < n && p->narrow; i++) {
        uint16_t id = (uint16_t)p->ids.data[i];
        memcpy(narrow + 2 * i, &id, sizeof id);
    }
    p->count += n;
    p->ids.count = 0;
    return n ? qkv__stream_put(&p->out, p->ids.data, n * (p->narrow ? 2 : 4)) : QKV_OK;
}

static qkv_status pack_part(packer *p, const qkv_text_span *part)
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
        if (status) /* the sentence begins with the part's name */
            return part->name ? qkv_fail_prefix(p->ctx, part->name) : status;
        status = tokens_flush(p);
        if (status)
            return status;
        done += take;
        p->bytes += take;
        if (p->progress && !p->progress(p->user, p->bytes))
            return qkv_fail(p->ctx, QKV_E_CANCELLED, "stopped while packing text");
    }
    return QKV_OK;
}

static qkv_status pack_all(packer *p, const qkv_text_span *parts, size_t count)
{
    int32_t eos = qkv_tokenizer_special(p->tokenizer, QKV_TOKEN_EOS);
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (i > 0 && eos >= 0) { /* little-endian: its first two bytes are the narrow one */
            status = qkv__stream_put(&p->out, &eos, p->narrow ? 2 : 4);
            p->count++;
        }
        if (!status)
            status = pack_part(p, &parts[i]);
    }
    return status;
}

static qkv_status tokens_finish(packer *p, qkv_safetensors **out)
{
    char bytes[24];
    const char *const metadata[] = {"bytes", bytes, NULL};
    const qkv_safetensors_entry entry = {.name = "tokens", .ndim = 1, .shape = &p->count,
                                         .store = p->narrow ? QKV_STORE_U16 : QKV_STORE_I32,
                                         .raw = ""};
    snprintf(bytes, sizeof bytes, "%zu", p->bytes);
    return qkv__stream_finish(&p->out, &entry, 1, metadata, out);
}

qkv_status qkv_tokens_pack(qkv_tokens **out, qkv_context *ctx, qkv_tokenizer *tokenizer,
                           const qkv_text_span *parts, size_t count, const char *path,
                           bool (*progress)(void *user, size_t done), void *user)
{
    packer p = {.ctx = ctx, .tokenizer = tokenizer, .progress = progress, .user = user};
    qkv_safetensors *file = NULL;
    *out = NULL;
    p.narrow = qkv_tokenizer_vocab_size(tokenizer) <= 65536;
    qkv_status status = qkv__stream_begin(&p.out, ctx, path);
    if (!status)
        status = pack_all(&p, parts, count);
    if (!status)
        status = tokens_finish(&p, &file);
    if (!status)
        status = tokens_take(out, ctx, file, path);
    qkv__stream_abandon(&p.out);
    qkv_ids_free(&p.ids, ctx);
    return status;
}

/* ---- reading ------------------------------------------------------------------------------ */

static qkv_status tokens_check(qkv_tokens *t, const char *name)
{
    const qkv_safetensor *ids = qkv_safetensors_find(t->file, "tokens");
    const char *text = qkv_safetensors_metadata(t->file, "bytes");
    char *end = NULL;
    if (!ids || ids->ndim != 1 || (ids->store != QKV_STORE_U16 && ids->store != QKV_STORE_I32))
        return qkv_fail(t->ctx, QKV_E_FORMAT,
                        "%s: not a file of tokens: a tensor \"tokens\" of one "
                        "dimension, U16 or I32, expected",
                        name);
    errno = 0;
    unsigned long long bytes = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || (ids->count && !bytes))
        return qkv_fail(t->ctx, QKV_E_FORMAT, "%s: metadata \"bytes\": the length of the text "
                        "expected", name);
    t->ids = ids;
    t->bytes = (size_t)bytes;
    return QKV_OK;
}

/* The file is the tokens', or closed. */
static qkv_status tokens_take(qkv_tokens **out, qkv_context *ctx, qkv_safetensors *file,
                              const char *name)
{
    qkv_tokens *t = qkv_calloc(ctx, 1, sizeof *t);
    if (!t) {
        qkv_safetensors_close(file);
        return QKV_E_MEMORY;
    }
    *t = (qkv_tokens){.ctx = ctx, .file = file};
    qkv_status status = tokens_check(t, name ? name : "tokens");
    if (status)
        qkv_tokens_close(t);
    else
        *out = t;
    return status;
}

qkv_status qkv_tokens_open(qkv_tokens **out, qkv_context *ctx, const char *path)
{
    qkv_safetensors *file;
    *out = NULL;
    qkv_status status = qkv_safetensors_open(&file, ctx, path);
    return status ? status : tokens_take(out, ctx, file, path);
}

void qkv_tokens_close(qkv_tokens *t)
{
    if (!t)
        return;
    qkv_safetensors_close(t->file);
    qkv_free(t->ctx, t);
}

size_t qkv_tokens_count(const qkv_tokens *t) { return t->ids->count; }
size_t qkv_tokens_bytes(const qkv_tokens *t) { return t->bytes; }

void qkv_tokens_read(const qkv_tokens *t, size_t from, size_t n, int32_t *ids)
{
    const uint8_t *p = t->ids->data;
    if (t->ids->store == QKV_STORE_I32) {
        memcpy(ids, p + 4 * from, n * sizeof *ids);
        return;
    }
    for (size_t i = from; i < from + n; i++) {
        uint16_t id;
        memcpy(&id, p + 2 * i, sizeof id);
        *ids++ = id;
    }
}

int32_t qkv_tokens_max(const qkv_tokens *t)
{
    int32_t max = -1, id;
    for (size_t i = 0; i < t->ids->count; i++) {
        qkv_tokens_read(t, i, 1, &id);
        if (id < 0)
            return INT32_MAX;
        max = id > max ? id : max;
    }
    return max;
}

size_t qkv_tokens_windows(const qkv_tokens *t, size_t T)
{
    /* One less than would fit, so that the cut can start anywhere within the first window. */
    size_t fit = t->ids->count > T ? (t->ids->count - 1) / T : 0;
    return fit > 1 ? fit - 1 : fit;
}

void qkv_tokens_window(const qkv_tokens *t, uint64_t seed, uint64_t sample, size_t T, int32_t *ids,
                       int32_t *targets)
{
    uint64_t windows = qkv_tokens_windows(t, T);
    uint64_t epoch = sample / windows;
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64("windows", 7) + epoch);
    uint64_t slack = t->ids->count - 1 - windows * T; /* tokens that no window of this cut holds */
    uint64_t offset = qkv_rng_below(&r, (uint32_t)slack + 1);
    uint64_t order = ((uint64_t)qkv_rng_u32(&r) << 32) | qkv_rng_u32(&r);
    uint64_t from = offset + qkv_shuffled(sample % windows, windows, order) * T;
    qkv_tokens_read(t, from, T, ids);
    qkv_tokens_read(t, from + 1, T, targets);
}
