/* muon.c - Muon (Jordan et al. 2024) as torch.optim.Muon defines it, for the matrices of a
 * parameter one by one: packed queries, keys and values are three. */
#include "opt/muon.h"

#include <math.h>

qkv_status qkv__muon_check(qkv_context *ctx, const qkv_optimizer_options *o)
{
    if (o->muon_eps == 0.0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser muon: muon_eps is 0, and a gradient of 0 "
                        "would be divided by it; start from qkv_optimizer_defaults");
    if (o->muon_steps < 1 || o->muon_steps > 99)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser muon: muon_steps is %d; 1 to 99 expected",
                        o->muon_steps);
    if ((unsigned)o->muon_adjust >= QKV_MUON_ADJUST_COUNT)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "optimiser muon: no muon_adjust %d",
                        (int)o->muon_adjust);
    return QKV_OK;
}

static size_t muon_columns(const qkv_param *p) { return qkv_param_count(p) / qkv_param_dim(p, 0); }

size_t qkv__muon_work(const qkv_param *p)
{
    size_t most = 0, columns = muon_columns(p);
    for (size_t i = 0; qkv_param_hidden(p, i); i++) {
        size_t work = qkv__orthogonalize_work(qkv_param_hidden(p, i), columns);
        most = work > most ? work : most;
    }
    return qkv_param_count(p) + most;
}

double qkv__muon_flops(const qkv_param *p, int steps)
{
    double sum = 0;
    for (size_t i = 0; qkv_param_hidden(p, i); i++)
        sum += qkv__orthogonalize_flops(qkv_param_hidden(p, i), muon_columns(p), steps);
    return sum;
}

static double adjusted(qkv_muon_adjust adjust, double rows, double columns)
{
    if (adjust == QKV_MUON_MATCH_RMS_ADAMW)
        return 0.2 * sqrt(fmax(rows, columns));
    return sqrt(adjust == QKV_MUON_ORIGINAL ? fmax(1, rows / columns) : rows / columns);
}

bool qkv__muon_update(qkv_param *p, const qkv_optimizer_options *o, const qkv__update *u,
                      qkv_real *buffer, qkv_real *work)
{
    size_t columns = muon_columns(p), rows;
    qkv_real *momentum = work, *rest = work + qkv_param_count(p);
    qkv__param_momentum(p, u, buffer, momentum, o->muon_momentum, o->muon_nesterov);
    for (size_t i = 0, at = 0; (rows = qkv_param_hidden(p, i)) > 0; i++, at += rows * columns) {
        qkv_real *x = qkv__orthogonalize(p, momentum + at, rows, columns,
                                         o->muon_steps, o->muon_eps, rest);
        if (!x)
            return false;
        double rate = u->lr * adjusted(o->muon_adjust, (double)rows, (double)columns);
        qkv__param_add(p, at, x, 1 - u->lr * u->weight_decay, -rate, rows * columns);
    }
    return true;
}
