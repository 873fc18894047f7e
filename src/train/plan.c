/* plan.c - how many updates fit into the time. */
#include <math.h>
#include <stdio.h>

#include "train/loop.h"

/* Shares of the time at which plans are made. The first must have seen enough updates to be of
 * use; the last leaves so little that an error of its rate does not matter. */
static const double moments[] = {0.02, 0.5, 0.9, 0.97};
enum { MOMENTS = sizeof moments / sizeof *moments, FIRST_UPDATES = 5 };
static const double FIRST_LATEST = 0.2; /* share of the time at which fewer have to do */
static const double LAST_SHARE = 0.05;  /* of the time, for the last evaluation */

_Static_assert((int)MOMENTS <= (int)QKV__PLANS, "a checkpoint has room for every plan");

double qkv__seconds(const qkv__loop *l) { return qkv_now() - l->began; }

static double budget(const qkv__loop *l) { return 60 * l->o.minutes; }

uint64_t qkv__plan_steps(const qkv__loop *l)
{
    if (l->o.steps)
        return l->o.steps;
    return l->plan_count ? l->plans[l->plan_count - 1].steps : 0;
}

uint64_t qkv__eval_every(const qkv__loop *l)
{
    if (l->o.eval_every)
        return l->o.eval_every;
    /* A tenth of the first plan: later plans must not move the evaluations about. */
    uint64_t steps = l->o.steps ? l->o.steps : l->plan_count ? l->plans[0].steps : 0;
    return steps ? (steps + 9) / 10 : 0;
}

bool qkv__plan_evaluates_all(const qkv__loop *l)
{
    return l->o.steps || l->whole_eval_time <= LAST_SHARE * budget(l);
}

/* Seconds that n more updates take with their evaluations, one that is due now, and all that
 * comes after. */
static double cost(const qkv__loop *l, uint64_t n, double per_update)
{
    uint64_t end = l->step + n, every = qkv__eval_every(l);
    if (!every)
        every = (end + 9) / 10;
    uint64_t evals = end / every - (l->step - 1) / every + (end % every != 0);
    double evaluate = qkv__plan_evaluates_all(l) ? l->whole_eval_time : l->eval_time;
    return (double)n * per_update + (double)evals * l->eval_time + evaluate + l->save_time;
}

/* The updates that fit into what is left, or half an update more. Between `fits` and `most`, which
 * do and do not, evaluations come in whole numbers: not a straight line. */
static uint64_t fit(const qkv__loop *l, double left, double per_update)
{
    uint64_t fits = 0, most = (uint64_t)(fmax(left, 0) / per_update) + 2;
    while (most - fits > 1) {
        uint64_t n = fits + (most - fits) / 2;
        bool enough = cost(l, n, per_update) <= left + per_update / 2;
        fits = enough ? n : fits;
        most = enough ? most : n;
    }
    return fits;
}

/* A run that is quicker than planned gets there by its updates before its time: it must not end
 * early either. */
static bool is_due(const qkv__loop *l)
{
    if (l->o.steps || l->plan_count >= (int)MOMENTS || !l->updates)
        return false;
    double share = qkv__seconds(l) / budget(l);
    if (!l->plan_count && l->updates < FIRST_UPDATES && share < FIRST_LATEST)
        return false;
    uint64_t steps = qkv__plan_steps(l);
    double done = steps ? (double)l->step / (double)steps : 0;
    return (done > share ? done : share) >= moments[l->plan_count];
}

bool qkv__plan_update(qkv__loop *l)
{
    if (!is_due(l))
        return false;
    double per_update = fmax((qkv_now() - l->mark) / (double)l->updates, 1e-9);
    uint64_t n = fit(l, budget(l) - qkv__seconds(l), per_update);
    qkv__plan *p = &l->plans[l->plan_count++];
    *p = (qkv__plan){l->step, l->step + n};
    l->mark = qkv_now();
    l->updates = 0;
    if (!l->event)
        return true;
    char text[160];
    snprintf(text, sizeof text, "plan: %llu updates in %.3g minutes (%.3g ms each)",
             (unsigned long long)p->steps, l->o.minutes, 1e3 * per_update);
    l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step,
                                         .steps = p->steps, .text = text});
    return true;
}

double qkv__seconds_left(const qkv__loop *l)
{
    uint64_t steps = qkv__plan_steps(l);
    if (!l->o.steps) {
        double left = budget(l) - qkv__seconds(l);
        return left > 0 ? left : 0;
    }
    if (!l->recent_updates || steps <= l->step)
        return steps <= l->step ? 0 : -1;
    return cost(l, steps - l->step, l->recent_time / (double)l->recent_updates);
}
