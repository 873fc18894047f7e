/* follow.c - clocks differ: what depends on one is decided by rank 0, and all follow. */
#include <string.h>

#include "train/loop.h"

bool qkv__leads(const qkv__loop *l) { return qkv_dist_rank(l->ctx) == 0; }

qkv_status qkv__follow_flag(qkv__loop *l, bool *flag)
{
    return qkv__dist_broadcast(l->ctx, flag, sizeof *flag);
}

qkv_status qkv__follow_products(qkv__loop *l)
{
    char own[32] = "", chosen[32];
    if (qkv_dist_size(l->ctx) == 1)
        return QKV_OK;
    if (qkv__leads(l)) /* may measure */
        strncpy(own, qkv_machine_products(l->ctx), sizeof own - 1);
    memcpy(chosen, own, sizeof chosen);
    qkv_status status = qkv__dist_broadcast(l->ctx, chosen, sizeof chosen);
    if (!status && !qkv__leads(l) && !qkv__context_keep_products(l->ctx, chosen))
        status = qkv_fail(l->ctx, QKV_E_UNSUPPORTED, "rank 0 takes products in %.31s, which this "
                          "machine does not have: give --dtype f32", chosen);
    return qkv__dist_agree(l->ctx, status);
}

/* What rank 0 says after each update. */
typedef struct {
    bool stop, planned, save;
    int plan_count;
    qkv__plan plans[QKV__PLANS];
} step_decision;

qkv_status qkv__follow_step(qkv__loop *l, bool *planned, bool *save)
{
    step_decision d;
    if (qkv_dist_size(l->ctx) == 1)
        return QKV_OK;
    memset(&d, 0, sizeof d);
    d.stop = l->stop;
    d.planned = *planned;
    d.save = *save;
    d.plan_count = l->plan_count;
    memcpy(d.plans, l->plans, sizeof d.plans);
    qkv_status status = qkv__dist_broadcast(l->ctx, &d, sizeof d);
    if (status)
        return status;
    l->stop = d.stop;
    *planned = d.planned;
    *save = d.save;
    l->plan_count = d.plan_count;
    memcpy(l->plans, d.plans, sizeof d.plans);
    return QKV_OK;
}

qkv_status qkv__follow_evaluation(qkv__loop *l)
{
    struct {
        size_t eval_units;
        double whole_eval_time, eval_time;
    } d = {l->eval_units, l->whole_eval_time, l->eval_time};
    qkv_status status = qkv__dist_broadcast(l->ctx, &d, sizeof d);
    if (status)
        return status;
    l->eval_units = d.eval_units;
    l->whole_eval_time = d.whole_eval_time;
    l->eval_time = d.eval_time;
    return QKV_OK;
}
