/* products_kernel.c - products alone, in GF/s, by turns: the library's in f32, our own
 * (src/kernel/simd_gemm.c), packed ones (simd_packed.c) of the same rows, those with operands
 * rounded to bf16 that the processor has instructions for, and, where b is turned as weights are,
 * those with b in fewer bits (simd_small.h). Operands come from memory, as in a training step;
 * weights in fewer bits are the same ones again and again.
 *
 *   build/bench/bench_products_kernel [THREADS]   medians of TRIES
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "base/device.h"
#include "kernel/kernel.h"
#include "kernel/small.h"

#pragma weak qkv__kernels_dnnl
#pragma weak qkv__own_gemm_avx512
#pragma weak qkv__own_gemm_avx2
#pragma weak qkv__own_gemm_neon

enum { TRIES = 15, STORE = 1 << 28, LINE = 64 }; /* numbers: 1 GB, more than caches hold */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, TRIES, sizeof *x, ascending);
    return x[TRIES / 2];
}

static float *numbers(qkv_context *ctx, size_t n)
{
    float *x = qkv__cpu.alloc(ctx, n * sizeof *x);
    if (!x)
        exit(1);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 13) / 16 - 0.4f;
    return x;
}

/* Operands in memory, and where the next ones lie. */
typedef struct {
    float *x;
    size_t at;
} store;

static float *store_next(store *s, size_t n)
{
    enum { FLOATS = LINE / sizeof(float) };
    s->at = s->at + 2 * n > STORE ? 0 : s->at;
    float *x = s->x + s->at;
    s->at += (n + FLOATS - 1) / FLOATS * FLOATS;
    return x;
}

typedef struct {
    size_t m, n, k;
    bool ta, tb;
} shape;

typedef enum { PRODUCT_GEMM, PRODUCT_PACKED, PRODUCT_SMALL } product_way;

/* Kinds of products, by turns. */
typedef struct {
    const char *name;
    product_way way;
    qkv_k_gemm_fn *gemm;
    qkv_k_small w; /* of PRODUCT_SMALL: its type; the rest is made for each shape */
} product_kind;

/* Seconds of one product whose operands and result come from memory. */
static double seconds(qkv_k_gemm_fn *gemm, const qkv_exec *e, const shape *s, store *in,
                      store *out)
{
    const qkv_k_gemm_args g = {s->ta, s->tb, false, s->m, s->n, s->k, s->ta ? s->m : s->k,
                               s->tb ? s->k : s->n, s->n, NULL, 0};
    const float *a = store_next(in, s->m * s->k), *b = store_next(in, s->n * s->k);
    float *c = store_next(out, s->m * s->n);
    double start = now();
    gemm(e, c, a, b, &g);
    return now() - start;
}

static double seconds_packed(const qkv_exec *e, const shape *s, store *in, store *out)
{
    const qkv_kernels *k = qkv__kernels(qkv__cpu_isa());
    const float *a = store_next(in, s->m * s->k);
    const float *b = store_next(in, (s->n + QKV_K_PACKED) * s->k);
    float *c = store_next(out, s->m * s->n);
    double start = now();
    k->packed(e, c, s->n, a, s->k, b, NULL, s->m, s->n, s->k);
    return now() - start;
}

static double seconds_small(const qkv_exec *e, const shape *s, const qkv_k_small *w, store *in,
                            store *out)
{
    const qkv_kernels *k = qkv__kernels(qkv__cpu_isa());
    const float *a = store_next(in, s->m * s->k);
    float *c = store_next(out, s->m * s->n);
    double start = now();
    k->small(e, c, s->n, a, s->k, w, NULL, s->m);
    return now() - start;
}

static double seconds_of(const product_kind *kind, const qkv_exec *e, const shape *s, store *in,
                         store *out)
{
    switch (kind->way) {
    case PRODUCT_GEMM: return seconds(kind->gemm, e, s, in, out);
    case PRODUCT_PACKED: return seconds_packed(e, s, in, out);
    default: return seconds_small(e, s, &kind->w, in, out);
    }
}

enum { MOST_KINDS = 8 };

static size_t kinds_of(product_kind kinds[MOST_KINDS], qkv_k_gemm_fn *library, qkv_k_gemm_fn *own)
{
    static const struct {
        const char *name;
        bool (*has)(void);
        unsigned bit;
    } rounded[] = {{"bf16", qkv__cpu_bf16, QKV__BF16}, {"AMX", qkv__cpu_amx, QKV__BF16_AMX}};
    static const struct {
        const char *name;
        qkv_k_small_type type;
    } small[] = {{"w bf16", QKV_K_BF16}, {"w int8", QKV_K_INT8}, {"w int4", QKV_K_INT4}};
    size_t n = 0;
    kinds[n++] = (product_kind){.name = "library", .gemm = library};
    kinds[n++] = (product_kind){.name = "own", .gemm = own};
    kinds[n++] = (product_kind){.name = "packed", .way = PRODUCT_PACKED};
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        if (rounded[i].has() && qkv__cpu_isa() & QKV_ISA_AVX512)
            kinds[n++] = (product_kind){
                .name = rounded[i].name,
                .gemm = qkv__kernels(qkv__cpu_isa() | rounded[i].bit)->gemm};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        kinds[n++] = (product_kind){
            .name = small[i].name, .way = PRODUCT_SMALL, .w.type = small[i].type};
    return n;
}

