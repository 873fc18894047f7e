/* schedule.c - learning-rate schedules: the rate as a pure function of the step. They keep no
 * state, so a resumed run and a straight one cannot differ. */
#include <math.h>

#include "qkv/opt.h"

/* How far step is from `from` to `to`, in [0, 1]. */
static double progress(uint64_t step, uint64_t from, uint64_t to)
{
    if (step <= from && from < to)
        return 0.0;
    return step >= to ? 1.0 : (double)(step - from) / (double)(to - from);
}

/* What remains of lr - min_lr: 1 at the end of the warm-up, 0 at the end of the decay. */
static double constant(const qkv_schedule *s, uint64_t step)
{
    (void)s, (void)step;
    return 1.0;
}

static double schedule_linear(const qkv_schedule *s, uint64_t step)
{
    return 1.0 - progress(step, s->warmup, s->steps);
}

static double cosine(const qkv_schedule *s, uint64_t step)
{
    return 0.5 * (1.0 + cos(acos(-1.0) * progress(step, s->warmup, s->steps)));
}

/* Haegele et al. 2024: 1 - sqrt ends lower than a straight line. */
static double wsd(const qkv_schedule *s, uint64_t step)
{
    uint64_t decay = s->decay ? s->decay : s->steps / 5;
    uint64_t from = s->steps > decay ? s->steps - decay : 0;
    return 1.0 - sqrt(progress(step, from > s->warmup ? from : s->warmup, s->steps));
}

static double (*const remains[QKV_SCHEDULE_COUNT])(const qkv_schedule *, uint64_t) = {
    [QKV_SCHEDULE_CONSTANT] = constant,
    [QKV_SCHEDULE_LINEAR] = schedule_linear,
    [QKV_SCHEDULE_COSINE] = cosine,
    [QKV_SCHEDULE_WSD] = wsd,
};

/* Vaswani et al. 2017, eq. 3, with steps from 1. Without warm-up it begins at its peak. */
static double noam(const qkv_schedule *s, uint64_t step)
{
    double n = (double)step + 1.0, w = s->warmup ? (double)s->warmup : 1.0;
    double width = s->width ? (double)s->width : 512.0;
    return s->lr / sqrt(width) * fmin(1.0 / sqrt(n), n / (w * sqrt(w)));
}

static double inverse_sqrt(const qkv_schedule *s, uint64_t step)
{
    double w = s->warmup ? (double)s->warmup : 1.0;
    return s->lr * sqrt(w / fmax((double)step, w));
}

qkv_schedule qkv_schedule_defaults(qkv_schedule_kind kind)
{
    return (qkv_schedule){
        .kind = kind,
        .lr = kind == QKV_SCHEDULE_NOAM ? 1.0 : 1e-3,
        .start_lr = -1.0,
        .width = 512,
    };
}

double qkv_schedule_lr(const qkv_schedule *s, uint64_t step)
{
    bool warming = step < s->warmup;
    if (s->kind == QKV_SCHEDULE_NOAM)
        return warming ? noam(s, step) : fmax(noam(s, step), s->min_lr);
    if (warming) {
        double w = (double)s->warmup;
        double start = s->start_lr < 0.0 ? s->lr / (w + 1.0) : s->start_lr;
        return start + (s->lr - start) * ((double)step / w);
    }
    if (s->kind == QKV_SCHEDULE_INVERSE_SQRT)
        return fmax(inverse_sqrt(s, step), s->min_lr);
    return s->min_lr + (s->lr - s->min_lr) * remains[s->kind](s, step);
}
