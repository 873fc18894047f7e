/* ref_pointwise.c - loops over elements that no model's step spends time in: scaled rows, exp,
 * 1/x and the pointwise losses. There are no vector versions. */
#include <string.h>

#include "kernel/ref_math.h"

enum { SUM_BLOCKS = 1024 };

static void ref_scale_rows(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                           const qkv_real *factor, bool acc, size_t N, size_t C)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, factor, acc, N, C) \
    if (N * C >= REF_GRAIN)
    for (size_t r = 0; r < N; r++) {
        qkv_real k = factor[r], *to = y + r * C;
        const qkv_real *from = x + r * C;
        if (k == 0 && !acc)
            memset(to, 0, C * sizeof *to);
        for (size_t c = 0; c < C && k != 0; c++)
            to[c] = acc ? to[c] + k * from[c] : k * from[c];
    }
}

static void ref_exp(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, n) if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++)
        y[i] = real_exp(x[i]);
}

static void ref_reciprocal(const qkv_exec *e, qkv_real *y, const qkv_real *x, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, n) if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++)
        y[i] = 1 / x[i];
}

static double loss_value(double x, double target, const qkv_k_loss_args *a)
{
    double d = x - target, size = fabs(d);
    switch (a->loss) {
    case QKV_K_SQUARED: return d * d;
    case QKV_K_ABSOLUTE: return size;
    case QKV_K_HUBER: return size <= a->delta ? d * d / 2 : a->delta * (size - a->delta / 2);
    case QKV_K_BINARY: /* -t log s(x) - (1-t) log(1 - s(x)), without overflow */
        return (x > 0 ? x : 0) - x * target + log1p(exp(-fabs(x)));
    }
    return 0;
}

/* d loss / dx; the other way round, d loss / dtarget. The slope of |d| at 0 is 0. */
static double loss_slope(double x, double target, const qkv_k_loss_args *a)
{
    double d = x - target, sign = d > 0 ? 1 : d < 0 ? -1 : 0, turn = a->to_target ? -1 : 1;
    switch (a->loss) {
    case QKV_K_SQUARED: return turn * 2 * d;
    case QKV_K_ABSOLUTE: return turn * sign;
    case QKV_K_HUBER: return turn * (fabs(d) <= a->delta ? d : a->delta * sign);
    case QKV_K_BINARY: return a->to_target ? -x : 1 / (1 + exp(-x)) - target;
    }
    return 0;
}

/* In at most SUM_BLOCKS blocks whose size depends on n alone, added in order. */
static double ref_loss(const qkv_exec *e, const qkv_real *x, const qkv_real *target,
                       const qkv_k_loss_args *args, size_t n)
{
    size_t block = n / SUM_BLOCKS + 1 > REF_GRAIN / 4 ? n / SUM_BLOCKS + 1 : REF_GRAIN / 4;
    size_t blocks = (n + block - 1) / block;
    double part[SUM_BLOCKS], total = 0;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(part, x, target, args, n, block, blocks) if (n >= REF_GRAIN)
    for (size_t b = 0; b < blocks; b++) {
        size_t end = n - b * block < block ? n : (b + 1) * block;
        part[b] = 0;
        for (size_t i = b * block; i < end; i++)
            part[b] += loss_value((double)x[i], (double)target[i], args);
    }
    for (size_t b = 0; b < blocks; b++)
        total += part[b];
    return total;
}

static void ref_loss_bwd(const qkv_exec *e, qkv_real *d, const qkv_real *x,
                         const qkv_real *target, bool acc, const qkv_k_loss_args *args, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(d, x, target, acc, args, n) if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++) {
        qkv_real g = (qkv_real)(args->scale * loss_slope((double)x[i], (double)target[i], args));
        d[i] = acc ? d[i] + g : g;
    }
}

void qkv__kernels_ref_pointwise(qkv_kernels *k)
{
    k->scale_rows = ref_scale_rows;
    k->exp = ref_exp;
    k->reciprocal = ref_reciprocal;
    k->loss = ref_loss;
    k->loss_bwd = ref_loss_bwd;
}
