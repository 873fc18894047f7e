/* grad_sums.c - what ops add to a gradient: an array times a factor, the sums that undo a
 * broadcast. */
#include <string.h>

#include "tensor/tape.h"

void qkv__grad_add(qkv_tape *t, qkv_tensor *x, const qkv_real *g, double factor, size_t n)
{
    bool acc;
    qkv_real *dx = g ? qkv__grad(t, x, &acc) : NULL;
    if (dx)
        t->k->axpy(&t->exec, dx, g, factor, acc, n);
}

void qkv__grad_broadcast(qkv_tape *t, qkv_tensor *x, const qkv_real *g, int ndim,
                         const size_t *gshape)
{
    bool acc;
    qkv_real *dx = qkv__grad(t, x, &acc);
    if (!dx)
        return;
    size_t C = qkv_count(x), N = 1;
    int missing = ndim - x->ndim;
    for (int i = 0; i < missing; i++)
        N *= gshape[i];
    size_t trailing = (size_t)x->ndim * sizeof *gshape;
    if (qkv__is_contiguous(x) && memcmp(x->shape, gshape + missing, trailing) == 0) {
        if (N == 1)
            t->k->axpy(&t->exec, dx, g, 1.0, acc, C);
        else
            t->k->sum_rows(&t->exec, dx, g, C, acc, N, C);
        return;
    }
    size_t gstride[QKV_MAX_DIMS], stride[QKV_MAX_DIMS], outer[QKV_MAX_DIMS], step[QKV_MAX_DIMS];
    size_t contiguous = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        gstride[i] = contiguous;
        contiguous *= gshape[i];
    }
    /* Axes of g that x lacks, or has with size 1, are summed over one index at a time, in order. */
    size_t shape[QKV_MAX_DIMS], kept[QKV_MAX_DIMS], repeats = 1;
    int n = 0, summed = 0;
    for (int i = 0; i < ndim; i++) {
        bool sum = i < missing || (x->shape[i - missing] == 1 && gshape[i] != 1);
        if (sum) {
            outer[summed] = gshape[i];
            step[summed++] = gstride[i];
            repeats *= gshape[i];
        } else {
            shape[n] = gshape[i];
            kept[n] = gstride[i];
            stride[n++] = x->stride[i - missing];
        }
    }
    for (size_t r = 0; r < repeats; r++) {
        size_t rest = r, offset = 0;
        for (int i = summed - 1; i >= 0; i--) {
            offset += rest % outer[i] * step[i];
            rest /= outer[i];
        }
        t->k->copy(&t->exec, dx, stride, g + offset, kept, shape, n, acc || r > 0);
    }
}
