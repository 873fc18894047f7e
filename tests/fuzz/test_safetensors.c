/* test_safetensors.c - safetensors files under random changes, read as tensors and as the data of
 * training runs; of what is accepted everything is walked. */
#include "fuzz.h"

#include "qkv/pixels.h"
#include "qkv/records.h"
#include "qkv/tokens.h"

/* What was read, so that reading is not left out. */
static volatile size_t sum;

static void walk_tokens(qkv_tokens *t)
{
    int32_t id;
    for (size_t i = 0; i < qkv_tokens_count(t); i++) {
        qkv_tokens_read(t, i, 1, &id);
        sum += (size_t)id;
    }
    sum += (size_t)qkv_tokens_max(t) + qkv_tokens_bytes(t);
}

static void walk_records(qkv_context *ctx, qkv_records *r)
{
    qkv_packed_batches *packs;
    const uint64_t *members;
    for (size_t f = 0; f < qkv_records_fields(r); f++) {
        sum += (size_t)qkv_records_max(r, f) + qkv_records_ids(r, f);
        for (size_t i = 0; i < qkv_records_count(r); i++) {
            const int32_t *ids;
            size_t n = qkv_records_get(r, i, f, &ids);
            while (n--) {
                if (ids[n] < 0)
                    abort();
                sum += (size_t)ids[n];
            }
        }
    }
    if (qkv_records_count(r) && !qkv_packed_batches_create(&packs, ctx, r, 8, 1)) {
        for (uint64_t pack = 0; pack < 5; pack++)
            for (size_t n = qkv_packed_batches_get(packs, pack, &members); n--;)
                if (members[n] >= qkv_records_count(r))
                    abort();
        qkv_packed_batches_destroy(packs);
    }
}

static void walk_pixels(qkv_context *ctx, qkv_pixels *p)
{
    qkv_held_out split;
    double mean[3], std[3];
    size_t n = qkv_pixels_count(p);
    for (size_t i = 0; i < n; i++) {
        int32_t class_ = qkv_pixels_class(p, i);
        sum += strlen(qkv_pixels_name(p, i));
        sum += class_ < 0 ? 0 : strlen(qkv_pixels_class_name(p, (size_t)class_));
    }
    qkv_pixels_stats(p, NULL, n, mean, std);
    sum += mean[0] > 0;
    for (int by = 0; by < QKV_SPLITS; by++)
        if (!qkv_pixels_split(&split, ctx, p, 2, (qkv_held_out_by)by, by % 2))
            qkv_held_out_free(&split);
}

/* A failure's sentence names the file. */
static bool opened(qkv_context *ctx, const char *path, qkv_status status)
{
    if (status && !strstr(qkv_context_message(ctx), path))
        abort();
    return !status;
}

static qkv_status read_data(qkv_context *ctx, const char *path)
{
    qkv_tokens *t;
    qkv_records *r;
    qkv_pixels *p;
    if (opened(ctx, path, qkv_tokens_open(&t, ctx, path)))
        walk_tokens(t);
    if (opened(ctx, path, qkv_records_open(&r, ctx, path)))
        walk_records(ctx, r);
    if (opened(ctx, path, qkv_pixels_open(&p, ctx, path)))
        walk_pixels(ctx, p);
    qkv_tokens_close(t);
    qkv_records_close(r);
    qkv_pixels_close(p);
    return read_safetensors(ctx, path);
}

#define GOLDEN QKV_SOURCE_DIR "/tests/golden/io/"
const fuzz_target fuzz = {
    .read = read_data,
    .seeds = {GOLDEN "types.safetensors", GOLDEN "rounding.safetensors",
              GOLDEN "tokens.safetensors", GOLDEN "records.safetensors",
              GOLDEN "images.safetensors"},
    .rounds = 8000,
};
