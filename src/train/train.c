/* train.c - the loop: everything meets here and nowhere else. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "qkv/hub.h"
#include "tensor/make.h"
#include "train/loop.h"

static const double SAVE_SECONDS = 60; /* between checkpoints, unless evaluations come sooner */
static const double NEWEST = 0.02;     /* share of an update in the training loss shown */
static const double PEAK_AFTER = 3;    /* seconds of training, then the limit is measured */
enum { LOG_EVERY = 10 };               /* updates between lines of the log */

/* ---- one update ---------------------------------------------------------------------------- */

/* Of the tape, or of the context, or of nobody. */
static qkv_status loss_failure(const qkv__loop *l)
{
    if (qkv_tape_status(l->tape))
        return qkv_tape_status(l->tape);
    if (qkv_context_status(l->ctx))
        return qkv_context_status(l->ctx);
    return qkv_fail(l->ctx, QKV_E_ARGUMENT, "task %s: the loss is NULL, and nothing says why",
                    l->task->type->name);
}

/* Forward and backward of a micro-batch. *loss: grows by its share of the batch's. */
static qkv_status train_pass(qkv__loop *l, const qkv_micro_batch *part, double *loss)
{
    const qkv_task_type *type = l->task->type;
    qkv_tape_reset(l->tape);
    qkv_tape_mode(l->tape, true, true);
    qkv_randomness r = {.seed = l->task->seed,
                        .step = part->step * (uint64_t)type->phases + (uint64_t)part->phase,
                        .first_sample = part->first, .samples = part->count};
    qkv_tape_randomness(l->tape, &r);
    qkv_status status = qkv__watch(l, part, false);
    if (status)
        return status;
    (void)qkv__hold(l->ctx, l->whole);
    qkv_tensor *y = type->loss(l->task->self, l->tape, part);
    if (y) {
        *loss += (double)qkv_item(l->tape, y);
        status = qkv_backward(l->tape, y);
    } else {
        status = loss_failure(l);
    }
    (void)qkv__hold(l->ctx, true);
    l->stop = status == QKV_E_CANCELLED && !l->whole; /* nothing has changed yet */
    return status ? status : qkv__watch(l, part, true);
}

/* The passes of samples [from, to), whose gradients add up in order. last: of this rank's shards,
 * after whose last pass nothing adds to a gradient any more. */
static qkv_status train_passes(qkv__loop *l, int phase, size_t shard, double *loss,
                               qkv_terms *terms)
{
    size_t n = l->o.accumulation_steps, from, to;
    qkv_status status = QKV_OK;
    qkv__ranks_shard(l->ranks, shard, l->o.batch, &from, &to);
    qkv_params_zero_grad(l->params);
    for (size_t i = 0; i < n && !status; i++) {
        size_t begin = from + (to - from) * i / n, end = from + (to - from) * (i + 1) / n;
        qkv_micro_batch part = {l->step, phase, begin, end - begin, l->o.batch, &l->data_time,
                                terms};
        if (i + 1 == n)
            qkv__ranks_last_pass(l->ranks, shard);
        if (end > begin)
            status = train_pass(l, &part, loss);
    }
    return status;
}

static qkv_status end_phase(const qkv__loop *l, int phase)
{
    const qkv_task_type *type = l->task->type;
    return type->end_phase ? type->end_phase(l->task->self, l->step, phase) : QKV_OK;
}

/* A phase on one rank with one shard: passes, then the update. */
static qkv_status phase_alone(qkv__loop *l, int phase, const qkv_optimizer_step_args *args,
                              double *loss)
{
    qkv_status status = train_passes(l, phase, 0, loss, &l->terms);
    if (!status)
        status = end_phase(l, phase);
    if (!status && l->dir && qkv__log_norms_due(l->step + 1))
        qkv__groups_add(l);
    return status ? status : qkv_optimizer_step(l->optimizer, args, &l->last_norm);
}

/* A phase of this rank's shards, whose sums over all ranks are what is updated with. */
static qkv_status phase_in_shards(qkv__loop *l, int phase, const qkv_optimizer_step_args *args,
                                  double *loss)
{
    qkv__ranks_sums sums = {.loss = 0};
    qkv_status status = QKV_OK;
    qkv__ranks_begin(l->ranks);
    for (size_t s = 0; s < qkv__ranks_shards(l->ranks) && !status; s++) {
        double part = 0;
        qkv_terms terms = {.count = 0};
        status = train_passes(l, phase, s, &part, &terms);
        if (!status)
            status = qkv__ranks_end_shard(l->ranks, s, part, &terms);
    }
    status = qkv__ranks_agree(l->ranks, status);
    if (!status)
        status = end_phase(l, phase);
    if (!status)
        status = qkv__ranks_finish(l->ranks, l->optimizer, args, &sums);
    if (!status && l->dir && qkv__log_norms_due(l->step + 1))
        qkv__groups_add(l);
    *loss += sums.loss;
    l->last_norm = sums.norm;
    for (int i = 0; i < sums.terms.count && !status; i++)
        qkv_terms_add(&l->terms, sums.terms.item[i].name, sums.terms.item[i].value);
    return status;
}

