/* forward.c - `qkv bench forward`: the forward pass of an encoder or an image classifier, as an
 * application computes it, against the limit of products. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 2 };

typedef struct {
    const char *model;
    size_t batch, length, repeats;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "NAME",
     .initial = "vit-base", .help = "vit-base, cct-7, bert-base"},
    {.flag = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(batch), .initial = "1",
     .help = "images or texts in a pass"},
    {.flag = "length", .type = QKV_OPT_SIZE, .max = 1048576, FIELD(length), .initial = "0",
     .help = "tokens of a text, or the images' side in pixels; 0: of bert-base 128, of vit-base "
             "224, of cct-7 32"},
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 10000, FIELD(repeats),
     .initial = "10", .help = "passes timed, after two that are not"},
};
static const qkv_option_table table = {"Forward pass", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    bench_training data; /* a model and what it reads; nothing of it is trained */
    bench_timing timing;
} job;

static qkv_status forward_prepare(void *user)
{
    job *j = user;
    qkv_context *ctx = j->c->ctx;
    const bench_step step = {.model = j->s.model, .batch = j->s.batch, .length = j->s.length};
    qkv_status status = bench_training_make(&j->data, ctx, &step);
    if (!status && !j->data.network->forward)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--model %.40s: expected vit-base, cct-7 or "
                          "bert-base", j->s.model);
    if (!status)
        status = qkv_tape_create(&j->data.tape, ctx);
    if (!status)
        qkv_params_pack(qkv_model_params(j->data.model), true);
    if (!status)
        status = bench_training_fill(&j->data, j->c->common.seed);
    return status;
}

static qkv_status forward_pass(void *user)
{
    const job *j = user;
    qkv_tape_reset(j->data.tape);
    qkv_tape_mode(j->data.tape, false, false);
    (void)j->data.network->forward(&j->data);
    return qkv_tape_status(j->data.tape);
}

static void forward_report(const job *j, bench_report *r)
{
    const bench_training *b = &j->data;
    const qkv_workload w = {.pass = QKV_PASS_FORWARD, .samples = (double)b->batch,
                            .length = (double)b->length, .height = b->length,
                            .width = b->length};
    double seconds = j->timing.seconds;
    double rate = qkv_model_flops(b->model, &w) / seconds;
    const bench_figure figures[] = {
        {"pass_s", "pass", "s", BENCH_REAL, seconds, 0},
        {"samples_per_s", "samples", "/s", BENCH_REAL, (double)b->batch / seconds, 0},
    };
    *r = (bench_report){.count = 0};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    bench_add_rate(r, rate, &j->timing);
    (void)snprintf(r->title, sizeof r->title, "forward pass of %.24s, batch %zu x %zu%s, f32",
                   b->name, b->batch, b->length, b->network->what);
}

static qkv_status forward_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = bench_time(c, &j.timing, WARM_UPS, j.s.repeats, forward_prepare,
                                   forward_pass, &j);
    if (!status)
        forward_report(&j, out);
    bench_training_free(&j.data);
    return status;
}

static const bench_measure bench_forward = {
    .name = "forward", .command = &cli_bench_forward, .size = sizeof(settings), .adapt = NULL,
    .measure = forward_work};

static const char *const examples[] = {"qkv bench forward --batch 32 --json",
                                       "qkv bench forward --model bert-base", NULL};

CLI_COMMAND(cli_bench_forward, 745) = {
    .manual = {.name = "bench forward", .summary = "time the forward pass of an encoder",
               .usage = "[--model NAME] [--batch N] [options]", .examples = examples,
               .text = "Median time of a forward pass with random parameters on random data: an "
                       "image classifier's logits (vit-base: ViT-B/16 with 1000 classes; cct-7: "
                       "CCT-7/3x2 with 10), or what BERT-base makes of each token, without the "
                       "layer that guesses words. The limit is the best of ten products of 2048 x "
                       "2048 matrices, five before and five after. Weights are packed (`--pack` of "
                       "commands that open a model)."},
    .own = {&table}, .measure = &bench_forward, .run = bench_run};
