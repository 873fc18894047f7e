/* arena.c - memory handed out front to back, given back together.
 *
 * A chain of blocks while the need is still unknown; reset joins them into one block of the
 * high-water mark, so that a steady state of equal steps allocates nothing. */
#include "base/device.h"

enum { ALIGN = 64, MAX_BLOCKS = 1024 }; /* of the largest growth: 256 GB */
static const size_t FIRST_BLOCK = (size_t)1 << 18;
static const size_t LARGEST_GROWTH = (size_t)256 << 20;

typedef struct {
    char *data;
    size_t size, used;
} block;

struct qkv__arena {
    qkv_context *ctx;
    const qkv__device *device; /* whose memory is handed out */
    const char *name;
    block blocks[MAX_BLOCKS];
    size_t count;   /* blocks that exist */
    size_t current; /* the one being filled */
    size_t total;   /* bytes handed out */
    size_t high_water;
    bool failed;
};

static bool add_block(qkv__arena *a, size_t at_least)
{
    if (a->count == MAX_BLOCKS)
        return false;
    size_t have = 0;
    for (size_t i = 0; i < a->count; i++)
        have += a->blocks[i].size;
    size_t size = have < LARGEST_GROWTH ? have : LARGEST_GROWTH;
    if (size < FIRST_BLOCK)
        size = FIRST_BLOCK;
    if (size < at_least)
        size = at_least;
    char *data = a->device->alloc(a->ctx, size);
    if (!data)
        return false;
    a->blocks[a->count++] = (block){data, size, 0};
    return true;
}

qkv_status qkv__arena_create_on(qkv__arena **out, qkv_context *ctx, const qkv__device *device,
                                const char *name)
{
    *out = qkv_calloc(ctx, 1, sizeof **out);
    if (!*out)
        return QKV_E_MEMORY;
    (*out)->ctx = ctx;
    (*out)->device = device;
    (*out)->name = name;
    return QKV_OK;
}

qkv_status qkv__arena_create(qkv__arena **out, qkv_context *ctx, const char *name)
{
    return qkv__arena_create_on(out, ctx, &qkv__cpu, name);
}

void qkv__arena_destroy(qkv__arena *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++)
        a->device->free(a->ctx, a->blocks[i].data);
    qkv_free(a->ctx, a);
}

void *qkv__arena_alloc(qkv__arena *a, size_t bytes)
{
    size_t need = bytes > SIZE_MAX - ALIGN ? SIZE_MAX : (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (need == 0)
        need = ALIGN;
    while (a->current < a->count && a->blocks[a->current].size - a->blocks[a->current].used < need)
        a->current++;
    if (a->current == a->count && !add_block(a, need)) {
        a->current = a->count ? a->count - 1 : 0;
        a->failed = true;
        qkv_fail(a->ctx, QKV_E_MEMORY, "out of memory: %zu bytes of %s memory wanted, %zu in use",
                 bytes, a->name, a->total);
        return NULL;
    }
    block *b = &a->blocks[a->current];
    void *p = b->data + b->used;
    b->used += need;
    a->total += need;
    if (a->total > a->high_water)
        a->high_water = a->total;
    return p;
}

void *qkv__arena_zalloc(qkv__arena *a, size_t bytes)
{
    void *p = qkv__arena_alloc(a, bytes);
    if (p)
        a->device->fill(p, 0, bytes);
    return p;
}

qkv__mark qkv__arena_mark(const qkv__arena *a)
{
    return (qkv__mark){a->current, a->count ? a->blocks[a->current].used : 0, a->total};
}

void qkv__arena_release(qkv__arena *a, qkv__mark mark)
{
    for (size_t i = mark.block + 1; i < a->count; i++)
        a->blocks[i].used = 0;
    if (a->count)
        a->blocks[mark.block].used = mark.used;
    a->current = mark.block;
    a->total = mark.total;
}

void qkv__arena_reset(qkv__arena *a)
{
    if (a->count > 1) {
        size_t size = 0; /* with the tails that did not fit: the next chain would need them */
        for (size_t i = 0; i < a->count; i++) {
            size += a->blocks[i].used;
            a->device->free(a->ctx, a->blocks[i].data);
        }
        if (size < a->high_water)
            size = a->high_water;
        a->count = 0;
        add_block(a, size); /* if that fails, the next allocation says so */
    }
    for (size_t i = 0; i < a->count; i++)
        a->blocks[i].used = 0;
    a->current = 0;
    a->total = 0;
    a->failed = false;
}

bool qkv__arena_failed(const qkv__arena *a) { return a->failed; }

size_t qkv__arena_used(const qkv__arena *a) { return a->total; }
size_t qkv__arena_high_water(const qkv__arena *a) { return a->high_water; }
