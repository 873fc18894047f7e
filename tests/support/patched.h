/* patched.h - patching by hand: a probe that keeps what is at a place of one pass, and puts a part
 * of it into another. */
#ifndef QKV_TESTS_PATCHED_H
#define QKV_TESTS_PATCHED_H

#include <string.h>

#include "qkv/tensor.h"

enum { PATCHED_MOST = 64 * 64 };

typedef struct {
    qkv_real kept[PATCHED_MOST];
    size_t from, count, stride, times; /* what is replaced: count numbers from `from`, `times` */
    bool replace;
} one_place;

static inline qkv_tensor *replace_one(void *user, qkv_tape *t, const char *name, qkv_tensor *x)
{
    one_place *o = user;
    size_t shape[QKV_MAX_DIMS];
    (void)name;
    assert_true(qkv_count(x) <= PATCHED_MOST);
    const qkv_real *data = qkv_data(t, x);
    if (!o->replace) {
        memcpy(o->kept, data, qkv_count(x) * sizeof *data);
        return x;
    }
    for (int i = 0; i < qkv_ndim(x); i++)
        shape[i] = qkv_dim(x, i);
    qkv_tensor *y = qkv_tensor_from(t, data, qkv_ndim(x), shape);
    for (size_t i = 0; i < o->times; i++)
        memcpy(qkv_tensor_fill(y) + o->from + i * o->stride, o->kept + o->from + i * o->stride,
               o->count * sizeof *data);
    return y;
}

#endif
