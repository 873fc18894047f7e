/* guarded.c - a device whose memory nobody can read or write but kernels and copies: between them
 * its pages are protected, so that code above the kernels that follows a pointer into it dies. New
 * memory is full of NaNs, and a kernel that gets a pointer into the host's memory ends the test.
 *
 * Programs linked with --wrap=qkv_context_create have every context on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/device.h"
#include "kernel/kernel.h"

static const size_t POOL = (size_t)1 << 36, PAGE = 4096;

typedef struct {
    size_t at, size;
    bool used;
    void *counted; /* as much of the host's: what the context's allocator allows and counts */
} region;

static char *pool;
static size_t top; /* bytes of the pool that regions cover, one behind the other */
static region *regions;
static size_t region_count, region_room;
static int inside; /* kernels and copies that run now */

static void protect(char *at, size_t size, int how)
{
    if (size && mprotect(at, size, how)) {
        perror("guarded: mprotect");
        abort();
    }
}

static void enter(void)
{
    if (inside++ == 0)
        protect(pool, top, PROT_READ | PROT_WRITE);
}

static void leave(void)
{
    if (--inside == 0)
        protect(pool, top, PROT_NONE);
}

/* ---- memory ------------------------------------------------------------------------------- */

static region *insert(size_t i, region r)
{
    if (region_count == region_room) {
        region_room = 2 * region_room + 64;
        regions = realloc(regions, region_room * sizeof *regions);
        if (!regions)
            abort();
    }
    memmove(regions + i + 1, regions + i, (region_count - i) * sizeof *regions);
    region_count++;
    regions[i] = r;
    return regions + i;
}

static void *guarded_alloc(qkv_context *ctx, size_t bytes)
{
    size_t size = (bytes / PAGE + 1) * PAGE, i = 0;
    if (!pool) {
        pool = mmap(NULL, POOL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pool == MAP_FAILED)
            abort();
    }
    while (i < region_count && (regions[i].used || regions[i].size < size))
        i++;
    if (i == region_count && (bytes > POOL || POOL - top < size)) {
        qkv_fail(ctx, QKV_E_MEMORY, "out of memory: %zu bytes of the device's wanted", bytes);
        return NULL;
    }
    void *counted = qkv_malloc(ctx, bytes);
    if (!counted)
        return NULL;
    enter();
    if (i == region_count) {
        insert(i, (region){.at = top, .size = size});
        protect(pool + top, size, PROT_READ | PROT_WRITE);
        top += size;
    } else if (regions[i].size > size) {
        insert(i + 1, (region){.at = regions[i].at + size, .size = regions[i].size - size});
    }
    regions[i] = (region){regions[i].at, size, true, counted};
    memset(pool + regions[i].at, 0xff, size);
    leave();
    return pool + regions[i].at;
}

static void guarded_free(qkv_context *ctx, void *p)
{
    for (size_t i = 0; p && i < region_count; i++) {
        if (pool + regions[i].at != p || !regions[i].used)
            continue;
        regions[i].used = false;
        qkv_free(ctx, regions[i].counted);
        madvise(p, regions[i].size, MADV_DONTNEED);
        for (size_t k = i + 1; k-- > 0 && k + 1 >= i;) /* joined with free neighbours */
            if (k + 1 < region_count && !regions[k].used && !regions[k + 1].used) {
                regions[k].size += regions[k + 1].size;
                region_count--;
                memmove(regions + k + 1, regions + k + 2,
                        (region_count - k - 1) * sizeof *regions);
            }
        return;
    }
    if (p)
        abort(); /* not ours, or freed twice */
}

static void check_inside(const char *kernel, const void *p, size_t bytes)
{
    const char *at = p;
    if (!p || (at >= pool && at < pool + top && bytes <= (size_t)(pool + top - at)))
        return;
    fprintf(stderr, "guarded: %s got memory that is not the device's\n", kernel);
    abort();
}

static void guarded_copy_in(void *to, const void *host, size_t bytes)
{
    enter();
    check_inside("copy_in", to, bytes);
    memcpy(to, host, bytes);
    leave();
}

static void guarded_copy_out(void *host, const void *from, size_t bytes)
{
    enter();
    check_inside("copy_out", from, bytes);
    memcpy(host, from, bytes);
    leave();
}

static void guarded_copy(void *to, const void *from, size_t bytes)
{
    enter();
    check_inside("copy", to, bytes);
    check_inside("copy", from, bytes);
    memmove(to, from, bytes);
    leave();
}

static void guarded_fill(void *to, int byte, size_t bytes)
{
    enter();
    check_inside("fill", to, bytes);
    memset(to, byte, bytes);
    leave();
}

static void guarded_clear(qkv_context *ctx, void *p, size_t bytes)
{
    (void)ctx;
    guarded_fill(p, 0, bytes);
}

static qkv_status guarded_sync(qkv_context *ctx)
{
    (void)ctx;
    return QKV_OK;
}

/* ---- kernels ------------------------------------------------------------------------------ */

/* The CPU's, of the context that asked last. */
static const qkv_kernels *plain, *bf16;

static void check_reals(const char *kernel, const qkv_real *p) { check_inside(kernel, p, 1); }
static void check_ids(const char *kernel, const int32_t *p) { check_inside(kernel, p, 1); }
static void check_nothing(const char *kernel, ...) { (void)kernel; }

static void check_gemm(const char *kernel, const qkv_k_gemm_args *a)
{
    check_inside(kernel, a->bias, 1);
}

