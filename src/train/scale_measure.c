/* scale_measure.c - the step of one rank from which those of many are predicted. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/device.h"
#include "qkv/scale.h"
#include "tensor/make.h"
#include "tensor/partition.h"

/* Bytes per number that AdamW reads and writes (value, gradient, two moments; all but the gradient
 * again), and clipping reads; those that an addition does. */
enum { UPDATE_BYTES = 8 * sizeof(qkv_real), SUM_BYTES = 3 * sizeof(qkv_real) };
static const double BACKWARD = 2.0 / 3; /* of both passes: two products for each of the forward */

/* What a step makes. */
typedef struct {
    qkv_context *ctx, *owner; /* of what is made; of the result */
    const qkv_predicted_step *step;
    qkv_params *params;
    qkv__partition *part;
    qkv_tape *tape;
    qkv_optimizer *optimizer;
    qkv_real *other; /* (largest bucket) the gradients of another rank */
    qkv__arena *memory;
    qkv_scale_bucket *buckets; /* of the result */
    double *ready;   /* (buckets) qkv_now() of the last parameter's gradient in this step */
    double *times;   /* (TIMES, repeats) */
    size_t repeats;
} rehearsal;

enum { FORWARD_TIME, BACKWARD_TIME, UPDATE_TIME, SUM_TIME, TIMES };

static void note_ready(void *user, qkv_param *p)
{
    const rehearsal *r = user;
    size_t b = r->part->bucket_of[qkv__param_index(p)];
    if (b != SIZE_MAX)
        r->ready[b] = qkv_now();
}

/* Rows that a run keeps apart are dropped. A qkv__grad_rows_fn. */
static bool note_tied(void *user, const qkv__grad_rows *rows)
{
    const rehearsal *r = user;
    r->buckets[r->part->bucket_of[qkv__param_index(rows->param)]].tied = true;
    return true;
}

static int by_ready(const void *a, const void *b)
{
    const qkv_scale_bucket *x = a, *y = b;
    return (x->ready > y->ready) - (x->ready < y->ready);
}

/* ---- TCP ---------------------------------------------------------------------------------- */

/* Two ends of a connection of this machine with itself; false without such a network. */
static bool connect_ends(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    ends[1] = -1;
    if (listener >= 0 && ends[0] >= 0 && !bind(listener, (struct sockaddr *)&at, sizeof at) &&
        !listen(listener, 1) && !getsockname(listener, (struct sockaddr *)&at, &length) &&
        !connect(ends[0], (struct sockaddr *)&at, sizeof at))
        ends[1] = accept(listener, NULL, NULL);
    if (listener >= 0)
        (void)close(listener);
    return ends[1] >= 0;
}

/* Moves what the network takes at once of the data; how many bytes, 0: it failed. */
static ssize_t pass_through(const int ends[2], char *data, size_t bytes)
{
    ssize_t sent = send(ends[0], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL), n = 1;
    for (ssize_t came = 0; came < sent && n > 0; came += n)
        n = recv(ends[1], data, (size_t)(sent - came), 0);
    return sent > 0 && n > 0 ? sent : 0;
}

