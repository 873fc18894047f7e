/* golden.h - what the comparisons with golden tensors share. */
#ifndef QKV_TESTS_GOLDEN_H
#define QKV_TESTS_GOLDEN_H

#include <math.h>
#include <string.h>

#include "qkv/safetensors.h"

static inline double largest(const qkv_real *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* The same names, types, shapes and bytes in the same order. */
static inline void assert_same_tensors(const qkv_safetensors *a, const qkv_safetensors *b)
{
    assert_int_equal(qkv_safetensors_count(a), qkv_safetensors_count(b));
    for (size_t i = 0; i < qkv_safetensors_count(a); i++) {
        const qkv_safetensor *x = qkv_safetensors_at(a, i), *y = qkv_safetensors_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->dtype, y->dtype);
        assert_int_equal(x->ndim, y->ndim);
        assert_memory_equal(x->shape, y->shape, (size_t)x->ndim * sizeof *x->shape);
        assert_int_equal(x->bytes, y->bytes);
        if (memcmp(x->data, y->data, x->bytes) != 0)
            fail_msg("%s: other numbers", x->name);
    }
}

#endif