static void warn_without_gradient(qkv__loop *l)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < qkv_params_count(l->params); i++) {
        qkv_param *p = qkv_params_at(l->params, i);
        if (!qkv_param_frozen(p) && !qkv__param_has_grad(p)) {
            first = first ? first : qkv_param_name(p);
            n++;
        }
    }
    if (!n || !l->event)
        return;
    char text[256];
    snprintf(text, sizeof text, "warning: %zu parameter%s got no gradient (first: %s)", n,
             n > 1 ? "s" : "", first);
    l->event(l->user, &(qkv_train_event){.kind = QKV_TRAIN_NOTE, .step = l->step, .text = text});
}

/* A weight that is not finite says more than the gradient that it spoils. */
static qkv_status fail_at_step(qkv__loop *l, qkv_status status)
{
    char prefix[48];
    if (status == QKV_E_NUMERIC)
        (void)qkv__check_finite(l);
    snprintf(prefix, sizeof prefix, "step %llu", (unsigned long long)l->step + 1);
    return qkv_fail_prefix(l->ctx, prefix);
}

static qkv_status update(qkv__loop *l)
{
    const qkv_train_options *o = &l->o;
    qkv_status status = QKV_OK;
    double loss = 0;
    uint64_t steps = qkv__plan_steps(l);
    qkv_schedule schedule = l->schedule;
    schedule.steps = steps ? steps : UINT32_MAX; /* flat until the plan is known */
    if (l->plan_count && schedule.warmup > l->plans[0].steps / 10)
        schedule.warmup = l->plans[0].steps / 10;
    l->terms.count = 0;
    qkv__groups_clear(l);
    for (int phase = 0; phase < l->task->type->phases && !status; phase++) {
        if (l->task->type->idle && l->task->type->idle(l->task->self, l->step, phase))
            continue;
        l->last_lr = qkv_schedule_lr(&schedule, l->step);
        qkv_optimizer_step_args args = {.lr = l->last_lr, .max_norm = o->clip};
        status = l->ranks ? phase_in_shards(l, phase, &args, &loss)
                          : phase_alone(l, phase, &args, &loss);
    }
    if (!status && !isfinite(loss))
        status = qkv_fail(l->ctx, QKV_E_NUMERIC, "the loss is %g", loss);
    if (status)
        return l->stop ? status : fail_at_step(l, status);
    if (l->average)
        qkv_average_add(l->average);
    if (l->recent_updates == 0 && l->updates == 0)
        warn_without_gradient(l);
    l->last_loss = loss;
    double share = 4 / (4 + (double)l->step); /* at first over about a quarter of all updates */
    share = share > NEWEST ? share : NEWEST;
    l->smooth_loss += share * (loss - l->smooth_loss);
    l->step++;
    return QKV_OK;
}

/* ---- the loop ----------------------------------------------------------------------------- */

static bool due(uint64_t step, uint64_t every) { return every && step % every == 0; }

/* A run that has ended says so in its state, which is then saved once. */
static qkv_status evaluate_and_save(qkv__loop *l, bool last)
{
    double begun = qkv_now();
    qkv_status status = qkv__evaluate_model(l, last);
    l->owed = status == QKV_E_CANCELLED;
    if (!status && !last)
        status = qkv__state_save(l);
    if (!status && !last)
        qkv__report_write(l, false);
    l->eval_time = qkv_now() - begun;
    l->mark += l->eval_time;
    return status;
}

/* The machine's limit, once, when a tenth of a second for it is no loss. */
static void measure_peak(qkv__loop *l)
{
    double begun = qkv_now();
    if (l->peak != 0 || !l->o.measure_peak || !l->task->type->flops ||
        l->update_time < PEAK_AFTER || !qkv__leads(l) ||
        !(qkv_context_isa(l->ctx) & ~(unsigned)QKV_ISA_REFERENCE))
        return;
    l->peak = qkv_machine_peak_flops(l->ctx, 1) * qkv_dist_size(l->ctx); /* ranks are alike */
    l->peak = l->peak > 0 ? l->peak : -1;
    l->mark += qkv_now() - begun;
}

