/* cpu.c - the CPU as a device: its memory is the host's. And a device's memory as the host sees
 * it. */
#include "base/device.h"

#include <string.h>
#include <sys/mman.h>

static const size_t HUGE_FROM = (size_t)8 << 20;
static const size_t CLEAR_FROM = (size_t)1 << 18; /* less is written over */

/* Huge pages: fewer faults when the memory is new, and fewer page-table walks ever after. */
static void *cpu_alloc(qkv_context *ctx, size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    void *p = qkv_malloc(ctx, bytes);
    if (!p || bytes < HUGE_FROM || qkv__context_meta(ctx))
        return p;
    uintptr_t from = ((uintptr_t)p + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)p + bytes) / page * page;
    madvise((void *)from, to - from, MADV_HUGEPAGE); /* a hint: failure does not matter */
    return p;
}

static void cpu_copy(void *to, const void *from, size_t bytes)
{
    memmove(to, from, bytes);
}

static void cpu_fill(void *to, int byte, size_t bytes)
{
    memset(to, byte, bytes);
}

/* Private pages that are given back are zeros when they are read again. */
static void cpu_clear(qkv_context *ctx, void *p, size_t bytes)
{
    const size_t page = (size_t)4 << 10;
    char *end = (char *)p + bytes;
    char *from = (char *)(((uintptr_t)p + page - 1) / page * page);
    char *to = (char *)((uintptr_t)end / page * page);
    if (bytes < CLEAR_FROM || !qkv__context_owns_pages(ctx) ||
        madvise(from, (size_t)(to - from), MADV_DONTNEED)) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, (size_t)(from - (char *)p));
    memset(to, 0, (size_t)(end - to));
}

static void meta_clear(qkv_context *ctx, void *p, size_t bytes)
{
    (void)ctx, (void)p, (void)bytes;
}

static void meta_copy(void *to, const void *from, size_t bytes)
{
    (void)to, (void)from, (void)bytes;
}

static void meta_fill(void *to, int byte, size_t bytes)
{
    (void)to, (void)byte, (void)bytes;
}

static qkv_status nothing_waits(qkv_context *ctx)
{
    (void)ctx;
    return QKV_OK;
}

const qkv__device qkv__cpu = {"CPU", true, cpu_alloc, qkv_free, cpu_copy, cpu_copy, cpu_copy,
                              cpu_fill, cpu_clear, nothing_waits, nothing_waits, NULL, 0, 0,
                              false, false};
const qkv__device qkv__meta = {"dry", true, cpu_alloc, qkv_free, cpu_copy, cpu_copy, meta_copy,
                               meta_fill, meta_clear, nothing_waits, nothing_waits, NULL, 0, 0,
                               false, false};

void *qkv__map(qkv_context *ctx, void *p, size_t bytes)
{
    const qkv__device *d = qkv__context_device(ctx);
    void *copy = d->host ? p : qkv_malloc(ctx, bytes);
    if (copy && copy != p)
        d->copy_out(copy, p, bytes);
    return copy;
}

void qkv__unmap(qkv_context *ctx, void *mapped, void *p, size_t bytes, bool write)
{
    if (mapped == p || !mapped)
        return;
    if (write)
        qkv__context_device(ctx)->copy_in(p, mapped, bytes);
    qkv_free(ctx, mapped);
}