/* Seconds for a byte through TCP, both ends' work; 0 where it cannot be measured. */
static double measure_transport(void)
{
    enum { BYTES = 1 << 16, MOST = 512 * BYTES };
    char data[BYTES] = {0};
    int ends[2];
    ssize_t moved = connect_ends(ends) ? pass_through(ends, data, BYTES) : 0, total = 0;
    double begun = qkv_now();
    for (; moved > 0 && total < MOST; total += moved)
        moved = pass_through(ends, data, BYTES);
    double seconds = qkv_now() - begun;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            (void)close(ends[i]);
    return moved > 0 ? seconds / (double)total : 0;
}

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status make_buckets(rehearsal *r, qkv_scale_step *out)
{
    qkv_model *models[2] = {NULL, NULL};
    qkv_status status = r->step->make(r->step->user, r->ctx, models);
    if (status)
        return status;
    r->params = qkv_model_params(models[0]);
    status = qkv__partition_create(&r->part, r->params, 1, false, false);
    if (status)
        return status;
    size_t n = r->part->bucket_count;
    out->buckets = r->buckets = qkv_calloc(r->owner, n + 1, sizeof *out->buckets);
    out->bucket_count = n;
    for (size_t i = 0; i < n && out->buckets; i++)
        out->buckets[i].bytes = (double)r->part->buckets[i].count * sizeof(qkv_real);
    r->ready = qkv_calloc(r->ctx, n + 1, sizeof *r->ready);
    if (!out->buckets || !r->ready)
        return QKV_E_MEMORY;
    status = qkv_tape_create(&r->tape, r->ctx);
    if (status)
        return status;
    qkv_tape_recompute(r->tape, r->step->recompute);
    qkv_tape_on_grad_ready(r->tape, note_ready, r);
    qkv__tape_on_grad_rows(r->tape, note_tied, r);
    return QKV_OK;
}

static bool make_times(rehearsal *r)
{
    size_t n = r->part->bucket_count, most = 0;
    for (size_t i = 0; i < n; i++)
        most = r->part->buckets[i].count > most ? r->part->buckets[i].count : most;
    r->times = qkv_calloc(r->ctx, TIMES * r->repeats, sizeof *r->times);
    if (qkv__arena_create_on(&r->memory, r->ctx, qkv__context_device(r->ctx), "scale"))
        return false;
    r->other = qkv__arena_zalloc(r->memory, (most + 1) * sizeof *r->other);
    return r->times && r->other;
}

static void free_rehearsal(rehearsal *r)
{
    qkv_optimizer_destroy(r->optimizer);
    qkv_tape_destroy(r->tape);
    qkv__partition_destroy(r->part);
    qkv__arena_destroy(r->memory);
    qkv_free(r->ctx, r->ready);
    qkv_free(r->ctx, r->times);
    r->step->end(r->step->user);
}

/* ---- taking it ---------------------------------------------------------------------------- */

/* One step; times: (TIMES) of it. ready becomes shares of its backward pass. */
static qkv_status take_apart(rehearsal *r, double times[TIMES])
{
    const qkv_optimizer_step_args args = {.lr = 1e-4, .max_norm = 1};
    const qkv__partition *p = r->part;
    double begun = qkv_now();
    qkv_tape_reset(r->tape);
    qkv_tape_mode(r->tape, true, true);
    qkv_tensor *loss = r->step->loss(r->step->user, r->tape);
    double forward = qkv_now();
    for (size_t i = 0; i < p->bucket_count; i++)
        r->ready[i] = -1;
    qkv_status status = qkv_backward(r->tape, loss);
    double backward = qkv_now();
    if (!status)
        status = qkv_optimizer_step(r->optimizer, &args, NULL);
    double update = qkv_now();
    for (size_t i = 0; i < p->bucket_count && !status; i++)
        qkv__partition_add(p, r->other, p->buckets[i].grad, p->buckets[i].count);
    double sum = qkv_now();
    for (size_t i = 0; i < p->bucket_count; i++)
        r->ready[i] = r->ready[i] < 0 ? 1 : (r->ready[i] - forward) / (backward - forward);
    times[FORWARD_TIME] = forward - begun;
    times[BACKWARD_TIME] = backward - forward;
    times[UPDATE_TIME] = update - backward;
    times[SUM_TIME] = sum - update;
    qkv_params_zero_grad(r->params);
    return status;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, by_size);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

static qkv_status take_all(rehearsal *r, qkv_scale_step *out)
{
    double unused[TIMES], now[TIMES];
    qkv_status status = take_apart(r, unused);
    for (size_t i = 0; i < r->repeats && !status; i++) {
        status = take_apart(r, now);
        for (size_t k = 0; k < TIMES; k++)
            r->times[k * r->repeats + i] = now[k];
        for (size_t b = 0; b < out->bucket_count; b++)
            out->buckets[b].ready += r->ready[b] / (double)r->repeats;
    }
    out->forward = median(r->times + FORWARD_TIME * r->repeats, r->repeats);
    out->backward = median(r->times + BACKWARD_TIME * r->repeats, r->repeats);
    out->update = median(r->times + UPDATE_TIME * r->repeats, r->repeats);
    out->sum = median(r->times + SUM_TIME * r->repeats, r->repeats);
    return status;
}

