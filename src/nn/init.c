/* init.c - how parameters start. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "qkv/nn.h"
#include "tensor/make.h"

/* Elements at a time; even, because the random numbers of two uniform elements come together. */
enum { PIECE = 1 << 14 };

typedef enum { UNIFORM, NORMAL, TRUNCATED } shape;
static const double TRUNCATED_AT = 2; /* standard deviations */

/* Number i of a stream of normal numbers, or the first of its own further ones that is near 0. */
static double truncated_normal(const qkv_rng *first, uint64_t i)
{
    double x;
    for (uint64_t turn = 0;; turn++) {
        qkv_rng r = *first;
        r.index = i + (turn << 40);
        x = qkv_rng_normal(&r);
        if (fabs(x) <= TRUNCATED_AT)
            return x;
    }
}

static void random_piece(qkv_real *p, const qkv_rng *first, shape kind, double scale, size_t from,
                         size_t to)
{
    qkv_rng r = *first;
    bool normal = kind == NORMAL;
    r.index = normal ? from : from / 2; /* four words for each normal number, two for the others */
    for (size_t i = from; i < to; i++)
        p[i] = (qkv_real)(scale * (kind == TRUNCATED ? truncated_normal(first, i)
                                   : normal          ? qkv_rng_normal(&r)
                                                     : 2 * qkv_rng_uniform(&r) - 1));
}

/* p (count): element i depends on the seed, the row's name and i alone. */
static void random_values(qkv_real *p, const qkv_state_entry *row, shape kind, double scale,
                          uint64_t seed, size_t count)
{
    const int threads = qkv_context_threads(qkv__param_context(row->param));
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64(row->name, strlen(row->name)));
#pragma omp parallel for num_threads(threads) if (count > PIECE) default(none)                     \
    shared(p, r, kind, scale, count)
    for (size_t at = 0; at < count; at += PIECE) {
        random_piece(p, &r, kind, scale, at, count - at < PIECE ? count : at + PIECE);
    }
}

size_t qkv_state_entry_count(const qkv_state_entry *row)
{
    size_t count = 1;
    for (int i = 0; i < row->ndim; i++)
        count *= row->shape[i];
    return count;
}

/* What a kind draws: the distribution, and the square of its scale over in + out or over in. */
static const struct {
    shape kind;
    double of_both, of_inputs;
} kinds[QKV_INIT_NONE] = {
    [QKV_INIT_NORMAL] = {NORMAL, 0, 0},
    [QKV_INIT_UNIFORM] = {UNIFORM, 0, 0},
    [QKV_INIT_XAVIER] = {UNIFORM, 6, 0},
    [QKV_INIT_XAVIER_NORMAL] = {NORMAL, 2, 0},
    [QKV_INIT_KAIMING] = {UNIFORM, 0, 6},
    [QKV_INIT_KAIMING_NORMAL] = {NORMAL, 0, 2},
    [QKV_INIT_TRUNCATED_NORMAL] = {TRUNCATED, 0, 0},
};

void qkv_state_entry_init(const qkv_state_entry *row, uint64_t seed)
{
    size_t count = qkv_state_entry_count(row);
    qkv_real *p = row->init == QKV_INIT_NONE ? NULL : qkv_param_data(row->param);
    double scale = row->scale;
    if (!p)
        return;
    p += row->offset;
    /* In a file's order of axes: outputs, inputs, window. */
    double inputs = row->ndim > 0 ? (double)(count / row->shape[0]) : 1;
    double outputs = row->ndim > 1 ? (double)(count / row->shape[1]) : (double)count;
    if (kinds[row->init].of_both > 0)
        scale *= sqrt(kinds[row->init].of_both / (inputs + outputs));
    if (kinds[row->init].of_inputs > 0)
        scale *= sqrt(kinds[row->init].of_inputs / inputs);
    bool same = row->init == QKV_INIT_ZEROS || row->init == QKV_INIT_ONES ||
                row->init == QKV_INIT_CONSTANT;
    double value = row->init == QKV_INIT_CONSTANT ? scale : row->init == QKV_INIT_ONES;
    for (size_t i = 0; same && i < count; i++)
        p[i] = (qkv_real)value;
    if (!same)
        random_values(p, row, kinds[row->init].kind, scale, seed, count);
    qkv_param_touch(row->param);
}

qkv_status qkv_param_init(qkv_param *p, qkv_init kind, double scale, uint64_t seed)
{
    qkv_context *ctx = qkv__param_context(p);
    const char *name = qkv_param_name(p);
    int n = qkv_param_ndim(p);
    if ((unsigned)kind >= QKV_INIT_NONE || !isfinite(scale))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a kind of initial values and a finite scale "
                        "expected, found %d and %g", name, (int)kind, scale);
    if (n < 2 && (kinds[kind].of_both > 0 || kinds[kind].of_inputs > 0))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: initial values by inputs and outputs: a matrix "
                        "expected, found %d axes", name, n);
    qkv_state_entry row = {.name = name, .param = p, .ndim = n, .init = kind, .scale = scale};
    for (int i = 0; i < n; i++)
        row.shape[i == 0 ? 0 : i == n - 1 ? 1 : i + 1] = qkv_param_dim(p, i);
    qkv_state_entry_init(&row, seed);
    return QKV_OK;
}
