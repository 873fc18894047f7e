/* predict.c - the memory of a training step, from a step in a meta context.
 *
 * What the arenas hold after it is the answer. Beside them there is the process itself, and what
 * libraries take once they compute, which is measured. */
#include "qkv/predict.h"

#include <string.h>

#include "base/base.h"
#include "opt/state.h"
#include "qkv/machine.h"
#include "tensor/make.h"
#include "tensor/partition.h"
#include "train/exchange.h"
#include "train/slices.h"
#include "train/window.h"

/* In which qkv_train, which alone runs over ranks, measures the machine's limit on rank 0: three
 * matrices of 2048 x 2048. */
static const size_t PEAK_BYTES = 3 * 2048 * 2048 * sizeof(qkv_real);

/* Rows as they are taken, sorted for their owners, and received (rows.c). */
enum { ROW_COPIES = 3 };

/* What the step makes. */
typedef struct {
    qkv_context *ctx; /* computes nothing */
    qkv_tape *tape;
    qkv__partition *partition; /* NULL: one rank */
    qkv__own *own;             /* (parameters) of rank 0; NULL: all of them */
    qkv__slices *slices;       /* NULL: gradients are kept */
    size_t *ready;             /* (buckets) parameters whose gradient is complete */
    size_t leaving[QKV__WAITING], leavers; /* buckets that are being exchanged, in their order */
    size_t rows; /* bytes of rows that are kept apart */
    qkv_optimizer *optimizer;
    qkv_average *average;
} plan;

/* What of each parameter rank 0 keeps the state of: the first chunk of every bucket. */
static qkv_status cut_over_ranks(plan *p, qkv_params *params, size_t ranks,
                                 const qkv_optimizer_options *optimizer, bool keeps)
{
    qkv_status status = qkv__partition_create(&p->partition, params, ranks,
                                              optimizer->kind == QKV_OPTIMIZER_MUON, !keeps);
    if (!status && !keeps)
        status = qkv__slices_create(&p->slices, p->partition, ranks, 0);
    if (status)
        return status;
    p->ready = qkv_calloc(p->ctx, p->partition->bucket_count + 1, sizeof *p->ready);
    p->own = qkv_calloc(p->ctx, qkv_params_count(params), sizeof *p->own);
    for (size_t i = 0; i < qkv_params_count(params) && p->own; i++) {
        size_t from = 0, to = 0;
        if (p->partition->bucket_of[i] != SIZE_MAX)
            qkv__partition_own(p->partition, i, ranks, 0, &from, &to);
        p->own[i] = (qkv__own){from, to - from};
    }
    return p->own && p->ready ? QKV_OK : QKV_E_MEMORY;
}

/* A bucket that is complete leaves when as many others are on their way as may be. */
static void leave_if_complete(void *user, qkv_param *x)
{
    plan *p = user;
    size_t b = p->partition->bucket_of[qkv__param_index(x)], all = 0;
    const qkv__bucket *bucket = b == SIZE_MAX ? NULL : &p->partition->buckets[b];
    for (size_t i = 0; bucket && i < bucket->pieces; i++)
        all += p->partition->pieces[bucket->first + i].first;
    if (!bucket || ++p->ready[b] < all)
        return;
    if (p->leavers == QKV__WAITING) {
        qkv__slices_keep(p->slices, p->leaving[0]);
        memmove(p->leaving, p->leaving + 1, (QKV__WAITING - 1) * sizeof *p->leaving);
        p->leavers--;
    }
    p->leaving[p->leavers++] = b;
}

/* A qkv__grad_rows_fn. */
static bool count_rows(void *user, const qkv__grad_rows *rows)
{
    plan *p = user;
    p->rows += rows->n * qkv_param_dim(rows->param, 1) * sizeof(qkv_real);
    return true;
}

static size_t bytes_of_gradients(const plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->partition->bucket_count && !p->slices; i++)
        n += p->partition->buckets[i].count * sizeof(qkv_real);
    return n;
}

static size_t bytes_of_average(const plan *p, const qkv_params *params)
{
    size_t n = 0;
    for (size_t i = 0; i < qkv_params_count(params); i++)
        n += qkv__state_bytes(qkv__own_of(p->own, params, i).count);
    return n;
}

