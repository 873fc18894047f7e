/* pixels_split.c - which images of a set are trained on and which evaluate. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "io/file.h"
#include "qkv/pixels.h"

/* Images whose names begin alike share a key. */
typedef struct {
    uint64_t key;
    size_t image;
} keyed;

/* What is said of each image while the parts are made. */
enum { TRAIN, VALID, NEITHER };

/* Whether the images of each class stand together, as they do in folders; false without memory
 * to find out. Images without a class may stand anywhere. */
static bool sorted_by_class(qkv_context *ctx, const qkv_pixels *p)
{
    size_t classes = qkv_pixels_classes(p);
    bool *met = qkv_calloc(ctx, classes + 1, sizeof *met), sorted = met && classes;
    for (size_t i = 0, last = SIZE_MAX; i < qkv_pixels_count(p) && sorted; i++) {
        if (qkv_pixels_class(p, i) < 0)
            continue;
        size_t class_ = (size_t)qkv_pixels_class(p, i);
        sorted = class_ == last || !met[class_];
        met[class_] = true;
        last = class_;
    }
    qkv_free(ctx, met);
    return sorted;
}

static void hold_last(const qkv_pixels *p, uint8_t *part, size_t valid)
{
    for (size_t i = qkv_pixels_count(p); valid && i--;)
        if (part[i] == TRAIN) {
            part[i] = VALID;
            valid--;
        }
}

/* The first classes hold one more where they do not share equally. */
static qkv_status hold_classes(qkv_context *ctx, const qkv_pixels *p, uint8_t *part, size_t valid)
{
    size_t classes = qkv_pixels_classes(p);
    if (!classes)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the images have no classes to hold out some of");
    size_t *left = qkv_calloc(ctx, classes, sizeof *left);
    if (!left)
        return QKV_E_MEMORY;
    for (size_t c = 0; c < classes; c++)
        left[c] = valid / classes + (c < valid % classes);
    for (size_t i = qkv_pixels_count(p); i--;) {
        int32_t class_ = qkv_pixels_class(p, i);
        if (part[i] == TRAIN && class_ >= 0 && left[class_]) {
            part[i] = VALID;
            left[class_]--;
        }
    }
    qkv_free(ctx, left);
    return QKV_OK;
}

static int pixels_split_by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->image < y->image ? -1 : x->image > y->image;
}

/* FNV-1a alone leaves names that begin alike together: its high bits hardly know the last
 * letters. */
static uint64_t group_key(const char *name)
{
    qkv_rng r;
    qkv_rng_init(&r, 0, qkv_hash64(name, strcspn(name, "-.")));
    uint64_t high = qkv_rng_u32(&r);
    return high << 32 | qkv_rng_u32(&r);
}

/* Groups in the order of their keys, as long as they fit. */
static qkv_status hold_groups(qkv_context *ctx, const qkv_pixels *p, uint8_t *part, size_t valid)
{
    size_t n = qkv_pixels_count(p), held = 0;
    keyed *keys = qkv_calloc(ctx, n, sizeof *keys);
    if (!keys)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++) {
        keys[i] = (keyed){group_key(qkv_path_name(qkv_pixels_name(p, i))), i};
    }
    qsort(keys, n, sizeof *keys, pixels_split_by_key);
    for (size_t i = 0, end; i < n; i = end) {
        size_t size = 0;
        for (end = i; end < n && keys[end].key == keys[i].key; end++)
            size += part[keys[end].image] == TRAIN;
        bool fits = size <= valid - held;
        for (size_t k = i; fits && k < end; k++)
            if (part[keys[k].image] == TRAIN)
                part[keys[k].image] = VALID;
        held += fits ? size : 0;
    }
    qkv_free(ctx, keys);
    return QKV_OK;
}

static qkv_status hold(qkv_context *ctx, const qkv_pixels *p, uint8_t *part, size_t valid,
                       qkv_held_out_by by)
{
    if (by == QKV_SPLIT_AUTO)
        by = sorted_by_class(ctx, p) ? QKV_SPLIT_CLASS : QKV_SPLIT_LAST;
    if (by == QKV_SPLIT_CLASS)
        return hold_classes(ctx, p, part, valid);
    if (by == QKV_SPLIT_NAME)
        return hold_groups(ctx, p, part, valid);
    hold_last(p, part, valid);
    return QKV_OK;
}

static qkv_status pixels_split_list(qkv_held_out *s, const uint8_t *part, size_t n)
{
    s->train = qkv_calloc(s->ctx, n, sizeof *s->train);
    s->valid = qkv_calloc(s->ctx, n, sizeof *s->valid);
    if (!s->train || !s->valid)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        if (part[i] == TRAIN)
            s->train[s->train_count++] = i;
        else if (part[i] == VALID)
            s->valid[s->valid_count++] = i;
    return QKV_OK;
}

qkv_status qkv_pixels_split(qkv_held_out *out, qkv_context *ctx, const qkv_pixels *p, size_t valid,
                            qkv_held_out_by by, bool labelled)
{
    size_t n = qkv_pixels_count(p);
    *out = (qkv_held_out){.ctx = ctx};
    uint8_t *part = qkv_malloc(ctx, n);
    if (!part)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        part[i] = labelled && qkv_pixels_class(p, i) < 0 ? NEITHER : TRAIN;
    qkv_status status = valid ? hold(ctx, p, part, valid, by) : QKV_OK;
    if (!status)
        status = pixels_split_list(out, part, n);
    qkv_free(ctx, part);
    if (!status && valid && !out->valid_count)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "no %zu of %zu images can be held out", valid, n);
    else if (!status && !out->train_count)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%zu images held out of %zu leave none to train "
                          "on", valid, out->valid_count);
    if (status)
        qkv_held_out_free(out);
    return status;
}

void qkv_held_out_free(qkv_held_out *s)
{
    qkv_free(s->ctx, s->train);
    qkv_free(s->ctx, s->valid);
    *s = (qkv_held_out){0};
}
