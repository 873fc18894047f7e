/* patchify.c - images cut into patches, one row each, and put together again: two reshapes with
 * a permutation between them. A linear layer on patches is a convolution whose stride is its
 * window. */
#include "tensor/tape.h"

/* Between (B, rows, p, columns, p, C) and (B, rows, columns, p, p, C), both ways. */
static const int exchanged[] = {0, 1, 3, 2, 4, 5};

qkv_tensor *qkv_patchify(qkv_tape *t, qkv_tensor *x, size_t patch)
{
    if (!qkv__ready(t, "patchify", 1, &x))
        return NULL;
    if (x->ndim != 4 || patch == 0 || x->shape[1] % patch || x->shape[2] % patch)
        return qkv__op_fail(t, "patchify", "images %s cannot be cut into patches of %zu x %zu "
                            "pixels", qkv__shape_text(t, x), patch, patch);
    const size_t B = x->shape[0], rows = x->shape[1] / patch, columns = x->shape[2] / patch;
    const size_t C = x->shape[3], cut[] = {B, rows, patch, columns, patch, C};
    const size_t joined[] = {B, rows * columns, patch * patch * C};
    return qkv_reshape(t, qkv_permute(t, qkv_reshape(t, x, 6, cut), exchanged), 3, joined);
}

qkv_tensor *qkv_unpatchify(qkv_tape *t, qkv_tensor *x, size_t patch, size_t rows, size_t columns)
{
    if (!qkv__ready(t, "unpatchify", 1, &x))
        return NULL;
    if (x->ndim != 3 || patch == 0 || x->shape[1] != rows * columns ||
        x->shape[2] % (patch * patch))
        return qkv__op_fail(t, "unpatchify", "x %s is not %zu x %zu patches of %zu x %zu pixels",
                            qkv__shape_text(t, x), rows, columns, patch, patch);
    const size_t B = x->shape[0], C = x->shape[2] / (patch * patch);
    const size_t cut[] = {B, rows, columns, patch, patch, C};
    const size_t joined[] = {B, rows * patch, columns * patch, C};
    return qkv_reshape(t, qkv_permute(t, qkv_reshape(t, x, 6, cut), exchanged), 4, joined);
}
