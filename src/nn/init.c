/* init.c - how parameters start. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "qkv/nn.h"

void qkv_row_init(const qkv_row *row, uint64_t seed)
{
    size_t count = 1, columns = row->ndim ? row->shape[row->ndim - 1] : 1;
    for (int i = 0; i < row->ndim; i++)
        count *= row->shape[i];
    qkv_real *p = qkv_param_data(row->param) + row->offset;
    qkv__rng r;
    qkv__rng_init(&r, seed, qkv__hash64(row->name, strlen(row->name)));
    double scale = row->scale;
    if (row->init == QKV_INIT_XAVIER)
        scale *= sqrt(6.0 / (double)(count / columns + columns));
    for (size_t i = 0; i < count; i++) {
        switch (row->init) {
        case QKV_INIT_ZEROS: p[i] = 0; break;
        case QKV_INIT_ONES: p[i] = 1; break;
        case QKV_INIT_NORMAL: p[i] = (qkv_real)(scale * qkv__rng_normal(&r)); break;
        case QKV_INIT_UNIFORM:
        case QKV_INIT_XAVIER:
            p[i] = (qkv_real)(scale * (2 * qkv__rng_uniform(&r) - 1));
            break;
        case QKV_INIT_KEEP: return;
        }
    }
    qkv_param_touch(row->param);
}
