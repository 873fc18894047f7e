/* interpolate.c - a grid of values at another size, as PyTorch's interpolate makes it without
 * aligned corners. Both axes are linear maps, so each is a product with a small matrix of weights,
 * and its backward pass is the product's. */
#include <math.h>

#include "tensor/tape.h"

static const double BICUBIC_A = -0.75, ANTIALIASED_A = -0.5; /* PyTorch's */

/* Keys' cubic at distance d in [0, 2] (Keys 1981, eq. 15). */
static double interpolate_cubic(double a, double d)
{
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* The filter is as wide as the step between values where that is more than 1; what would lie beside
 * them has no weight. */
static void weigh_antialiased(qkv_real *row, size_t from, size_t to, size_t at)
{
    double step = (double)from / (double)to, scale = step > 1 ? step : 1, sum = 0;
    double place = ((double)at + 0.5) * step - 0.5;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < from; i++) {
            double d = fabs((double)i - place) / scale;
            double weight = d < 2 ? interpolate_cubic(ANTIALIASED_A, d) : 0;
            if (pass)
                row[i] = (qkv_real)(weight / sum);
            else
                sum += weight;
        }
}

/* What each of `from` values has in value `at` of `to`: row (from), all zeros so far. */
static void weigh(qkv_real *row, qkv_interpolation how, size_t from, size_t to, size_t at)
{
    double place = ((double)at + 0.5) * (double)from / (double)to - 0.5;
    if (how == QKV_BICUBIC_ANTIALIASED) {
        weigh_antialiased(row, from, to, at);
        return;
    }
    if (how == QKV_BILINEAR && place < 0)
        place = 0;
    double below = floor(place), part = place - below;
    long first = how == QKV_BICUBIC ? -1 : 0, last = how == QKV_BICUBIC ? 2 : 1;
    for (long k = first; k <= last; k++) {
        long i = (long)below + k, end = (long)from - 1; /* what lies beside repeats the border */
        double d = fabs(part - (double)k);
        row[i < 0 ? 0 : i > end ? end : i] +=
            (qkv_real)(how == QKV_BICUBIC ? interpolate_cubic(BICUBIC_A, d) : 1 - d);
    }
}

/* (to, from) */
static qkv_tensor *weights(qkv_tape *t, qkv_interpolation how, size_t from, size_t to)
{
    const size_t shape[] = {to, from};
    qkv_tensor *w = qkv_tensor_from(t, NULL, 2, shape);
    for (size_t i = 0; w && i < to * from; i++)
        qkv_tensor_fill(w)[i] = 0;
    for (size_t i = 0; w && i < to; i++)
        weigh(qkv_tensor_fill(w) + i * from, how, from, to, i);
    return w;
}

qkv_tensor *qkv_interpolate(qkv_tape *t, qkv_tensor *x, qkv_interpolation how, size_t rows,
                            size_t columns)
{
    if (!qkv__ready_reals(t, "interpolate", 1, &x))
        return NULL;
    if (x->ndim != 4 || qkv_count(x) == 0 || rows == 0 || columns == 0)
        return qkv__op_fail(t, "interpolate", "x %s to %zu x %zu: (B, H, W, C) expected, and no "
                            "size of 0", qkv__shape_text(t, x), rows, columns);
    const size_t B = x->shape[0], H = x->shape[1], W = x->shape[2], C = x->shape[3];
    const size_t lines[] = {B, H, columns * C}, shape[] = {B, rows, columns, C};
    if (columns != W)
        x = qkv_matmul(t, weights(t, how, W, columns), false, x, false);
    if (rows == H)
        return x;
    x = qkv_matmul(t, weights(t, how, H, rows), false, qkv_reshape(t, x, 3, lines), false);
    return qkv_reshape(t, x, 4, shape);
}

qkv_tensor *qkv_interpolate_positions(qkv_tape *t, qkv_tensor *table, qkv_interpolation how,
                                      size_t first, size_t from_rows, size_t from_columns,
                                      size_t rows, size_t columns)
{
    if (!qkv__ready_reals(t, "interpolate_positions", 1, &table))
        return NULL;
    if (table->ndim != 2 || table->shape[0] != first + from_rows * from_columns)
        return qkv__op_fail(t, "interpolate_positions", "table %s has not %zu + %zu x %zu rows",
                            qkv__shape_text(t, table), first, from_rows, from_columns);
    if (rows == from_rows && columns == from_columns)
        return table;
    const size_t C = table->shape[1], grid[] = {1, from_rows, from_columns, C};
    const size_t joined[] = {rows * columns, C};
    qkv_tensor *x = qkv_slice(t, table, 0, first, table->shape[0]);
    x = qkv_interpolate(t, qkv_reshape(t, x, 4, grid), how, rows, columns);
    x = qkv_reshape(t, x, 2, joined);
    qkv_tensor *parts[] = {first ? qkv_slice(t, table, 0, 0, first) : x, x};
    return first ? qkv_concat(t, 0, 2, parts) : x;
}
