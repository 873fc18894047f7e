/* scale.c - `qkv scale`: what training takes on so many ranks, predicted from a step of this
 * machine, or of one that is described. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

typedef struct {
    bench_step step; /* first: bench_step_table fills it */
    qkv_sizes ranks;
    size_t ranks_per_machine, update_batch, updates, repeats;
    const char *bandwidth, *latency;
    double step_seconds, gflops, tokens, price;
} scale_settings;

#define FIELD(member) .offset = offsetof(scale_settings, member)
static const qkv_option rows[] = {
    {.flag = "ranks", .type = QKV_OPT_SIZES, .min = 1, .max = 1048576, FIELD(ranks),
     .initial = "1,8,64,1024", .help = "numbers of ranks to predict for"},
    {.flag = "ranks-per-machine", .type = QKV_OPT_SIZE, .min = 1, .max = 1024,
     FIELD(ranks_per_machine), .initial = "1",
     .help = "ranks that share a machine and its bandwidth; as a rank's step is measured, they "
             "must not share its cores"},
    {.flag = "bandwidth", .type = QKV_OPT_STRING, FIELD(bandwidth), .value = "RATE",
     .initial = "10Gbit", .help = "of a machine, each way: 10Gbit, 800Mbit, or bytes: 1.25GB"},
    {.flag = "latency", .type = QKV_OPT_STRING, FIELD(latency), .value = "TIME",
     .initial = "20us", .help = "of a message: 20us, 0.1ms"},
    {.flag = "update-batch", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(update_batch),
     .initial = "0", .help = "sequences or images of an update, over all ranks; a rank takes its "
     "share in passes of --batch; 0: one pass of every rank"},
    {.flag = "step-seconds", .type = QKV_OPT_REAL, .max = 1e9, FIELD(step_seconds),
     .initial = "0", .help = "of forward and backward pass; 0: measured here"},
    {.flag = "gflops", .type = QKV_OPT_REAL, .max = 1e9, FIELD(gflops), .initial = "0",
     .help = "rate of a rank's passes in GFLOP/s, from which their seconds are computed; 0: "
             "measured here"},
    {.flag = "updates", .type = QKV_OPT_SIZE, .min = 1, .max = 1e12, FIELD(updates),
     .initial = "1000", .help = "updates whose hours and cost are shown"},
    {.flag = "tokens", .type = QKV_OPT_REAL, .max = 1e18, FIELD(tokens), .initial = "0",
     .help = "tokens to train on, in place of --updates"},
    {.flag = "price", .type = QKV_OPT_REAL, .max = 1e9, FIELD(price), .initial = "0",
     .help = "of a machine for an hour; 0: no cost is shown"},
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(repeats),
     .initial = "5", .help = "steps measured, after one that does not count"},
};
static const qkv_option_table table = {"Ranks and machines", rows, sizeof rows / sizeof *rows, 0};

/* One row of the answer. */
typedef struct {
    qkv_scale_cluster on;
    qkv_scale_prediction p;
    size_t memory;
    double hours, cost;
} scale_row;

typedef struct {
    cli *c;
    scale_settings s;
    double bandwidth, latency; /* bytes/s, s */
    char title[120];
    double samples, tokens, flops; /* of a step */
    qkv_scale_step step;
    size_t parameters;
    scale_row rows[QKV_SIZES];
} scale_job;

/* ---- quantities ----------------------------------------------------------------------------- */

typedef struct {
    const char *unit;
    double factor;
} quantity;
static const quantity rates[] = {{"Gbit", 1e9 / 8}, {"Mbit", 1e6 / 8}, {"kbit", 1e3 / 8},
                                 {"GB", 1e9},       {"MB", 1e6},       {NULL, 0}};
static const quantity times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {NULL, 0}};

/* "10Gbit" by a table of units. */
static bool scale_quantity(const char *text, const quantity *units, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || !isdigit((unsigned char)*text) || !(value >= 0 && value < 1e15))
        return false;
    while (units->unit && strcmp(units->unit, end) != 0)
        units++;
    *out = value * units->factor;
    return units->unit != NULL;
}

static int scale_check(scale_job *j)
{
    const scale_settings *s = &j->s;
    if (!scale_quantity(s->bandwidth, rates, &j->bandwidth) || !(j->bandwidth > 0))
        return cli_usage(j->c, "--bandwidth: a rate such as 10Gbit, 800Mbit or 1.25GB expected, "
                         "found %.40s", s->bandwidth);
    if (!scale_quantity(s->latency, times, &j->latency))
        return cli_usage(j->c, "--latency: a time such as 20us or 0.1ms expected, found %.40s",
                         s->latency);
    if (s->step_seconds > 0 && s->gflops > 0)
        return cli_usage(j->c, "--step-seconds and --gflops: one of them expected");
    return CLI_DONE;
}