static qkv_status one_step(qkv__loop *l)
{
    double begun = qkv_now();
    qkv_status status = update(l);
    if (status)
        return status;
    double took = qkv_now() - begun;
    l->updates++;
    l->update_time += took;
    if (l->recent_time > 5) { /* rates of the last few seconds */
        l->recent_time /= 2;
        l->recent_updates = (l->recent_updates + 1) / 2;
    }
    l->recent_time += took;
    l->recent_updates++;
    measure_peak(l);
    if (due(l->step, LOG_EVERY))
        status = qkv__log_step(l);
    bool planned = qkv__leads(l) && qkv__plan_update(l);
    qkv__tell(l, QKV_TRAIN_STEP, NULL, false);
    bool save = l->o.save_every ? due(l->step, l->o.save_every)
                                : qkv_now() - l->last_save > SAVE_SECONDS;
    if (!status)
        status = qkv__follow_step(l, &planned, &save);
    uint64_t steps = qkv__plan_steps(l);
    bool last = steps && l->step >= steps;
    if (status)
        return status;
    if (last || due(l->step, qkv__eval_every(l)))
        return evaluate_and_save(l, last);
    return (save || planned) && !l->stop ? qkv__state_save(l) : QKV_OK;
}

static bool out_of_patience(const qkv__loop *l)
{
    return l->o.patience && l->bad_evals >= l->o.patience;
}

static qkv_status train_train_run(qkv__loop *l, qkv_train_result *r)
{
    qkv_status status = QKV_OK;
    qkv__tell_optimizer(l);
    uint64_t steps = qkv__plan_steps(l);
    if (l->step == 0)
        status = qkv__evaluate_untrained(l);
    else if (l->owed)
        status = evaluate_and_save(l, steps && l->step >= steps);
    l->mark = qkv_now();
    r->early = out_of_patience(l);
    while (!status && !l->stop && !r->early && !(steps && l->step >= steps)) {
        status = one_step(l);
        steps = qkv__plan_steps(l);
        r->early = out_of_patience(l);
    }
    bool done = !l->owed && (r->early || (steps && l->step >= steps));
    if (status && !(status == QKV_E_CANCELLED && l->stop))
        return status;
    l->finished = done;
    r->stopped = !done;
    status = qkv__state_save(l);
    if (!status && done)
        status = qkv__evaluate_saved(l, &r->metrics);
    if (!status && done)
        status = qkv__log_final(l, &r->metrics);
    if (status == QKV_E_CANCELLED && l->stop) { /* the log shows that it is still to do */
        r->metrics = (qkv_metrics){0};
        r->stopped = true;
        status = QKV_OK;
    }
    if (!status)
        qkv__report_write(l, true);
    return status;
}

/* ---- setting up --------------------------------------------------------------------------- */

static qkv_status train_check(qkv__loop *l)
{
    const qkv_task_type *type = l->task->type;
    if (!type->name || !type->loss || type->phases < 1 || (l->task->held_out && !type->evaluate))
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "task %s: a name, a loss, one phase at least and, "
                        "with data held out, evaluate are required", type->name ? type->name : "?");
    if (!l->o.steps && l->o.minutes <= 0)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "training needs a number of steps or of minutes");
    if (!l->o.batch || !l->o.accumulation_steps || l->o.accumulation_steps > l->o.batch)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "a batch of %zu cannot be done in %zu parts",
                        l->o.batch, l->o.accumulation_steps);
    return QKV_OK;
}

/* How many shards there are: as asked; else, resumed, as before if the ranks allow it; else one a
 * rank. */
static qkv_status check_shards(qkv__loop *l, bool resume)
{
    size_t ranks = (size_t)qkv_dist_size(l->ctx), saved = 0;
    qkv_status status = QKV_OK;
    if (!l->o.shards && resume && l->dir && qkv__state_exists(l))
        status = qkv__state_shards(l, &saved);
    if (!status)
        status = qkv__dist_broadcast(l->ctx, &saved, sizeof saved);
    if (status)
        return status;
    if (!l->o.shards)
        l->o.shards = saved && saved % ranks == 0 ? saved : ranks;
    if (l->o.shards % ranks)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "--shards: a multiple of the %zu ranks expected, "
                        "found %zu", ranks, l->o.shards);
    if (l->o.shards > l->o.batch)
        return qkv_fail(l->ctx, QKV_E_ARGUMENT, "--batch: a sample for each of the %zu shards at "
                        "least expected, found %zu", l->o.shards, l->o.batch);
    return QKV_OK;
}