static void check_attention(const char *kernel, const qkv_k_attention_args *a)
{
    check_inside(kernel, a->bias, 1);
}

static void check_stored(const char *kernel, const qkv_k_stored *x)
{
    check_inside(kernel, x->data, 1);
    check_inside(kernel, x->scale, 1);
}

static void check_map(const char *kernel, const qkv_k_channel_map_args *a)
{
    const qkv_real *const all[] = {a->m, a->q, a->u, a->p, a->r};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check_inside(kernel, all[i], 1);
}

#define CHECK(kernel, x)                                                                         \
    _Generic((x), qkv_real *: check_reals, const qkv_real *: check_reals, int32_t *: check_ids,  \
             const int32_t *: check_ids, const qkv_k_gemm_args *: check_gemm,                    \
             const qkv_k_attention_args *: check_attention,                                      \
             const qkv_k_stored *: check_stored,                                                 \
             const qkv_k_channel_map_args *: check_map, default: check_nothing)(kernel, x);
/* CHECK for each of at most 16 arguments. */
#define CHECKS_1(k, x, ...) CHECK(k, x)
#define CHECKS_2(k, x, ...) CHECK(k, x) CHECKS_1(k, __VA_ARGS__, 0)
#define CHECKS_3(k, x, ...) CHECK(k, x) CHECKS_2(k, __VA_ARGS__)
#define CHECKS_4(k, x, ...) CHECK(k, x) CHECKS_3(k, __VA_ARGS__)
#define CHECKS_5(k, x, ...) CHECK(k, x) CHECKS_4(k, __VA_ARGS__)
#define CHECKS_6(k, x, ...) CHECK(k, x) CHECKS_5(k, __VA_ARGS__)
#define CHECKS_7(k, x, ...) CHECK(k, x) CHECKS_6(k, __VA_ARGS__)
#define CHECKS_8(k, x, ...) CHECK(k, x) CHECKS_7(k, __VA_ARGS__)
#define CHECKS_9(k, x, ...) CHECK(k, x) CHECKS_8(k, __VA_ARGS__)
#define CHECKS_10(k, x, ...) CHECK(k, x) CHECKS_9(k, __VA_ARGS__)
#define CHECKS_11(k, x, ...) CHECK(k, x) CHECKS_10(k, __VA_ARGS__)
#define CHECKS_12(k, x, ...) CHECK(k, x) CHECKS_11(k, __VA_ARGS__)
#define CHECKS_13(k, x, ...) CHECK(k, x) CHECKS_12(k, __VA_ARGS__)
#define CHECKS_14(k, x, ...) CHECK(k, x) CHECKS_13(k, __VA_ARGS__)
#define CHECKS_15(k, x, ...) CHECK(k, x) CHECKS_14(k, __VA_ARGS__)
#define CHECKS_16(k, x, ...) CHECK(k, x) CHECKS_15(k, __VA_ARGS__)
#define ARGUMENTS(...) __VA_ARGS__

#define CHECK_ALL_(k, ...) CHECKS_16(k, __VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
#define CHECK_ALL(k, arguments) CHECK_ALL_(k, ARGUMENTS arguments)

#define GUARD(which, name, parameters, arguments)                                                \
    static void which##_##name parameters                                                        \
    {                                                                                            \
        CHECK_ALL(#name, arguments)                                                              \
        enter();                                                                                 \
        which->name arguments;                                                                   \
        leave();                                                                                 \
    }
#define GUARD_SUM(which, name, parameters, arguments)                                            \
    static double which##_##name parameters                                                      \
    {                                                                                            \
        CHECK_ALL(#name, arguments)                                                              \
        enter();                                                                                 \
        double sum = which->name arguments;                                                      \
        leave();                                                                                 \
        return sum;                                                                              \
    }
#define KERNEL(name, parameters, arguments) GUARD(plain, name, parameters, arguments)
#define KERNEL_SUM(name, parameters, arguments) GUARD_SUM(plain, name, parameters, arguments)
#include "kernel/slots.h"
#define KERNEL(name, parameters, arguments) GUARD(bf16, name, parameters, arguments)
#define KERNEL_SUM(name, parameters, arguments) GUARD_SUM(bf16, name, parameters, arguments)
#include "kernel/slots.h"

static const qkv_kernels tables[] = {
    {
#define KERNEL(name, parameters, arguments) .name = plain_##name,
#define KERNEL_SUM(name, parameters, arguments) .name = plain_##name,
#include "kernel/slots.h"
    },
    {
#define KERNEL(name, parameters, arguments) .name = bf16_##name,
#define KERNEL_SUM(name, parameters, arguments) .name = bf16_##name,
#include "kernel/slots.h"
    }};

static const qkv_kernels *kernels_on_guard(unsigned isa)
{
    bool rounds = isa & QKV__BF16_ANY;
    *(rounds ? &bf16 : &plain) = qkv__kernels(isa);
    return &tables[rounds];
}

static const qkv__device guarded = {
    "guarded", false, guarded_alloc, guarded_free, guarded_copy_in, guarded_copy_out,
    guarded_copy, guarded_fill, guarded_clear, guarded_sync, guarded_sync, kernels_on_guard, 0, 0,
    false, false};

/* ---- contexts ----------------------------------------------------------------------------- */

qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options);

qkv_status __wrap_qkv_context_create(qkv_context **out, const qkv_context_options *options)
{
    return qkv__context_create_on(out, options, options && options->meta ? &qkv__meta : &guarded);
}