/* ---- the step ------------------------------------------------------------------------------- */

/* What the step is of, from one that is laid out in a meta context. */
static qkv_status scale_describe(scale_job *j)
{
    qkv_context_options options = qkv_context_defaults();
    qkv_context *meta = NULL;
    bench_training b = {.ctx = NULL};
    options.meta = true;
    if (qkv_context_create(&meta, &options))
        return QKV_E_MEMORY;
    qkv_status status = bench_training_make(&b, meta, &j->s.step);
    if (!status) {
        bench_training_title(&b, j->title, sizeof j->title);
        j->samples = (double)b.batch;
        j->tokens = (double)b.network->tokens(&b);
        j->flops = b.network->flops(&b);
        j->parameters = qkv_params_elements(qkv_model_params(b.model));
    } else {
        cli_fail("%s", qkv_context_message(meta));
    }
    bench_training_free(&b);
    qkv_context_destroy(meta);
    return status;
}

static qkv_status scale_step(scale_job *j)
{
    const scale_settings *s = &j->s;
    const qkv_optimizer_options optimizer = qkv_optimizer_defaults(s->step.optimizer);
    double again = s->step.recompute ? 4.0 / 3 : 1; /* the forward pass, a third of both */
    double seconds = s->gflops > 0 ? again * j->flops / (1e9 * s->gflops) : s->step_seconds;
    bench_rehearsal r = {.step = &s->step, .fill = !(seconds > 0), .seed = j->c->common.seed};
    const qkv_predicted_step what = bench_rehearse(&r);
    if (seconds > 0)
        return qkv_scale_assume(j->c->ctx, &what, j->samples, seconds, &j->step);
    return qkv_scale_measure(j->c->ctx, &what, j->samples, &optimizer, s->repeats, &j->step);
}

static qkv_status scale_memory(const scale_job *j, scale_row *row, size_t ranks)
{
    const qkv_optimizer_options optimizer = qkv_optimizer_defaults(j->s.step.optimizer);
    bench_step step = j->s.step;
    bench_rehearsal r = {.step = &step};
    qkv_predicted_step what = bench_rehearse(&r);
    qkv_memory_prediction m;
    size_t mine = j->s.update_batch / ranks;
    what.ranks = ranks;
    what.keeps = (double)mine > j->samples; /* several passes */
    if (mine && (double)mine < j->samples) /* its only pass */
        step.batch = mine;
    qkv_status status = qkv_predict_memory(j->c->ctx, &what, &optimizer, &m);
    row->memory = m.total;
    return status;
}

