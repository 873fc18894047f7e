/* scale.c - the time of an update over ranks, as formulas.
 *
 * Letters: R ranks, p of them on a machine, n bytes of a bucket, b samples of a rank. The
 * alpha-beta model (Hockney 1994; of collectives: Thakur, Rabenseifner and Gropp 2005): a message
 * of n bytes takes alpha + n / beta, alpha the latency and beta the bandwidth of a machine, each
 * way. Messages of a rank follow one another; those within a machine take no time.
 *
 * The exchange is direct (exchange.c): each rank sends to each other one what that one owns. So the
 * bytes are the least that there can be, n (R - 1) / R each way for the gradients and again for the
 * values, as of a ring; but the messages are R - 1 for each window of each bucket, where a ring has
 * neighbours alone and a tree log2 R rounds. Where alpha R is more than n / beta, in thousands of
 * ranks, latency takes over, and this design ends. That the messages of a window are under way
 * together is left out: the latency is an upper bound.
 *
 * TCP's work for the processor is not in that model: it is measured between two ends of one
 * machine, and added. */
#include "qkv/scale.h"

#include <math.h>

#include "base/base.h"
#include "train/window.h"

/* Small messages of every rank to all: two statuses, the losses, the squares (train.c, ranks.c). */
enum { GATHERS = 4 };

/* Ranks on other machines. */
static double far_ranks(const qkv_scale_cluster *on)
{
    return (double)on->ranks - (double)on->ranks_per_machine;
}

/* alpha m + p n (R - p) / R / beta: m messages, and the bytes that a machine's p ranks have for
 * others. */
static double seconds_of(const qkv_scale_cluster *on, double bytes, double messages)
{
    double out = bytes * far_ranks(on) / (double)on->ranks;
    return on->latency * messages + (double)on->ranks_per_machine * out / on->bandwidth;
}

/* A rank's messages with the gradients of a bucket. */
static double messages_of(const qkv_scale_cluster *on, const qkv_scale_bucket *b)
{
    double slice = b->bytes / sizeof(qkv_real) / (double)on->ranks;
    return far_ranks(on) * ceil(slice / QKV__WINDOW);
}

/* The part of the exchange of gradients that lasts longer than the backward pass: a bucket goes out
 * once it is complete and those before it are gone. Only the last pass of an update hides it. */
static double late_gradients(const qkv_scale_step *s, const qkv_scale_cluster *on, double backward,
                             bool one_pass)
{
    double end = 0, last = 0;
    for (size_t i = 0; i < s->bucket_count; i++) {
        const qkv_scale_bucket *b = &s->buckets[i];
        double seconds = seconds_of(on, b->bytes, messages_of(on, b));
        if (b->tied && !one_pass)
            last += seconds;
        else
            end = fmax(end, b->ready * backward) + seconds;
    }
    end = last > 0 ? fmax(end, backward) + last : end;
    return fmax(0, end - backward);
}

static qkv_status check_step(qkv_context *ctx, const qkv_scale_step *s)
{
    if (!(s->samples > 0) || !s->bucket_count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "scale: a step with samples and buckets expected");
    return QKV_OK;
}

static qkv_status check_cluster(qkv_context *ctx, const qkv_scale_cluster *on)
{
    if (!on->ranks || on->ranks % on->ranks_per_machine)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "scale: a multiple of the %zu ranks of a machine "
                        "expected, found %zu ranks", on->ranks_per_machine, on->ranks);
    if (!(on->bandwidth > 0) || !(on->latency >= 0))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "scale: a bandwidth above 0 and a latency from 0 "
                        "expected, found %g bytes/s and %g s", on->bandwidth, on->latency);
    if (!(on->batch >= (double)on->ranks))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "scale: a sample for each of the %zu ranks at least "
                        "expected, found an update of %g", on->ranks, on->batch);
    return QKV_OK;
}

qkv_status qkv_scale_predict(qkv_context *ctx, const qkv_scale_step *step,
                             const qkv_scale_cluster *cluster, qkv_scale_prediction *out)
{
    qkv_scale_cluster on = *cluster;
    *out = (qkv_scale_prediction){0};
    on.ranks_per_machine = on.ranks_per_machine ? on.ranks_per_machine : 1;
    on.batch = on.batch != 0 ? on.batch : (double)on.ranks * step->samples;
    qkv_status status = check_step(ctx, step);
    if (!status)
        status = check_cluster(ctx, &on);
    if (status)
        return status;
    double ranks = (double)on.ranks, mine = on.batch / ranks; /* samples of a rank */
    double passes = ceil(mine / step->samples), share = mine / step->samples;
    double small = GATHERS * far_ranks(&on), values = 0;
    for (size_t i = 0; i < step->bucket_count; i++) {
        const qkv_scale_bucket *b = &step->buckets[i];
        out->bytes += 2 * b->bytes * far_ranks(&on) / ranks;
        out->messages += messages_of(&on, b) + far_ranks(&on);
        values += seconds_of(&on, b->bytes, far_ranks(&on));
    }
    out->messages += small;
    out->compute = share * (step->forward + step->backward);
    double hiding = share / passes * step->backward;
    out->waiting = late_gradients(step, &on, hiding, passes <= 1) + values + small * on.latency;
    out->update = step->update / ranks + step->sum * (ranks - 1) / ranks +
                  step->transport * out->bytes;
    out->step = out->compute + out->waiting + out->update;
    out->samples_per_s = on.batch / out->step;
    out->efficiency = (out->compute + step->update) / out->step;
    return QKV_OK;
}

double qkv_scale_cost(const qkv_scale_cluster *on, const qkv_scale_prediction *p, double updates,
                      double price)
{
    size_t each = on->ranks_per_machine ? on->ranks_per_machine : 1;
    return (double)(on->ranks / each) * updates * p->step / 3600 * price;
}
