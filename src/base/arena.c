/* arena.c - memory handed out front to back, given back together.
 *
 * A chain of blocks while the need is still unknown; reset joins them into one block of the
 * high-water mark, so that a steady state of equal steps allocates nothing. */
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"

enum { ALIGN = 64, MAX_BLOCKS = 64 };
static const size_t FIRST_BLOCK = (size_t)1 << 20;
static const size_t LARGEST_GROWTH = (size_t)256 << 20;
static const size_t HUGE_FROM = (size_t)8 << 20;

typedef struct {
    char *data;
    size_t size, used;
} block;

struct qkv__arena {
    qkv_context *ctx;
    const char *name;
    block blocks[MAX_BLOCKS];
    size_t count;   /* blocks that exist */
    size_t current; /* the one being filled */
    size_t total;   /* bytes handed out */
    size_t high_water;
    bool failed;
};

void qkv__huge_pages(const qkv_context *ctx, void *p, size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    if (bytes < HUGE_FROM || qkv__context_dry(ctx))
        return;
    uintptr_t from = ((uintptr_t)p + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)p + bytes) / page * page;
    madvise((void *)from, to - from, MADV_HUGEPAGE); /* a hint: failure does not matter */
}

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
    char *data = qkv_malloc(a->ctx, size);
    if (!data)
        return false;
    qkv__huge_pages(a->ctx, data, size);
    a->blocks[a->count++] = (block){data, size, 0};
    return true;
}

qkv_status qkv__arena_create(qkv__arena **out, qkv_context *ctx, const char *name)
{
    *out = qkv_calloc(ctx, 1, sizeof **out);
    if (!*out)
        return QKV_E_MEMORY;
    (*out)->ctx = ctx;
    (*out)->name = name;
    return QKV_OK;
}

void qkv__arena_destroy(qkv__arena *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++)
        qkv_free(a->ctx, a->blocks[i].data);
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
    if (p && !qkv__context_dry(a->ctx))
        memset(p, 0, bytes);
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
            qkv_free(a->ctx, a->blocks[i].data);
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
