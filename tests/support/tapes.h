/* tapes.h - a context and a tape for each test. */
#ifndef QKV_TESTS_TAPES_H
#define QKV_TESTS_TAPES_H

#include "failing.h"
#include "qkv/tensor.h"

typedef struct {
    failing memory; /* of ctx */
    qkv_context *ctx;
    qkv_tape *t;
} fixture;

static inline int setup(void **state)
{
    static fixture f;
    f.memory = (failing){.left = SIZE_MAX};
    qkv_context_options o = failing_options(&f.memory);
    o.threads = 0;
    assert_int_equal(qkv_context_create(&f.ctx, &o), QKV_OK);
    assert_int_equal(qkv_tape_create(&f.t, f.ctx), QKV_OK);
    *state = &f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    qkv_tape_destroy(f->t);
    assert_int_equal(qkv_context_memory(f->ctx).live_bytes, 0);
    qkv_context_destroy(f->ctx);
    assert_int_equal(f->memory.live, 0);
    return 0;
}

#endif