static qkv_status make_optimizer(qkv__loop *l)
{
    qkv_average_options average = {.decay = l->o.ema, .ramp = true};
    qkv_status status = QKV_OK;
    if (l->o.shards > 1)
        status = qkv__ranks_create(&l->ranks, l->params, l->o.shards, l->o.accumulation_steps,
                                   l->optimizer_options.kind);
    const qkv__own *own = qkv__ranks_own(l->ranks);
    if (!status)
        status = qkv__optimizer_create_of(&l->optimizer, l->params, &l->optimizer_options,
                                          qkv_optimizer_decay_matrices(), 1, own);
    if (!status && l->o.ema > 0)
        status = qkv__average_create_of(&l->average, l->params, &average, own);
    return status;
}

/* A checkpoint, or, where there is none, the parameters of rank 0. */
static qkv_status begin_state(qkv__loop *l, bool resume)
{
    bool exists = resume && l->dir && qkv__state_exists(l);
    qkv_status status = qkv__follow_flag(l, &exists);
    if (!status && exists)
        return qkv__state_load(l);
    return status || !l->ranks ? status : qkv__ranks_broadcast(l->ranks);
}

static qkv_status make_dir(qkv__loop *l)
{
    if (!l->dir)
        return QKV_OK;
    char *path = qkv_path_join(l->ctx, l->dir, "train");
    qkv_status status = path ? qkv_dir_create(l->ctx, path) : QKV_E_MEMORY;
    qkv_free(l->ctx, path);
    return status;
}

static bool has_running_values(const qkv_params *params)
{
    size_t i = 0;
    while (i < qkv_params_count(params) && !qkv__param_running(qkv_params_at(params, i)))
        i++;
    return i < qkv_params_count(params);
}

static qkv_status train_set_up(qkv__loop *l, bool resume)
{
    qkv_status status = train_check(l);
    if (!status)
        status = check_shards(l, resume);
    if (!status)
        status = make_optimizer(l);
    if (!status)
        status = qkv_context_set_products(l->ctx, l->o.dtype);
    if (!status)
        status = make_dir(l);
    status = qkv__dist_agree(l->ctx, status);
    if (!status)
        status = begin_state(l, resume);
    if (!status && !l->finished)
        status = qkv__follow_products(l);
    if (!status && !l->finished)
        status = qkv_tape_create(&l->tape, l->ctx); /* which may choose the kind of products */
    if (l->tape)
        qkv_tape_recompute(l->tape, l->o.recompute);
    if (l->tape && l->ranks)
        qkv__ranks_listen(l->ranks, l->tape);
    l->whole = l->ranks || l->task->type->phases > 1 || has_running_values(l->params);
    if (!status && !l->finished)
        status = qkv__groups_make(l);
    if (!status && !l->finished && l->dir)
        status = qkv__samples_trim(l);
    return status || l->finished ? status : qkv__log_begin(l);
}

qkv_status qkv_train(qkv_task *task, const qkv_train_options *options,
                     const qkv_optimizer_options *optimizer, const qkv_schedule *schedule,
                     const char *dir, bool resume, qkv_train_fn *event, void *user,
                     qkv_train_result *result)
{
    qkv_train_result unasked;
    result = result ? result : &unasked;
    *result = (qkv_train_result){0};
    qkv__loop l = {.task = task, .ctx = qkv_model_context(task->model),
                   .params = qkv_model_params(task->model), .o = *options,
                   .schedule = schedule ? *schedule : qkv_schedule_defaults(QKV_SCHEDULE_COSINE),
                   .optimizer_options = optimizer ? *optimizer
                                                  : qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW),
                   .keeps = dir != NULL, .eval_units = options->eval_units,
                   .last_save = qkv_now()};
    if (qkv__leads(&l)) {
        l.dir = dir;
        l.event = event;
        l.user = user;
    } else {
        l.o.sample = NULL;
    }
    qkv_str_init(&l.log.lines, l.ctx);
    qkv_str_init(&l.log.events, l.ctx);
    double called = qkv_now();
    bool held = qkv__hold(l.ctx, true); /* but for passes and evaluations */
    qkv_status status = train_set_up(&l, resume);
    l.began = called - options->spent - l.seconds;
    if (!status && l.finished)
        result->was_finished = true;
    else if (!status)
        status = train_train_run(&l, result);
    result->step = l.step;
    result->seconds = result->was_finished ? l.seconds : qkv__seconds(&l);
    result->best_step = l.best_step;
    result->train_loss = l.smooth_loss;
    result->unit = task->type->unit;
    qkv__log_free(&l);
    qkv__groups_free(&l);
    qkv_capture_abandon(l.capture);
    qkv_tape_destroy(l.tape);
    qkv_average_destroy(l.average);
    qkv_optimizer_destroy(l.optimizer);
    qkv__ranks_destroy(l.ranks);
    (void)qkv__hold(l.ctx, held);
    return status;
}
