/* evaluate.c - evaluations: what they may cost, which model is kept, what is said. */
#include <math.h>
#include <stdio.h>

#include "qkv/hub.h"
#include "tensor/make.h"
#include "train/loop.h"

static const double EVAL_SHARE = 0.01; /* of a time budget, for one of about eleven evaluations */
enum { PROBE_UNITS = 4096 };           /* evaluated to learn what evaluating takes */

qkv_status qkv__check_finite(const qkv__loop *l)
{
    for (size_t i = 0; i < qkv_params_count(l->params); i++) {
        qkv_param *p = qkv_params_at(l->params, i);
        const qkv_real *x = qkv__param_fixed(p) ? NULL : qkv_param_data(p);
        for (size_t k = 0; x && k < qkv_param_count(p); k++)
            if (!isfinite(x[k]))
                return qkv_fail(l->ctx, QKV_E_NUMERIC, "%s is not finite", qkv_param_name(p));
    }
    return QKV_OK;
}

/* Evaluates on at most `units`; estimates what all would take. */
static qkv_status evaluate_measure(qkv__loop *l, size_t units, qkv_metrics *m)
{
    const qkv_task_type *type = l->task->type;
    double begun = qkv_now();
    *m = (qkv_metrics){0};
    (void)qkv__hold(l->ctx, false);
    qkv_status status =
        l->task->held_out ? type->evaluate(l->task->self, l->tape, units, m) : QKV_OK;
    (void)qkv__hold(l->ctx, true);
    if (status == QKV_E_CANCELLED && qkv_dist_size(l->ctx) == 1)
        l->stop = true;
    if (!status && m->count && !isfinite(m->item[0].value)) {
        status = qkv__check_finite(l);
        if (!status)
            status = qkv_fail(l->ctx, QKV_E_NUMERIC, "the %s on what is held out is %g",
                              m->item[0].name, m->item[0].value);
    }
    l->whole_eval_time = qkv_now() - begun;
    if (m->scored)
        l->whole_eval_time *= (double)m->units / (double)m->scored;
    status = qkv__dist_agree(l->ctx, status);
    return status ? status : qkv__follow_evaluation(l);
}

/* Averages and parameters change places, on every rank. */
static qkv_status swap_average(qkv__loop *l)
{
    qkv_status status = qkv_average_swap(l->average);
    return status || !l->ranks ? status : qkv__ranks_share(l->ranks);
}

static bool is_best(qkv__loop *l, const qkv_metrics *m)
{
    double value = m->item[0].value;
    bool best = !l->has_best || m->newest ||
                (m->more_is_better ? value > l->best : value < l->best);
    if (best)
        l->best = value;
    l->has_best = true;
    l->bad_evals = best ? 0 : l->bad_evals + 1;
    return best;
}

/* Fewer eval_units if all that were asked for would take too much of a time budget. The first
 * probe touches memory that later evaluations find in the caches: the quicker one counts. */
static qkv_status bound_evaluation(qkv__loop *l)
{
    qkv_metrics m;
    qkv_status status = evaluate_measure(l, PROBE_UNITS, &m);
    double all = l->whole_eval_time;
    if (!status)
        status = evaluate_measure(l, PROBE_UNITS, &m);
    if (status)
        return status;
    all = all < l->whole_eval_time ? all : l->whole_eval_time;
    double most = (double)m.units * EVAL_SHARE * 60 * l->o.minutes / all;
    size_t asked = l->o.eval_units ? l->o.eval_units : m.units;
    if (most < (double)asked)
        l->eval_units = most > PROBE_UNITS ? (size_t)most : PROBE_UNITS;
    return qkv__follow_evaluation(l);
}

qkv_status qkv__evaluate_model(qkv__loop *l, bool last)
{
    qkv_metrics m;
    qkv_samples *samples = NULL;
    bool averaged = l->average && l->step > 0, best = true;
    qkv_status status = averaged ? swap_average(l) : QKV_OK;
    if (!status)
        status = evaluate_measure(l, l->eval_units, &m);
    if (!status) /* before anything is changed: they may be cut short, too */
        status = qkv__samples_make(l, last, &samples);
    if (!status && m.count)
        best = is_best(l, &m);
    if (!status && best && l->dir && qkv__check_finite(l)) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "step %llu", (unsigned long long)l->step);
        status = qkv_fail_prefix(l->ctx, prefix);
    }
    if (!status && best) {
        l->best_step = l->step;
        if (l->dir)
            status = qkv_hub_save(l->task->model, l->dir, NULL);
    }
    qkv_status swapped = averaged ? swap_average(l) : QKV_OK;
    status = status ? status : swapped;
    if (!status && m.count)
        status = qkv__log_eval(l, &m, best);
    if (!status && m.count)
        qkv__tell(l, QKV_TRAIN_EVAL, &m, best);
    if (!status)
        status = qkv__samples_keep(l, samples);
    qkv__samples_free(samples);
    return status;
}

qkv_status qkv__evaluate_untrained(qkv__loop *l)
{
    l->has_best = false; /* a run that was stopped before its first update begins again */
    l->bad_evals = 0;
    qkv_status status = !l->o.steps && l->task->held_out ? bound_evaluation(l) : QKV_OK;
    double begun = qkv_now();
    if (!status)
        status = qkv__evaluate_model(l, false);
    l->eval_time = qkv_now() - begun;
    return status;
}

qkv_status qkv__evaluate_saved(qkv__loop *l, qkv_metrics *out)
{
    qkv_status status = QKV_OK;
    bool older = l->keeps && (l->best_step != l->step || l->average);
    if (l->dir && older)
        status = qkv_hub_load_weights(l->task->model, l->dir);
    status = qkv__dist_agree(l->ctx, status);
    if (!status && older && l->ranks)
        status = qkv__ranks_broadcast(l->ranks);
    return status ? status : evaluate_measure(l, qkv__plan_evaluates_all(l) ? 0 : l->eval_units,
                                              out);
}
