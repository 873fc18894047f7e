/* op_upsample.c - every pixel several times: nearest-neighbour upsampling. Seen as (B, H, factor,
 * W, factor, C), two axes of the larger image repeat what the smaller one has once. */
#include "tensor/tape.h"

enum { AXES = 6 };

/* The larger image's axes, and its strides over itself and over the smaller one. */
typedef struct {
    size_t shape[AXES], large[AXES], small[AXES];
} axes;

static axes axes_of(const qkv_tensor *x, size_t factor)
{
    const size_t *s = x->shape, W = s[2], C = s[3], row = W * factor * C;
    return (axes){.shape = {s[0], s[1], factor, W, factor, C},
                  .large = {s[1] * factor * row, factor * row, row, factor * C, C, 1},
                  .small = {s[1] * W * C, W * C, 0, C, 0, 1}};
}

/* Number i of y's gradient. */
static const qkv_real *number_at(const qkv_tensor *y, const qkv_real *dy, size_t i)
{
    const void *p = (const char *)dy + i * qkv__dtype_size(y->dtype);
    return p;
}

/* dx is the sum over the factor x factor copies of each pixel. */
static void upsample_backward(qkv_tape *t, const qkv__node *n)
{
    const size_t *factor = n->params;
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(n->out[0]) ? 2 : 0);
    axes a = axes_of(n->in[0], *factor);
    const qkv_real *dy = qkv__grad_out(t, n, 0);
    bool acc;
    qkv_real *dx = qkv__grad(t, n->in[0], &acc);
    a.shape[2] = a.shape[4] = 1;
    for (size_t i = 0; dx && i < *factor; i++)
        for (size_t j = 0; j < *factor; j++, acc = true)
            t->k->copy(&e, dx, a.small, number_at(n->out[0], dy, i * a.large[2] + j * a.large[4]),
                       a.large, a.shape, AXES, acc);
}

static void upsample_forward(qkv_tape *t, qkv_tensor *y, const qkv_tensor *x, size_t factor)
{
    const axes a = axes_of(x, factor);
    const qkv_exec e = qkv__exec_bf16(t, qkv__is_rounded(y) ? 1 : 0);
    t->k->copy(&e, qkv__real(y), a.large, qkv__real(x), a.small, a.shape, AXES, false);
}

static void upsample_again(qkv_tape *t, const qkv__node *n)
{
    const size_t *factor = n->params;
    upsample_forward(t, n->out[0], n->in[0], *factor);
}

static const qkv_op upsample_op = {.name = "upsample", .backward = upsample_backward,
                                   .again = upsample_again};

qkv_tensor *qkv_upsample(qkv_tape *t, qkv_tensor *x, size_t factor)
{
    size_t shape[4];
    x = qkv__widened(t, x);
    if (!qkv__ready_contiguous(t, "upsample", 1, &x))
        return NULL;
    if (x->ndim != 4 || !factor || !qkv__mul_size(x->shape[1], factor, &shape[1]) ||
        !qkv__mul_size(x->shape[2], factor, &shape[2]))
        return qkv__op_fail(t, "upsample", "x %s does not grow %zu times", qkv__shape_text(t, x),
                            factor);
    shape[0] = x->shape[0];
    shape[3] = x->shape[3];
    const qkv_dtype dtype = qkv__dtype_of_output(t, 1, &x);
    qkv_tensor *y = dtype == QKV_REAL ? qkv__new_remade(t, 4, shape, 1, &x)
                                      : qkv__new(t, dtype, 4, shape);
    if (!y)
        return NULL;
    upsample_forward(t, y, x, factor);
    return qkv__record(t, &upsample_op, 1, &x, 1, &y, &factor, sizeof factor);
}
