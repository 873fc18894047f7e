/* products_kernel.c - products in f32 alone: the library's and our own (src/kernel/simd_gemm.c), by
 * turns, in GF/s, and packed ones (simd_packed.c) of the same rows.
 *
 *   build/bench/bench_products_kernel [THREADS]   medians of TRIES
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "kernel/kernel.h"

#pragma weak qkv__kernels_dnnl
#pragma weak qkv__own_gemm_avx512
#pragma weak qkv__own_gemm_avx2
#pragma weak qkv__own_gemm_neon

enum { TRIES = 15 };

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

static float *numbers(size_t n)
{
    float *x = malloc(n * sizeof *x);
    if (!x)
        exit(1);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 13) / 16 - 0.4f;
    return x;
}

static double seconds(qkv_k_gemm_fn *gemm, const qkv_exec *e, float *c, const float *a,
                      const float *b, const qkv_k_gemm_args *g)
{
    double start = now();
    gemm(e, c, a, b, g);
    return now() - start;
}

static void time_shape(const qkv_exec *e, qkv_k_gemm_fn *library, qkv_k_gemm_fn *own,
                       const size_t s[3], bool ta, bool tb)
{
    const qkv_kernels *k = qkv__kernels(qkv__cpu_isa());
    size_t m = s[0], n = s[1], depth = s[2];
    float *a = numbers(m * depth), *b = numbers((n + QKV_K_PACKED) * depth), *c = numbers(m * n);
    const qkv_k_gemm_args g = {ta, tb, false, m, n, depth, ta ? m : depth, tb ? depth : n, n, NULL,
                               0};
    double theirs[TRIES], ours[TRIES], packed[TRIES], flops = 2e-9 * (double)(m * n * depth);
    for (size_t i = 0; i < TRIES; i++) {
        theirs[i] = seconds(library, e, c, a, b, &g);
        ours[i] = seconds(own, e, c, a, b, &g);
        double start = now();
        k->packed(e, c, n, a, depth, b, NULL, m, n, depth);
        packed[i] = now() - start;
    }
    double l = flops / median(theirs), o = flops / median(ours), p = flops / median(packed);
    printf("%6zu x %5zu x %5zu  %s %s  library %6.1f  own %6.1f  (%.2f)  packed %6.1f\n", m, n,
           depth, ta ? "a turned" : "        ", tb ? "b turned" : "        ", l, o, o / l, p);
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    static const struct {
        size_t s[3];
        bool ta, tb;
    } shapes[] = {{{1024, 2304, 768}, false, true}, {{1024, 768, 3072}, false, true},
                  {{1024, 768, 3072}, false, false}, {{768, 768, 1024}, true, false},
                  {{3072, 768, 1024}, true, false}, {{2048, 512, 1576}, true, false},
                  {{2048, 512, 4096}, true, false}, {{32768, 768, 256}, false, true},
                  {{32768, 256, 512}, false, true}, {{197, 768, 768}, false, true}};
    qkv_context *ctx = NULL;
    qkv_exec e = {.threads = argc > 1 ? atoi(argv[1]) : 1};
    qkv_k_gemm_fn *own = qkv__own_gemm_neon;
    if (qkv__cpu_isa() & QKV_ISA_AVX2)
        own = qkv__cpu_isa() & QKV_ISA_AVX512 ? qkv__own_gemm_avx512 : qkv__own_gemm_avx2;
    if (!own || qkv_context_create(&ctx, NULL) || qkv__arena_create(&e.scratch, ctx, "scratch"))
        return 1;
    qkv_kernels library = *qkv__kernels(QKV_ISA_REFERENCE);
    if (qkv__kernels_dnnl)
        qkv__kernels_dnnl(&library);
    printf("GF/s, %d threads, %s\n", e.threads, qkv_machine_cpu());
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        time_shape(&e, library.gemm, own, shapes[i].s, shapes[i].ta, shapes[i].tb);
    qkv__arena_destroy(e.scratch);
    qkv_context_destroy(ctx);
    return 0;
}