static qkv_status scale_fill(const scale_job *j, scale_row *row, size_t ranks)
{
    const scale_settings *s = &j->s;
    row->on = (qkv_scale_cluster){.ranks = ranks, .ranks_per_machine = s->ranks_per_machine,
                                  .bandwidth = j->bandwidth, .latency = j->latency,
                                  .batch = (double)s->update_batch};
    if (ranks < row->on.ranks_per_machine) /* one machine, not full */
        row->on.ranks_per_machine = ranks;
    qkv_status status = qkv_scale_predict(j->c->ctx, &j->step, &row->on, &row->p);
    if (status)
        return status;
    double tokens = row->p.samples_per_s * row->p.step * j->tokens / j->samples;
    double updates = s->tokens > 0 ? s->tokens / tokens : (double)s->updates;
    row->hours = updates * row->p.step / 3600;
    row->cost = qkv_scale_cost(&row->on, &row->p, updates, s->price);
    return QKV_OK;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static int scale_answer_json(const scale_job *j)
{
    qkv_json_writer w = cli_object(j->c);
    qkv_json_put_string(&w, "model", j->s.step.model);
    qkv_json_put_int(&w, "parameters", (int64_t)j->parameters);
    qkv_json_put_real(&w, "samples", j->step.samples);
    qkv_json_put_real(&w, "forward_s", j->step.forward);
    qkv_json_put_real(&w, "backward_s", j->step.backward);
    qkv_json_put_real(&w, "update_s", j->step.update);
    qkv_json_put_real(&w, "sum_s", j->step.sum);
    qkv_json_put_bool(&w, "measured", !(j->s.step_seconds > 0 || j->s.gflops > 0));
    qkv_json_begin_array(&w, "predictions");
    for (size_t i = 0; i < j->s.ranks.count; i++) {
        const scale_row *r = &j->rows[i];
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_int(&w, "ranks", (int64_t)r->on.ranks);
        qkv_json_put_real(&w, "step_s", r->p.step);
        qkv_json_put_real(&w, "compute_s", r->p.compute);
        qkv_json_put_real(&w, "waiting_s", r->p.waiting);
        qkv_json_put_real(&w, "update_s", r->p.update);
        qkv_json_put_real(&w, "tokens_per_s", r->p.samples_per_s * j->tokens / j->samples);
        qkv_json_put_real(&w, "efficiency", r->p.efficiency);
        qkv_json_put_int(&w, "memory_bytes", (int64_t)r->memory);
        qkv_json_put_real(&w, "sent_bytes", r->p.bytes);
        qkv_json_put_real(&w, "messages", r->p.messages);
        qkv_json_put_real(&w, "hours", r->hours);
        qkv_json_put_real(&w, "cost", r->cost);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    qkv_json_put_string(&w, "cpu", qkv_machine_cpu());
    qkv_json_put_int(&w, "threads", qkv_context_threads(j->c->ctx));
    return cli_answer(j->c, &w);
}

static int scale_answer(const scale_job *j)
{
    char unit[CLI_NUMBER];
    if (j->c->common.json)
        return scale_answer_json(j);
    bool measured = !(j->s.step_seconds > 0 || j->s.gflops > 0);
    printf("%s\n%s, %d threads\n", j->title, qkv_machine_cpu(), qkv_context_threads(j->c->ctx));
    printf("%s parameters; one rank: forward %.3g s, backward %.3g s, update %.3g s%s\n\n",
           cli_short_number((double)j->parameters, unit), j->step.forward, j->step.backward,
           j->step.update, measured ? "" : ", not measured");
    printf("%7s %10s %10s %10s %8s %9s %9s", "ranks", "step s", "tokens/s", "efficiency", "waiting",
           "memory MB", "hours");
    printf(j->s.price > 0 ? " %12s\n" : "\n", "cost");
    for (size_t i = 0; i < j->s.ranks.count; i++) {
        const scale_row *r = &j->rows[i];
        printf("%7zu %10.3f %10s %8.1f %% %6.1f %% %9.0f %9.4g", r->on.ranks, r->p.step,
               cli_short_number(r->p.samples_per_s * j->tokens / j->samples, unit),
               100 * r->p.efficiency, 100 * r->p.waiting / r->p.step, (double)r->memory / 1e6,
               r->hours);
        if (j->s.price > 0)
            printf(" %12.2f", r->cost);
        printf("\n");
    }
    return cli_flush();
}

/* Memory comes first: it is measured in a process that is small yet. */
static qkv_status scale_work(scale_job *j)
{
    qkv_status status = qkv_context_set_products(j->c->ctx, j->s.step.dtype);
    size_t n = j->s.ranks.count;
    for (size_t i = 0; i < n && !status; i++)
        status = scale_memory(j, &j->rows[i], j->s.ranks.item[i]);
    if (!status)
        status = scale_step(j);
    for (size_t i = 0; i < n && !status; i++)
        status = scale_fill(j, &j->rows[i], j->s.ranks.item[i]);
    return status;
}

static int scale_run(cli *c, int argc, char **argv)
{
    scale_job j = {.c = c};
    cli_bind(c, &bench_step_table, &j.s.step);
    cli_bind(c, &table, &j.s);
    int refused = cli_parse(c, argc, argv, 0, 0);
    if (!refused)
        refused = scale_check(&j);
    if (refused)
        return refused;
    if (scale_describe(&j))
        return CLI_FAILED;
    int code = scale_work(&j) ? cli_error(c) : scale_answer(&j);
    qkv_scale_step_free(c->ctx, &j.step);
    return code;
}

static const char *const examples[] = {
    "qkv scale --model gpt2 --ranks 8,64,1024 --bandwidth 10Gbit --price 1.2",
    "qkv scale --length 1024 --update-batch 512 --tokens 1e10 --ranks 64",
    "qkv scale --model 7b --layout llama --batch 1 --ranks 64 --gflops 1500", NULL};

CLI_COMMAND(cli_scale, 635) = {
    .manual = {.name = "scale", .summary = "predict training on many machines",
               .usage = "[--model PRESET] [options]", .examples = examples,
               .text = "Measures a training step as qkv bench train takes it, and predicts from it "
                       "what mpirun -n RANKS qkv train would take: seconds of an update, tokens "
                       "per second, efficiency (tokens per second as a share of RANKS times one "
                       "rank), the share of an update in which a rank waits for messages that no "
                       "backward pass hides, memory of a rank, hours and cost. Every rank is a "
                       "machine like this one unless --ranks-per-machine says otherwise. Larger "
                       "models than fit here, and other machines: --gflops or --step-seconds."},
    .own = {&bench_step_table, &table}, .run = scale_run};
