/* prompt.c - `qkv bench prompt`: reading a prompt, against the limit of products. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 1 };

typedef struct {
    bench_pass pass; /* first: bench_pass_table fills it */
    size_t repeats;
    int weights; /* a row of bench_weights */
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "weights", .type = QKV_OPT_ENUM, .names = bench_weights, FIELD(weights),
     .initial = "f32", .help = "how matrices are kept in memory"},
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(repeats),
     .initial = "3", .help = "passes timed, after one that is not"},
};
static const qkv_option_table table = {"Reading a prompt", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tape *tape;
    qkv_lm_cache *cache;
    int32_t *ids;    /* (length) */
    bench_timing timing;
} job;

/* What generating does before the first token: all of the prompt, and the last token's logits. */
static qkv_status prompt_read(void *user)
{
    const job *j = user;
    const size_t shape[] = {1, j->s.pass.length};
    qkv_tape *t = j->tape;
    qkv_lm_cache_truncate(j->cache, 0);
    qkv_tape_reset(t);
    qkv_tape_mode(t, false, false);
    qkv_tensor *ids = qkv_tensor_ids(t, j->ids, 2, shape);
    qkv_tensor *x = qkv_lm_hidden(j->model, t, ids, 0, NULL, j->cache);
    (void)qkv_lm_logits(j->model, t, qkv_slice(t, x, 1, j->s.pass.length - 1, j->s.pass.length));
    return qkv_tape_status(t);
}

static qkv_status prompt_prepare(void *user)
{
    job *j = user;
    qkv_context *ctx = j->c->ctx;
    j->ids = qkv_calloc(ctx, j->s.pass.length, sizeof *j->ids);
    qkv_status status = j->ids ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = bench_model(ctx, &j->model, 0, j->s.pass.model, 0, j->s.pass.length, 0);
    if (!status)
        status = qkv_model_init(j->model, j->c->common.seed);
    if (!status)
        status = qkv_params_store(qkv_model_params(j->model), bench_weights_of(j->s.weights));
    if (!status)
        status = qkv_tape_create(&j->tape, ctx);
    if (!status)
        status = qkv_lm_cache_create(&j->cache, j->model, 1, j->s.pass.length);
    if (!status)
        bench_random_ids(j->ids, j->s.pass.length, qkv_lm_vocab(j->model), j->c->common.seed);
    return status;
}

/* 2 a token and number of a layer's matrices; of attention 2 x 2 a channel and key, half of which
 * are seen; the last token's logits. */
static double prompt_flops(const job *j)
{
    const qkv_gpt_config *c = qkv_model_config(j->model);
    double n = (double)j->s.pass.length, d = (double)c->width, layers = (double)c->layers;
    return 2 * n * layers * (4 * d * d + 2 * d * (double)c->ff_width) +
           4 * layers * d * n * (n + 1) / 2 + 2 * d * (double)c->vocab;
}

static void prompt_report(const job *j, bench_report *r)
{
    double seconds = j->timing.seconds, peak = j->timing.peak, flops = prompt_flops(j);
    double tokens = (double)j->s.pass.length;
    const bench_figure figures[] = {
        {"tokens_per_s", "tokens", "tokens/s", BENCH_REAL, tokens / seconds, 0},
        {"seconds", "until the first token", "s", BENCH_REAL, seconds, 0},
        {"gflops", "arithmetic", "GFLOP/s", BENCH_REAL, flops / seconds / 1e9, 0},
        {"peak_gflops", "limit: best product", "GFLOP/s", BENCH_REAL, peak / 1e9, 0},
        {"of_peak", "of the limit", "", BENCH_PERCENT, flops / seconds / peak, 0},
    };
    *r = (bench_report){.reached = tokens / seconds, .unit = "tokens/s",
                        .limit = tokens / (flops / peak),
                        .products = qkv_weights_products(j->c->ctx,
                                                         bench_weights_of(j->s.weights))};
    const bench_figure memory = bench_memory_figure(j->timing.card, j->timing.memory);
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    bench_add_all(r, &memory, 1);
    (void)snprintf(r->title, sizeof r->title, "reading a prompt of %zu with %s, %s",
                   j->s.pass.length, j->s.pass.model, bench_weights[j->s.weights]);
}

static qkv_status prompt_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    j.timing.weights = bench_weights_of(j.s.weights);
    qkv_status status = bench_time(c, &j.timing, WARM_UPS, j.s.repeats, prompt_prepare,
                                   prompt_read, &j);
    if (!status)
        prompt_report(&j, out);
    qkv_lm_cache_destroy(j.cache);
    qkv_tape_destroy(j.tape);
    qkv_model_destroy(j.model);
    qkv_free(c->ctx, j.ids);
    return status;
}

const bench_measure bench_prompt = {
    .name = "prompt", .command = &cli_bench_prompt, .size = sizeof(settings), .adapt = NULL,
    .measure = prompt_work};

static const char *const examples[] = {"qkv bench prompt --length 1024 --weights int8 --json",
                                       NULL};

CLI_COMMAND(cli_bench_prompt, 735) = {
    .manual = {.name = "bench prompt", .summary = "time reading a prompt",
               .usage = "[--length N] [options]", .examples = examples,
               .text = "Median time until the first token of a GPT in the gpt2 layout with 50257 "
                       "tokens and random parameters. The limit is the best of ten products of "
                       "2048 x 2048 matrices, one of them kept as the weights are; on a card "
                       "both in f32."},
    .own = {&bench_pass_table, &table}, .measure = &bench_prompt, .run = bench_run};
