/* test_kept_copies.c - products of arrays that other kernels change between them: a device that
 * keeps rounded copies of what it multiplies must notice. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "kernels.h"

enum { M = 96, K = 264, N = 80 };

static const qkv_kernels *plain;

/* A product against that of the plain kernel, which does not round. */
static void check_product(const char *what, const kernel_case *c, const float *got, const float *a,
                          const float *b, const qkv_k_gemm_args *g)
{
    float *want = poisoned(g->m * g->n);
    double squares = 0; /* of a's numbers; those of b have a mean square of 1 */
    for (size_t i = 0; i < M * K; i++)
        squares += (double)a[i] * (double)a[i];
    plain->gemm(&c->e, want, a, b, g);
    for (size_t i = 0; i < g->m * g->n; i++)
        near_at(what, i, got[i], (double)want[i], 0.02,
                sqrt((double)g->k * squares / (M * K)));
}

/* y = act(x): y w^T and y^T g; then y changes, in one of several ways. */
static void check_sequence(const kernel_case *c)
{
    const qkv_k_gemm_args down = {.tb = true, .m = M, .n = N, .k = K, .lda = K, .ldb = K, .ldc = N};
    const qkv_k_gemm_args across = {.ta = true, .m = K, .n = N, .k = M, .lda = K, .ldb = N,
                                    .ldc = N};
    if (on_a_device())
        kernels_alone_write = true;
    const bool halves_too = on_a_device() && !strcmp(c->name, "bf16");
    for (int round = 0; round < (halves_too ? 6 : 5); round++) {
        float *x = randoms(M * K), *y = poisoned(M * K), *w = randoms(N * K), *g = randoms(M * N);
        float *c1 = poisoned(M * N), *c2 = poisoned(K * N), *c3 = poisoned(M * N);
        float *sums = poisoned(K), *weight = randoms(K);
        qkv_k_norm_args norm = {.N = M, .C = K, .eps = 1e-5};
        c->k->axpy(&c->e, y, x, 0, false, M * K); /* new arrays: a kernel has written */
        if (round % 2)
            c->k->act(&c->e, y, x, QKV_K_GELU, M * K);
        else
            c->k->norm(&c->e, y, NULL, NULL, NULL, x, NULL, weight, NULL, &norm);
        c->k->gemm(&c->e, c1, y, w, &down);
        c->k->sum_rows(&c->e, sums, y, K, false, M, K);
        c->k->gemm(&c->e, c2, y, g, &across);
        check_product("first", c, c1, y, w, &down);
        check_product("turned", c, c2, y, g, &across);
        switch (round) {
        case 0: c->k->axpy(&c->e, y, x, 3, true, M * K); break;
        case 1: c->k->swap(&c->e, y, x, M * K); break;
        case 2: c->k->act_bwd(&c->e, y, x, y, QKV_K_SILU, false, M * K); break;
        case 3: c->k->gemm(&c->e, y, g, w, &(qkv_k_gemm_args){.m = M, .n = K, .k = N, .lda = N,
                                                              .ldb = K, .ldc = K}); break;
        case 4: c->k->add(&c->e, y, y, x, M * K); break;
        default: { /* copies the bits of x, as twice as many numbers in bf16 */
            qkv_exec halves = c->e;
            halves.bf16 = 3;
            c->k->act(&halves, y, x, QKV_K_NONE, 2 * M * K);
        }
        }
        c->k->gemm(&c->e, c3, y, w, &down);
        check_product("changed", c, c3, y, w, &down);
        free_arrays();
    }
    if (on_a_device())
        kernels_alone_write = false;
}

/* ---- two threads, each with its own arrays ---- */

typedef struct {
    const qkv_kernels *k;
    float first; /* of its numbers */
    int wrong;
} worker;

/* Rows of one number, which axpy changes, times themselves: bf16 has these numbers exactly, and
 * there is room for the copies of both threads. */
static void *multiply_often(void *job)
{
    enum { ROUNDS = 600, NUMBERS = 100 };
    worker *w = job;
    qkv_context *ctx;
    qkv_exec e = {.threads = 1};
    qkv_context_options o = qkv_context_defaults();
    const qkv_k_gemm_args square = {.tb = true, .m = N, .n = N, .k = K, .lda = K, .ldb = K,
                                    .ldc = N};
    float *x = malloc(N * K * sizeof *x), *y = malloc(N * K * sizeof *y);
    float *ones = malloc(N * K * sizeof *ones);
    float *product = malloc(N * N * sizeof *product);
    if (!x || !y || !ones || !product || qkv_context_create(&ctx, &o) ||
        qkv__arena_create(&e.scratch, ctx, "scratch"))
        abort();
    for (size_t i = 0; i < N * K; i++)
        ones[i] = 1;
    for (int round = 0; round < ROUNDS; round++) {
        const int step = round % NUMBERS;
        const float number = w->first + (float)step;
        w->k->axpy(&e, x, ones, step ? 1 : w->first, step > 0, N * K);
        const bool copied = round % 4 == 3; /* act leaves a copy of what it writes */
        if (copied)
            w->k->act(&e, y, x, QKV_K_RELU, N * K);
        w->k->gemm(&e, product, copied ? y : x, copied ? y : x, &square);
        for (size_t i = 0; i < N * N; i++)
            w->wrong += product[i] != number * number * K;
    }
    qkv__arena_destroy(e.scratch);
    qkv_context_destroy(ctx);
    free(x), free(y), free(ones), free(product);
    return NULL;
}

static void check_threads(const kernel_case *c)
{
    worker workers[] = {{c->k, 1, 0}, {c->k, 100, 0}};
    pthread_t threads[2];
    if (on_a_device())
        kernels_alone_write = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, multiply_often, &workers[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    if (on_a_device())
        kernels_alone_write = false;
    assert_int_equal(workers[0].wrong + workers[1].wrong, 0);
}

/* The tables that round, too. */
static void check_rounding(void **state)
{
    (void)state;
    kernel_case c = {"bf16", qkv__kernels(QKV_ISA_AVX2 | QKV_ISA_AVX512 | QKV__BF16), kt.e};
    c.e.threads = 2;
    kt.name = c.name;
    qkv_rng_init(&kt.rng, 7, 11);
    if (qkv__cpu_isa() & QKV_ISA_AVX512) {
        check_sequence(&c);
        check_threads(&c);
    }
}

int main(void)
{
    plain = qkv__kernels(QKV_ISA_REFERENCE);
    const struct CMUnitTest tests[] = {KERNEL_CHECK(check_sequence), KERNEL_CHECK(check_threads),
                                       cmocka_unit_test(check_rounding)};
    return cmocka_run_group_tests(tests, kernel_setup, kernel_teardown);
}
