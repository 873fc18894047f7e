/* products.h - what the tests of matrix products share: a context, scratch, random numbers.
 * Include after cmocka.h. */
#ifndef TEST_PRODUCTS_H
#define TEST_PRODUCTS_H

#include <stdlib.h>

#include "kernel/kernel.h"

typedef struct {
    qkv_context *ctx;
    qkv__arena *scratch;
    qkv_rng rng;
} fixture;

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(qkv_context_create(&f->ctx, NULL), QKV_OK);
    assert_int_equal(qkv__arena_create(&f->scratch, f->ctx, "scratch"), QKV_OK);
    qkv_rng_init(&f->rng, 1, 2);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    assert_int_equal(qkv__arena_used(f->scratch), 0); /* kernels give back what they take */
    qkv__arena_destroy(f->scratch);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
    free(f);
    return 0;
}

/* From -1 to 1. */
static inline void random_fill(fixture *f, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * qkv_rng_uniform(&f->rng) - 1);
}

/* From -1 to 1, the caller's to free. */
static inline float *random_array(fixture *f, size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    random_fill(f, x, n);
    return x;
}

#endif
