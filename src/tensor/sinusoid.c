/* sinusoid.c - tables of sine and cosine positions, in the four layouts that checkpoints use
 * (Vaswani et al. 2017 and its descendants). Everything is computed in double. */
#include <math.h>

#include "tensor/param.h"

static void interleaved(qkv_real *row, size_t C, double position)
{
    for (size_t c = 0; c < C; c++) {
        double angle = position * pow(10000.0, -(double)(c / 2 * 2) / (double)C);
        row[c] = (qkv_real)(c % 2 ? cos(angle) : sin(angle));
    }
}

/* half sines, then half cosines, of position times base^(-i/steps). */
static void halves(qkv_real *row, size_t half, double position, double steps)
{
    for (size_t i = 0; i < half; i++) {
        double angle = position * exp(-(double)i * log(10000.0) / steps);
        row[i] = (qkv_real)sin(angle);
        row[half + i] = (qkv_real)cos(angle);
    }
}

qkv_status qkv_sinusoid_table(qkv_context *ctx, qkv_real *table, size_t P, size_t C,
                              qkv_sinusoid layout, size_t first, size_t columns)
{
    size_t multiple = layout == QKV_SINUSOID_MAE_2D ? 4 : layout == QKV_SINUSOID_MARIAN ? 2 : 1;
    if (C == 0 || C % multiple)
        return qkv_fail(ctx, QKV_E_SHAPE, "sinusoid table: %zu channels; this layout needs a "
                        "multiple of %zu", C, multiple);
    if (layout == QKV_SINUSOID_MAE_2D && columns == 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "sinusoid table: a grid of no columns");
    size_t half = C / 2, quarter = C / 4;
    for (size_t p = 0; p < P; p++) {
        qkv_real *row = table + p * C;
        double position = (double)(first + p);
        switch (layout) {
        case QKV_SINUSOID_PAPER:
            interleaved(row, C, position);
            break;
        case QKV_SINUSOID_FAIRSEQ:
            halves(row, half, position, half > 1 ? (double)half - 1 : 1);
            if (C % 2)
                row[C - 1] = 0;
            break;
        case QKV_SINUSOID_MARIAN:
            halves(row, half, position, (double)half);
            break;
        case QKV_SINUSOID_MAE_2D:
            halves(row, quarter, (double)((first + p) % columns), (double)quarter);
            halves(row + half, quarter, (double)((first + p) / columns), (double)quarter);
            break;
        default:
            return qkv_fail(ctx, QKV_E_ARGUMENT, "sinusoid table: no layout has the number %d",
                            (int)layout);
        }
    }
    return QKV_OK;
}

qkv_status qkv__fill_sinusoids(qkv_param *p, size_t from, size_t rows, qkv_sinusoid layout,
                               size_t first, size_t columns)
{
    size_t C = p->shape[1];
    qkv_real *table = qkv_param_data(p);
    if (!table)
        return QKV_E_MEMORY;
    qkv_status status = qkv_sinusoid_table(qkv__params_context(p->owner), table + from * C, rows, C,
                                           layout, first, columns);
    qkv_param_touch(p);
    return status;
}