static qkv_status make_state(plan *p, qkv_params *params, const qkv_predicted_step *step,
                             const qkv_optimizer_options *optimizer)
{
    const qkv_average_options average = {.decay = 0.5};
    qkv_status status = step->ranks > 1 ? cut_over_ranks(p, params, step->ranks, optimizer,
                                                         step->keeps)
                                        : QKV_OK;
    if (!status)
        status = qkv__optimizer_create_of(&p->optimizer, params, optimizer,
                                          qkv_optimizer_decay_matrices(), 1, p->own);
    if (!status && step->average)
        status = qkv__average_create_of(&p->average, params, &average, p->own);
    return status ? status : qkv_tape_create(&p->tape, p->ctx);
}

static qkv_status predict_lay_out(plan *p, const qkv_predicted_step *step,
                                  const qkv_optimizer_options *optimizer,
                                  qkv_memory_prediction *out)
{
    const qkv_optimizer_step_args args = {.lr = 1e-4, .max_norm = 1};
    qkv_model *models[2] = {NULL, NULL};
    qkv_status status = step->make(step->user, p->ctx, models);
    if (status)
        return status;
    qkv_params *params = qkv_model_params(models[0]);
    size_t frozen = models[1] ? qkv_params_bytes(qkv_model_params(models[1])) : 0;
    size_t values = qkv_params_bytes(params);
    status = make_state(p, params, step, optimizer);
    if (status)
        return status;
    qkv_tape_mode(p->tape, true, true);
    qkv_tape_recompute(p->tape, step->recompute);
    if (p->slices) {
        qkv_tape_on_grad_ready(p->tape, leave_if_complete, p);
        qkv__tape_on_grad_rows(p->tape, count_rows, p);
    }
    status = qkv_backward(p->tape, step->loss(step->user, p->tape));
    if (!status)
        status = qkv_optimizer_step(p->optimizer, &args, NULL);
    if (p->partition) /* values and gradients lie together, padded to chunks */
        values = qkv_params_bytes(params) - bytes_of_gradients(p);
    out->parameters = values + frozen;
    out->gradients = qkv_params_bytes(params) - values;
    out->gradients += p->slices ? qkv__slices_bytes(p->slices) : 0;
    out->optimizer = qkv_optimizer_bytes(p->optimizer);
    out->averages = step->average ? bytes_of_average(p, params) : 0;
    if (p->partition)
        out->exchange = QKV__FLIGHTS * qkv__exchange_window(p->partition, step->ranks) *
                            step->ranks * sizeof(qkv_real) +
                        ROW_COPIES * p->rows;
    out->process += p->partition ? PEAK_BYTES : 0;
    out->activations = qkv_tape_high_water(p->tape);
    out->scratch = qkv_tape_scratch_high_water(p->tape);
    return status;
}

static void free_prediction(const plan *p)
{
    qkv_average_destroy(p->average);
    qkv_optimizer_destroy(p->optimizer);
    qkv_tape_destroy(p->tape);
    qkv__slices_destroy(p->slices);
    qkv__partition_destroy(p->partition);
    qkv_free(p->ctx, p->ready);
    qkv_free(p->ctx, p->own);
}

qkv_status qkv_predict_memory(qkv_context *ctx, const qkv_predicted_step *step,
                              const qkv_optimizer_options *optimizer, qkv_memory_prediction *out)
{
    const qkv_optimizer_options usual = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_context_options options = qkv_context_defaults();
    plan p = {0};
    *out = (qkv_memory_prediction){0};
    options.threads = qkv_context_threads(ctx);
    options.isa = qkv_context_isa(ctx);
    options.meta = true;
    out->process = qkv_machine_rss();
    out->process += qkv_machine_product_bytes(ctx);
    if (qkv_context_create(&p.ctx, &options))
        return qkv_fail(ctx, QKV_E_MEMORY, "out of memory");
    (void)qkv_machine_products(ctx);
    qkv__context_choose(p.ctx, qkv__context_products(ctx));
    qkv_status status = predict_lay_out(&p, step, optimizer ? optimizer : &usual, out);
    if (status) {
        (void)qkv_fail(ctx, status, "%s", qkv_context_message(p.ctx));
        *out = (qkv_memory_prediction){0};
    }
    free_prediction(&p);
    step->end(step->user);
    qkv_context_destroy(p.ctx);
    out->total = out->parameters + out->gradients + out->optimizer + out->averages +
                 out->exchange + out->activations + out->scratch +
                 out->process; /* 0 after a failure */
    return status;
}
