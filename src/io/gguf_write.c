/* gguf_write.c - writing GGUF files, version 3. The numbers of a tensor pass through a buffer of a
 * few thousand. */
#include <math.h>
#include <string.h>

#include "io/gguf.h"

enum { VERSION = 3, ALIGNMENT = 32, NUMBERS = 16384 }; /* numbers: a multiple of all blocks */

/* ---- fields ---------------------------------------------------------------------------------- */

void qkv__gguf_fields_init(qkv__gguf_fields *f, qkv_context *ctx)
{
    *f = (qkv__gguf_fields){0};
    qkv_str_init(&f->bytes, ctx);
}

void qkv__gguf_fields_free(qkv__gguf_fields *f) { qkv_str_free(&f->bytes); }

static void gguf_append(qkv_str *s, const void *data, size_t bytes) { qkv_str_add(s, data, bytes); }

static void add_u32(qkv_str *s, uint32_t value) { gguf_append(s, &value, sizeof value); }

static void add_u64(qkv_str *s, uint64_t value) { gguf_append(s, &value, sizeof value); }

static void gguf_add_text(qkv_str *s, const char *text, size_t len)
{
    add_u64(s, len);
    gguf_append(s, text, len);
}

static void put_key(qkv__gguf_fields *f, const char *key, qkv__gguf_kind kind)
{
    gguf_add_text(&f->bytes, key, strlen(key));
    add_u32(&f->bytes, (uint32_t)kind);
    f->count++;
}

void qkv__gguf_put_u32(qkv__gguf_fields *f, const char *key, uint32_t value)
{
    put_key(f, key, QKV__GGUF_U32);
    add_u32(&f->bytes, value);
}

void qkv__gguf_put_f32(qkv__gguf_fields *f, const char *key, float value)
{
    put_key(f, key, QKV__GGUF_F32);
    gguf_append(&f->bytes, &value, sizeof value);
}

void qkv__gguf_put_bool(qkv__gguf_fields *f, const char *key, bool value)
{
    const uint8_t byte = value;
    put_key(f, key, QKV__GGUF_BOOL);
    gguf_append(&f->bytes, &byte, 1);
}

void qkv__gguf_put_string(qkv__gguf_fields *f, const char *key, const char *text)
{
    put_key(f, key, QKV__GGUF_STRING);
    gguf_add_text(&f->bytes, text, strlen(text));
}

void qkv__gguf_put_array(qkv__gguf_fields *f, const char *key, qkv__gguf_kind kind, size_t count)
{
    put_key(f, key, QKV__GGUF_ARRAY);
    add_u32(&f->bytes, (uint32_t)kind);
    add_u64(&f->bytes, count);
}

void qkv__gguf_put_bytes(qkv__gguf_fields *f, const char *key, const void *data, size_t size)
{
    qkv__gguf_put_array(f, key, QKV__GGUF_U8, size);
    gguf_append(&f->bytes, data, size);
}

void qkv__gguf_item_i32(qkv__gguf_fields *f, int32_t value)
{
    gguf_append(&f->bytes, &value, sizeof value);
}

void qkv__gguf_item_f32(qkv__gguf_fields *f, float value)
{
    gguf_append(&f->bytes, &value, sizeof value);
}

