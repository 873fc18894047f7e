/* tell.c - what whoever trains is told, and how fast it goes. */
#include <math.h>
#include <stdio.h>

#include "train/loop.h"

static const double LARGE_SHARE = 0.1; /* of an update's products in the optimiser's */

void qkv__rates(qkv__loop *l, qkv_train_event *e)
{
    const qkv_task_type *type = l->task->type;
    e->units_per_s = e->gflops = 0;
    e->peak_gflops = l->peak > 0 ? 1e-9 * l->peak : 0;
    if (l->recent_time <= 0)
        return;
    double samples = (double)(l->recent_updates * l->o.batch) / l->recent_time;
    e->units_per_s = samples * (type->units ? (double)type->units(l->task->self) : 1);
    e->gflops = type->flops ? samples * type->flops(l->task->self) * 1e-9 : 0;
}

static void tell_event(qkv__loop *l, qkv_train_event *e)
{
    e->text = "training";
    e->unit = l->task->type->unit;
    e->step = l->step;
    e->steps = qkv__plan_steps(l);
    e->loss = l->smooth_loss;
    e->lr = l->last_lr;
    e->norm = l->last_norm;
    e->seconds = qkv__seconds(l);
    e->left = qkv__seconds_left(l);
    e->terms = l->terms.count ? &l->terms : NULL;
    qkv__rates(l, e);
    if (!l->event(l->user, e))
        l->stop = true;
}

void qkv__tell(qkv__loop *l, qkv_train_kind kind, const qkv_metrics *m, bool best)
{
    qkv_train_event e = {.kind = kind, .metrics = m, .best = best};
    if (l->event)
        tell_event(l, &e);
}

void qkv__tell_optimizer(const qkv__loop *l)
{
    const qkv_task_type *type = l->task->type;
    double own = qkv_optimizer_flops(l->optimizer);
    double sample = type->flops && own > 0 ? type->flops(l->task->self) : 0;
    double share = own / (own + sample * (double)l->o.batch);
    if (!l->event || !(sample > 0) || share <= LARGE_SHARE)
        return;
    char text[256];
    double batch = ceil(own * (1 / LARGE_SHARE - 1) / sample);
    snprintf(text, sizeof text, "note: muon's Newton-Schulz iteration is %.0f %% of an update's "
             "arithmetic; with --batch %.0f it is %.0f %%", 100 * share, batch, 100 * LARGE_SHARE);
    l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step, .text = text});
}

void qkv__tell_sample(qkv__loop *l, const qkv_sample *s)
{
    qkv_train_event e = {.kind = QKV_TRAIN_SAMPLE, .sample = s};
    if (l->event)
        tell_event(l, &e);
}
