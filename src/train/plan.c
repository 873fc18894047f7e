/* plan.c - how many updates fit into the time. */
#include <stdio.h>

#include "train/train.h"

/* Shares of the time at which plans are made; the first must see enough updates to be of use. */
static const double moments[] = {0.02, 0.5, 0.9};
enum { MOMENTS = 3, LEAST_UPDATES = 5 };

double qkv__seconds(const qkv__loop *l) { return qkv__now() - l->began; }

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

void qkv__plan_update(qkv__loop *l)
{
    if (l->o.steps || l->plan_count >= MOMENTS)
        return;
    double budget = 60.0 * l->o.minutes, now = qkv__seconds(l);
    if (now < moments[l->plan_count] * budget || l->updates < LEAST_UPDATES)
        return;
    double per_update = l->update_time / (double)l->updates;
    /* Evaluations cost time too: first as if there were none, then less their share. */
    double left = budget - now - l->final_time;
    double steps = left > 0 ? left / per_update : 0;
    if (l->eval_time > 0) {
        double every = l->o.eval_every        ? (double)l->o.eval_every
                       : l->plan_count        ? (double)qkv__eval_every(l)
                                              : (steps + (double)l->step) / 10;
        steps = left > 0 ? left / (per_update + l->eval_time / (every > 1 ? every : 1)) : 0;
    }
    qkv__plan *p = &l->plans[l->plan_count++];
    *p = (qkv__plan){l->step, l->step + (uint64_t)(steps > 1 ? steps : 1)};
    l->update_time = 0;
    l->updates = 0;
    if (!l->event)
        return;
    char text[160];
    snprintf(text, sizeof text, "plan: %llu updates in %.3g minutes (%.3g ms each)",
             (unsigned long long)p->steps, l->o.minutes, 1e3 * per_update);
    l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step,
                                         .steps = p->steps, .text = text});
}