/* Weights (n, k) in fewer bits; free w->words. */
static void make_small(qkv_k_small *w, const shape *s, const float *x)
{
    *w = (qkv_k_small){.type = w->type, .n = s->n, .k = s->k};
    size_t words = qkv__small_word_bytes(w), scales = qkv__small_scale_bytes(w);
    w->words = aligned_alloc(LINE, (words + scales + LINE - 1) / LINE * LINE);
    if (!w->words)
        exit(1);
    w->scales = (char *)w->words + words;
    qkv__small_round_all(w, x, 1);
}

static void time_shape(const qkv_exec *e, product_kind *kinds, size_t count, const shape *s,
                       store *in, store *out)
{
    double took[MOST_KINDS][TRIES], flops = 2e-9 * (double)(s->m * s->n * s->k);
    if (s->ta || !s->tb) /* no weights in fewer bits, which are the last kinds */
        while (kinds[count - 1].way == PRODUCT_SMALL)
            count--;
    for (size_t j = 0; j < count; j++)
        if (kinds[j].way == PRODUCT_SMALL)
            make_small(&kinds[j].w, s, in->x);
    for (size_t i = 0; i < TRIES; i++)
        for (size_t j = 0; j < count; j++)
            took[j][i] = seconds_of(&kinds[j], e, s, in, out);
    printf("%6zu x %5zu x %5zu  %s %s", s->m, s->n, s->k, s->ta ? "a turned" : "        ",
           s->tb ? "b turned" : "        ");
    for (size_t j = 0; j < count; j++)
        printf("  %s %6.1f", kinds[j].name, flops / median(took[j]));
    printf("\n");
    (void)fflush(stdout);
    for (size_t j = 0; j < count; j++)
        if (kinds[j].way == PRODUCT_SMALL)
            free(kinds[j].w.words);
}

int main(int argc, char **argv)
{
    static const shape shapes[] = {
        {1, 32000, 768, false, true},     {8, 3072, 768, false, true},
        {256, 512, 512, false, true},
        {1024, 768, 768, false, true},    {1024, 2304, 768, false, true},
        {1024, 3072, 768, false, true},   {1024, 768, 3072, false, true},
        {344, 50257, 768, false, true},   {4096, 512, 512, false, true},
        {4096, 2048, 512, false, true},   {256, 768, 768, false, true},
        {768, 768, 1024, true, false},    {2304, 768, 1024, true, false},
        {3072, 768, 1024, true, false},   {768, 3072, 1024, true, false},
        {1536, 512, 4096, true, false},   {2048, 512, 4096, true, false},
        {1024, 768, 768, false, false},   {1024, 768, 3072, false, false},
        {1024, 3072, 768, false, false},  {4096, 512, 2048, false, false},
        {64, 512, 512, false, false},     {256, 1024, 1024, false, false},
        {512, 2048, 512, false, false},   {32768, 256, 512, false, false},
    };
    qkv_context *ctx = NULL;
    qkv_exec e = {.threads = argc > 1 ? atoi(argv[1]) : 1};
    qkv_k_gemm_fn *own = qkv__own_gemm_neon;
    if (qkv__cpu_isa() & QKV_ISA_AVX2)
        own = qkv__cpu_isa() & QKV_ISA_AVX512 ? qkv__own_gemm_avx512 : qkv__own_gemm_avx2;
    if (e.threads < 1) {
        (void)fprintf(stderr, "usage: bench_products_kernel [THREADS]\n");
        return 1;
    }
    if (!own || qkv_context_create(&ctx, NULL) || qkv__arena_create(&e.scratch, ctx, "scratch"))
        return 1;
    qkv_kernels library = *qkv__kernels(QKV_ISA_REFERENCE);
    if (qkv__kernels_dnnl)
        qkv__kernels_dnnl(&library);
    store in = {numbers(ctx, STORE), 0}, out = {numbers(ctx, STORE), 0};
    product_kind kinds[MOST_KINDS];
    const size_t count = kinds_of(kinds, library.gemm, own);
    printf("GF/s, %d threads, %s\n", e.threads, qkv_machine_cpu());
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        time_shape(&e, kinds, count, &shapes[i], &in, &out);
    qkv__cpu.free(ctx, in.x);
    qkv__cpu.free(ctx, out.x);
    qkv__arena_destroy(e.scratch);
    qkv_context_destroy(ctx);
    return 0;
}