void qkv__gguf_item_string(qkv__gguf_fields *f, const char *text, size_t len)
{
    gguf_add_text(&f->bytes, text, len);
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct {
    qkv_context *ctx;
    qkv__writer *out;
    size_t at; /* bytes written */
    qkv_real *numbers;
    uint8_t *bytes;
} gguf_saver;

static size_t rounded_up(size_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static size_t gguf_entry_count(const qkv__gguf_entry *e)
{
    size_t count = 1;
    for (int i = 0; i < e->ndim; i++)
        count *= e->shape[i];
    return count;
}

static size_t gguf_entry_bytes(const qkv__gguf_entry *e)
{
    return gguf_entry_count(e) / e->type->block * e->type->bytes;
}

static qkv_status gguf_put(gguf_saver *s, const void *data, size_t bytes)
{
    s->at += bytes;
    return qkv__writer_put(s->out, data, bytes);
}

static qkv_status gguf_pad(gguf_saver *s)
{
    static const uint8_t zeros[ALIGNMENT] = {0};
    return gguf_put(s, zeros, rounded_up(s->at) - s->at);
}

static qkv_status gguf_put_header(gguf_saver *s, const qkv__gguf_fields *fields,
                             const qkv__gguf_entry *entries, size_t count)
{
    qkv_str h;
    size_t offset = 0;
    qkv_str_init(&h, s->ctx);
    qkv_str_puts(&h, "GGUF");
    add_u32(&h, VERSION);
    add_u64(&h, count);
    add_u64(&h, fields->count);
    gguf_append(&h, fields->bytes.data ? fields->bytes.data : "", fields->bytes.len);
    for (size_t i = 0; i < count; i++) {
        const qkv__gguf_entry *e = &entries[i];
        gguf_add_text(&h, e->name, strlen(e->name));
        add_u32(&h, (uint32_t)e->ndim);
        for (int d = e->ndim - 1; d >= 0; d--)
            add_u64(&h, e->shape[d]);
        add_u32(&h, e->type->id);
        add_u64(&h, offset);
        offset += rounded_up(gguf_entry_bytes(e));
    }
    qkv_status status = h.failed || fields->bytes.failed ? QKV_E_MEMORY
                                                         : gguf_put(s, h.data, h.len);
    qkv_str_free(&h);
    return status ? status : gguf_pad(s);
}

/* Of halves, which scales of blocks are, too. */
static qkv_status check_numbers(const gguf_saver *s, const qkv__gguf_entry *e, size_t n)
{
    const bool halves = e->type->block > 1 || strcmp(e->type->name, "F16") == 0;
    for (size_t i = 0; i < n && halves; i++)
        if (!(fabs((double)s->numbers[i]) <= QKV__GGUF_MOST_HALF))
            return qkv_fail(s->ctx, QKV_E_UNSUPPORTED, "tensor \"%s\": %s has room for numbers up "
                            "to %d, found %g", e->name, e->type->name, (int)QKV__GGUF_MOST_HALF,
                            (double)s->numbers[i]);
    return QKV_OK;
}

static qkv_status gguf_put_entry(gguf_saver *s, const qkv__gguf_entry *e)
{
    size_t count = gguf_entry_count(e), block = e->type->block;
    qkv_status status = QKV_OK;
    for (size_t at = 0; at < count && !status; at += NUMBERS) {
        size_t n = count - at < NUMBERS ? count - at : NUMBERS;
        if (e->blocks) {
            status = e->blocks(e->user, at / block, n / block, s->bytes);
        } else {
            status = e->fill(e->user, at, n, s->numbers);
            if (!status)
                status = check_numbers(s, e, n);
            if (!status)
                e->type->encode(s->bytes, s->numbers, n / block);
        }
        if (!status)
            status = gguf_put(s, s->bytes, n / block * e->type->bytes);
    }
    return status ? status : gguf_pad(s);
}

qkv_status qkv__gguf_save(qkv_context *ctx, const char *path, const qkv__gguf_fields *fields,
                          const qkv__gguf_entry *entries, size_t count)
{
    gguf_saver s = {.ctx = ctx};
    s.numbers = qkv_malloc(ctx, NUMBERS * sizeof *s.numbers);
    s.bytes = qkv_malloc(ctx, NUMBERS * sizeof(float));
    qkv_status status = s.numbers && s.bytes ? qkv__writer_open(&s.out, ctx, path) : QKV_E_MEMORY;
    if (!status)
        status = gguf_put_header(&s, fields, entries, count);
    for (size_t i = 0; i < count && !status; i++)
        status = gguf_put_entry(&s, &entries[i]);
    if (!status)
        status = qkv__writer_close(s.out);
    else
        qkv__writer_abandon(s.out);
    qkv_free(ctx, s.numbers);
    qkv_free(ctx, s.bytes);
    return status;
}
