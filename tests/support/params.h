/* params.h - what tests of parameters have: a context with an owner of parameters and, if asked
 * for, a tape; and numbers that are to agree. Include after cmocka.h. */
#ifndef TEST_PARAMS_H
#define TEST_PARAMS_H

#include <math.h>

#include "qkv/tensor.h"

/* t NULL: no tape. */
static inline void params_begin(qkv_context **ctx, qkv_tape **t, qkv_params **ps)
{
    assert_int_equal(qkv_context_create(ctx, NULL), QKV_OK);
    if (t)
        assert_int_equal(qkv_tape_create(t, *ctx), QKV_OK);
    assert_int_equal(qkv_params_create(ps, *ctx), QKV_OK);
}

/* t may be NULL. Nothing may be left in memory. */
static inline void params_end(qkv_context *ctx, qkv_tape *t, qkv_params *ps)
{
    qkv_params_destroy(ps);
    qkv_tape_destroy(t);
    assert_int_equal(qkv_context_memory(ctx).live_bytes, 0);
    qkv_context_destroy(ctx);
}

static inline void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-6 * fmax(1.0, fabs(expected))))
        fail_msg("%.9g instead of %.9g", got, expected);
}

#endif
