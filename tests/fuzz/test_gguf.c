/* test_gguf.c - GGUF files under random changes; of what is accepted everything is walked. */
#include "fuzz.h"

#include "io/gguf.h"

/* What was read, so that reading is not left out. */
static volatile double sum;

static void walk_field(const qkv__gguf_field *f)
{
    for (size_t i = 0; i < f->count; i++) {
        size_t len = 0;
        if (f->texts) {
            const char *text = qkv__gguf_text(f, i, &len);
            for (size_t k = 0; k < len; k++)
                sum += text[k];
        } else if (f->kind != QKV__GGUF_BOOL) {
            sum += (double)qkv__gguf_int(f, i) + qkv__gguf_real(f, i);
        }
    }
}

static qkv_status read_gguf(qkv_context *ctx, const char *path)
{
    qkv__gguf *g;
    qkv_real x[64];
    qkv_status status = qkv_gguf_open(&g, ctx, path);
    if (status)
        return status;
    for (size_t i = 0; i < qkv_gguf_fields(g); i++)
        walk_field(qkv__gguf_field_at(g, i));
    for (size_t i = 0; i < qkv_gguf_tensors(g); i++) {
        const qkv__gguf_tensor *t = qkv__gguf_at(g, i);
        for (size_t at = 0; at < t->count; at += 64) {
            size_t n = t->count - at < 64 ? t->count - at : 64;
            if (qkv__gguf_read(g, t, at, n, x))
                break;
            for (size_t k = 0; k < n; k++)
                sum += (double)x[k];
        }
    }
    qkv_gguf_close(g);
    return QKV_OK;
}

const fuzz_target fuzz = {
    .read = read_gguf,
    .seeds = {QKV_SOURCE_DIR "/tests/golden/gguf/types.gguf"},
    .rounds = 8000,
};