qkv_status qkv_scale_measure(qkv_context *ctx, const qkv_predicted_step *step, double samples,
                             const qkv_optimizer_options *optimizer, size_t repeats,
                             qkv_scale_step *out)
{
    const qkv_optimizer_options usual = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    rehearsal r = {.ctx = ctx, .owner = ctx, .step = step,
                   .repeats = repeats ? repeats : 1};
    *out = (qkv_scale_step){.samples = samples, .transport = measure_transport()};
    qkv_status status = make_buckets(&r, out);
    if (!status && !make_times(&r))
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv_optimizer_create(&r.optimizer, r.params, optimizer ? optimizer : &usual,
                                      qkv_optimizer_decay_matrices(), 1);
    if (!status)
        status = take_all(&r, out);
    if (!status)
        qsort(out->buckets, out->bucket_count, sizeof *out->buckets, by_ready);
    free_rehearsal(&r);
    if (status)
        qkv_scale_step_free(ctx, out);
    return status;
}

/* ---- assuming it ---------------------------------------------------------------------------- */

/* Takes the step for the order in which gradients are complete. */
static qkv_status find_order(const rehearsal *r, qkv_scale_step *s)
{
    qkv_tape_mode(r->tape, true, true);
    qkv_status status = qkv_backward(r->tape, r->step->loss(r->step->user, r->tape));
    for (size_t i = 0; i < s->bucket_count; i++)
        s->buckets[i].ready = r->ready[i] > 0 ? r->ready[i] : HUGE_VAL; /* not reached */
    qsort(s->buckets, s->bucket_count, sizeof *s->buckets, by_ready);
    return status;
}

static void spread_evenly(qkv_scale_step *s, double *total)
{
    double all = 0, before = 0;
    for (size_t i = 0; i < s->bucket_count; i++)
        all += s->buckets[i].bytes;
    for (size_t i = 0; i < s->bucket_count; i++) {
        before += s->buckets[i].bytes;
        s->buckets[i].ready = i + 1 == s->bucket_count ? 1 : before / all;
    }
    *total = all;
}

qkv_status qkv_scale_assume(qkv_context *ctx, const qkv_predicted_step *step, double samples,
                            double seconds, qkv_scale_step *out)
{
    qkv_context_options options = qkv_context_defaults();
    rehearsal r = {.owner = ctx, .step = step};
    double bytes = 0, bandwidth = qkv_machine_read_bandwidth(ctx);
    *out = (qkv_scale_step){.samples = samples, .forward = seconds * (1 - BACKWARD),
                            .backward = seconds * BACKWARD, .transport = measure_transport()};
    options.meta = true;
    if (!(bandwidth > 0))
        return qkv_context_status(ctx);
    if (qkv_context_create(&r.ctx, &options))
        return qkv_fail(ctx, QKV_E_MEMORY, "out of memory");
    qkv_status status = make_buckets(&r, out);
    if (!status)
        status = find_order(&r, out);
    if (status) {
        (void)qkv_fail(ctx, status, "%s", qkv_context_message(r.ctx));
        qkv_scale_step_free(ctx, out);
    } else {
        spread_evenly(out, &bytes);
        out->update = bytes / sizeof(qkv_real) * UPDATE_BYTES / bandwidth;
        out->sum = bytes / sizeof(qkv_real) * SUM_BYTES / bandwidth;
    }
    free_rehearsal(&r);
    qkv_context_destroy(r.ctx);
    return status;
}

void qkv_scale_step_free(qkv_context *ctx, qkv_scale_step *step)
{
    qkv_free(ctx, step->buckets);
    *step = (qkv_scale_step){0};
}
