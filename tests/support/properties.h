/* properties.h - a property on random numbers, with every set of kernels that the machine has. */
#ifndef QKV_TESTS_PROPERTIES_H
#define QKV_TESTS_PROPERTIES_H

#include "base/base.h"
#include "isas.h"
#include "qkv/tensor.h"

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_rng rng;
} fixture;

static inline void with_each_isa(void (*property)(fixture *f))
{
    for (size_t i = 0; i < ISAS; i++) {
        fixture f;
        if (!machine_has(isa_list[i]))
            continue;
        const qkv_context_options o = {.isa = isa_list[i], .threads = 2};
        assert_int_equal(qkv_context_create(&f.ctx, &o), QKV_OK);
        assert_int_equal(qkv_tape_create(&f.t, f.ctx), QKV_OK);
        qkv_rng_init(&f.rng, 11, 0);
        property(&f);
        if (qkv_tape_status(f.t))
            fail_msg("%s", qkv_context_message(f.ctx));
        qkv_tape_destroy(f.t);
        assert_int_equal(qkv_context_memory(f.ctx).live_bytes, 0);
        qkv_context_destroy(f.ctx);
    }
}

/* Normal numbers. */
static inline qkv_tensor *noise(fixture *f, int ndim, const size_t *shape)
{
    qkv_tensor *x = qkv_tensor_from(f->t, NULL, ndim, shape);
    assert_non_null(x);
    for (size_t i = 0; i < qkv_count(x); i++)
        qkv_tensor_fill(x)[i] = (qkv_real)qkv_rng_normal(&f->rng);
    return x;
}

#endif
