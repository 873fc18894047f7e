/* init.c - how parameters start. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "qkv/nn.h"
#include "tensor/make.h"

/* Elements at a time; even, because the random numbers of two uniform elements come together. */
enum { PIECE = 1 << 14 };

static void random_piece(qkv_real *p, const qkv_rng *first, bool normal, double scale,
                         size_t from, size_t to)
{
    qkv_rng r = *first;
    r.index = normal ? from : from / 2; /* four words for each normal number, two for the others */
    for (size_t i = from; i < to; i++)
        p[i] = (qkv_real)(scale * (normal ? qkv_rng_normal(&r) : 2 * qkv_rng_uniform(&r) - 1));
}

/* p (count): element i depends on the seed, the row's name and i alone. */
static void random_values(qkv_real *p, const qkv_state_entry *row, double scale, uint64_t seed,
                          size_t count)
{
    const int threads = qkv_context_threads(qkv__param_context(row->param));
    const bool normal = row->init == QKV_INIT_NORMAL;
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64(row->name, strlen(row->name)));
#pragma omp parallel for num_threads(threads) if (count > PIECE) default(none)                     \
    shared(p, r, normal, scale, count)
    for (size_t at = 0; at < count; at += PIECE) {
        random_piece(p, &r, normal, scale, at, count - at < PIECE ? count : at + PIECE);
    }
}

size_t qkv_state_entry_count(const qkv_state_entry *row)
{
    size_t count = 1;
    for (int i = 0; i < row->ndim; i++)
        count *= row->shape[i];
    return count;
}

void qkv_state_entry_init(const qkv_state_entry *row, uint64_t seed)
{
    size_t count = qkv_state_entry_count(row), columns = row->ndim ? row->shape[row->ndim - 1] : 1;
    qkv_real *p = row->init == QKV_INIT_NONE ? NULL : qkv_param_data(row->param);
    double scale = row->scale;
    if (!p)
        return;
    p += row->offset;
    if (row->init == QKV_INIT_XAVIER)
        scale *= sqrt(6.0 / (double)(count / columns + columns));
    if (row->init == QKV_INIT_ZEROS || row->init == QKV_INIT_ONES)
        for (size_t i = 0; i < count; i++)
            p[i] = row->init == QKV_INIT_ONES;
    else
        random_values(p, row, scale, seed, count);
    qkv_param_touch(row->param);
}
