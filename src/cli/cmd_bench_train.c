/* cmd_bench_train.c - `qkv bench train`: a training step against the machine's best products. */
#include <stdio.h>

#include "cli/bench.h"
#include "cli/commands.h"

enum { WARM_UPS = 2 };

typedef struct {
    bench_step step;
    size_t steps;
    int dtype;
} settings;

static const char *const dtypes[] = {"f32", NULL};

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(step.model), .value = "PRESET",
     .initial = "gpt2", .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "layout", .type = QKV_OPT_ENUM, FIELD(step.layout), .names = bench_layouts,
     .initial = "gpt2", .help = "of the model"},
    {.flag = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(step.batch),
     .initial = "4", .help = "sequences in a step"},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 1048576, FIELD(step.length),
     .initial = "256", .help = "tokens in a sequence"},
    {.flag = "dtype", .type = QKV_OPT_ENUM, FIELD(dtype), .names = dtypes, .initial = "f32",
     .help = "type of the numbers"},
    {.flag = "steps", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(steps), .initial = "10",
     .help = "steps timed, after two that are not"},
};
static const qkv_option_table table = {"Training step", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    bench_training training;
    double *seconds; /* (steps) */
    double peak;     /* flop/s */
    size_t rss;      /* bytes */
} job;

static qkv_status prepare(job *j)
{
    qkv_context *ctx = j->c->ctx;
    bench_training *b = &j->training;
    qkv_status status = bench_training_create(b, ctx, &j->s.step);
    if (!status)
        status = qkv_model_init(b->model, j->c->common.seed);
    if (status)
        return status;
    bench_random_ids(b->ids, b->batch * b->length + 1, qkv_lm_vocab(b->model),
                     j->c->common.seed);
    j->seconds = qkv__calloc(ctx, j->s.steps, sizeof *j->seconds);
    return j->seconds ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status measure(job *j)
{
    qkv_status status = bench_peak(j->c, &j->peak);
    if (!status)
        status = prepare(j);
    for (size_t i = 0; i < WARM_UPS + j->s.steps && !status; i++) {
        double start = qkv__now();
        status = bench_training_step(&j->training);
        if (i >= WARM_UPS)
            j->seconds[i - WARM_UPS] = qkv__now() - start;
    }
    j->rss = qkv__peak_rss(); /* the second measure of the limit is no part of training */
    return status ? status : bench_peak(j->c, &j->peak);
}

static void report(job *j, bench_report *r)
{
    const bench_training *b = &j->training;
    size_t tokens = b->batch * b->length;
    double seconds = bench_median(j->seconds, j->s.steps);
    double rate = (double)qkv_lm_flops(b->model, tokens, b->length) / seconds;
    const bench_figure figures[] = {
        {"step_s", "step", "s", BENCH_REAL, seconds, 0},
        {"tokens_per_s", "tokens", "/s", BENCH_REAL, (double)tokens / seconds, 0},
        {"gflops", "reached", "GFLOP/s", BENCH_REAL, rate / 1e9, 0},
        {"peak_gflops", "limit: best product", "GFLOP/s", BENCH_REAL, j->peak / 1e9, 0},
        {"of_peak", "of the limit", "", BENCH_PERCENT, rate / j->peak, 0},
        {"peak_rss_bytes", "memory, most", "MB", BENCH_COUNT, (double)j->rss, 1e6},
    };
    *r = (bench_report){.reached = rate / 1e9, .limit = j->peak / 1e9, .unit = "GFLOP/s"};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    (void)snprintf(r->title, sizeof r->title, "training step of %s (%s), batch %zu x %zu, f32",
                   j->s.step.model, bench_layouts[j->s.step.layout], b->batch, b->length);
}

static qkv_status work(cli *c, const settings *s, bench_report *out)
{
    job j = {.c = c, .s = *s};
    qkv_status status = measure(&j);
    if (!status)
        report(&j, out);
    qkv__free(c->ctx, j.seconds);
    bench_training_free(&j.training);
    return status;
}

qkv_status bench_train(cli *c, const bench_request *request, bench_report *out)
{
    settings s;
    qkv_option_defaults(&table, &s);
    s.step.model = request->model ? request->model : s.step.model;
    if (request->length && request->length < s.step.length)
        s.step.length = request->length;
    s.steps = request->repeats ? request->repeats : s.steps;
    return work(c, &s, out);
}

static int run(cli *c, int argc, char **argv)
{
    settings s;
    bench_report found;
    cli_bind(c, &table, &s);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return work(c, &s, &found) ? cli_error(c) : bench_answer(c, &found);
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv bench train --model gpt2 --batch 4 --length 256 --dtype f32 --json", NULL};

const cli_command cli_bench_train = {
    .manual = {.name = "bench train", .summary = "time a training step",
               .usage = "[--model PRESET] [options]", .examples = examples, .tables = tables,
               .text = "Median of the timed steps of a GPT with 50257 tokens, random "
                       "parameters and random text: forward, backward, clipping and AdamW. "
                       "The limit is the best of ten products of 2048 x 2048 matrices, five "
                       "before and five after."},
    .run = run};
