/* slices.c - memory of gradients, from bucket to bucket. */
#include "train/slices.h"

#include "base/device.h"
#include "tensor/make.h"

typedef struct {
    qkv_real *memory;
    size_t count;
} spare_memory;

struct qkv__slices {
    qkv_context *ctx;
    qkv__partition *part;
    size_t ranks, rank;
    qkv__arena *memory;
    spare_memory *spare; /* (buckets at most) */
    size_t spares;
    size_t *room; /* (buckets) numbers that the memory of each has, perhaps more than it needs */
    qkv__slices_wait_fn *wait; /* or NULL */
    void *user;
};

/* The smallest spare memory that is large enough, or new one. */
static spare_memory take_spare(qkv__slices *s, size_t count)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < s->spares; i++)
        if (s->spare[i].count >= count &&
            (best == SIZE_MAX || s->spare[i].count < s->spare[best].count))
            best = i;
    if (best == SIZE_MAX)
        return (spare_memory){qkv__arena_alloc(s->memory, count * sizeof(qkv_real)), count};
    spare_memory found = s->spare[best];
    s->spare[best] = s->spare[--s->spares];
    return found;
}

/* Sizes of few kinds, so that one bucket's memory serves others. */
static size_t spare_size(const qkv__bucket *b)
{
    enum { STEP = 1 << 18 };
    return (b->count + STEP - 1) / STEP * STEP;
}

/* A qkv__grad_memory_fn. */
static void give_memory(void *slices, qkv_param *p)
{
    qkv__slices *s = slices;
    size_t b = s->part->bucket_of[qkv__param_index(p)];
    if (s->wait)
        s->wait(s->user);
    if (b == SIZE_MAX)
        return;
    spare_memory found = take_spare(s, spare_size(&s->part->buckets[b]));
    s->room[b] = found.count;
    if (found.memory)
        qkv__bucket_take(s->part, b, found.memory);
}

void qkv__slices_keep(void *slices, size_t bucket)
{
    qkv__slices *s = slices;
    qkv__bucket *b = &s->part->buckets[bucket];
    size_t from, to;
    qkv__bucket_slice(s->part, bucket, s->ranks, s->rank, &from, &to);
    if (to > from)
        qkv__context_device(s->ctx)->copy(b->slice, b->grad + from, (to - from) * sizeof *b->slice);
    s->spare[s->spares++] = (spare_memory){qkv__bucket_drop(s->part, bucket), s->room[bucket]};
}

static bool make_slices(qkv__slices *s)
{
    bool fine = true;
    for (size_t i = 0; i < s->part->bucket_count && fine; i++) {
        qkv__bucket *b = &s->part->buckets[i];
        size_t to;
        qkv__bucket_slice(s->part, i, s->ranks, s->rank, &b->slice_from, &to);
        b->slice = qkv__arena_alloc(s->memory, (to - b->slice_from + 1) * sizeof *b->slice);
        fine = b->slice != NULL;
    }
    return fine;
}

qkv_status qkv__slices_create(qkv__slices **out, qkv__partition *part, size_t ranks, size_t rank)
{
    qkv_context *ctx = qkv__params_context(part->params);
    qkv__slices *s = qkv_calloc(ctx, 1, sizeof *s);
    *out = NULL;
    if (!s)
        return QKV_E_MEMORY;
    *s = (qkv__slices){.ctx = ctx, .part = part, .ranks = ranks, .rank = rank};
    s->spare = qkv_calloc(ctx, part->bucket_count + 1, sizeof *s->spare);
    s->room = qkv_calloc(ctx, part->bucket_count + 1, sizeof *s->room);
    if (!s->spare || !s->room ||
        qkv__arena_create_on(&s->memory, ctx, qkv__context_device(ctx), "gradient") ||
        !make_slices(s)) {
        qkv__slices_destroy(s);
        return QKV_E_MEMORY;
    }
    qkv__params_on_grad_memory(part->params, give_memory, s);
    *out = s;
    return QKV_OK;
}

void qkv__slices_destroy(qkv__slices *s)
{
    if (!s)
        return;
    qkv__params_on_grad_memory(s->part->params, NULL, NULL);
    qkv__arena_destroy(s->memory);
    qkv_free(s->ctx, s->spare);
    qkv_free(s->ctx, s->room);
    qkv_free(s->ctx, s);
}

void qkv__slices_on_take(qkv__slices *s, qkv__slices_wait_fn *fn, void *user)
{
    s->wait = fn;
    s->user = user;
}

size_t qkv__slices_bytes(const qkv__slices *s) { return qkv__arena_used(s->memory); }
