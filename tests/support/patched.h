/* patched.h - patching by hand: a probe that keeps what is at a place of one pass, and puts a part
 * of it into another. */
#ifndef QKV_TESTS_PATCHED_H
#define QKV_TESTS_PATCHED_H

#include <string.h>

#include "fixture.h"
#include "qkv/pipeline_look.h"

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

/* Patching, and its page. */
typedef struct {
    qkv_pipeline *p;
    qkv_look_input clean, corrupt;
    qkv_pipeline_patch_options options;
} patching_of;

/* A work_fn. */
static inline qkv_status patch_and_write(void *user)
{
    const patching_of *a = user;
    qkv_patch found = {0};
    qkv_status status = qkv_pipeline_patch(a->p, &a->clean, &a->corrupt, &a->options, &found);
    if (!status)
        status = qkv_patch_page(&found, NULL, in(folder, "page.html"));
    qkv_patch_free(&found);
    return status;
}

#endif
