/* train.c - `qkv bench train`: a training step against the machine's best products. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 2, LENGTH = 256 /* at most, as a part of `qkv bench` */ };

typedef struct {
    bench_step step; /* first: bench_step_table fills it */
    size_t steps;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "steps", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(steps), .initial = "10",
     .help = "steps timed, after two that are not"},
};
static const qkv_option_table table = {"Timing", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    bench_training training;
    bench_timing timing;
} job;

static qkv_status train_prepare(void *user)
{
    job *j = user;
    qkv_context *ctx = j->c->ctx;
    qkv_status status = bench_training_create(&j->training, ctx, &j->s.step);
    if (!status)
        status = bench_training_fill(&j->training, j->c->common.seed);
    return status;
}

static qkv_status train_step(void *user)
{
    job *j = user;
    return bench_training_step(&j->training);
}

static void train_report(const job *j, bench_report *r)
{
    const bench_training *b = &j->training;
    double seconds = j->timing.seconds;
    double rate = b->network->flops(b) / seconds, tokens = (double)b->network->tokens(b);
    const bench_figure figures[] = {
        {"step_s", "step", "s", BENCH_REAL, seconds, 0},
        {"tokens_per_s", b->network->unit, "/s", BENCH_REAL, tokens / seconds, 0},
    };
    *r = (bench_report){.count = 0};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    bench_add_rate(r, rate, &j->timing);
    bench_training_title(b, r->title, sizeof r->title);
    r->products = qkv_machine_products(j->c->ctx);
}

static qkv_status train_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = qkv_context_set_products(c->ctx, j.s.step.dtype);
    if (!status)
        status = bench_time(c, &j.timing, WARM_UPS, j.s.steps, train_prepare, train_step, &j);
    if (!status)
        train_report(&j, out);
    bench_training_free(&j.training);
    return status;
}

static void train_adapt(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->step.model = request->model;
    s->step.length = request->length < LENGTH ? request->length : LENGTH;
    s->steps = request->repeats;
}

static void adapt_f32(void *asked, const bench_request *request)
{
    settings *s = asked;
    train_adapt(asked, request);
    s->step.dtype = QKV_PRODUCTS_F32;
}

static void adapt_bf16(void *asked, const bench_request *request)
{
    settings *s = asked;
    train_adapt(asked, request);
    s->step.dtype = QKV_PRODUCTS_BF16;
}

/* A small request is one of somebody in a hurry. */
static void adapt_codes(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->step.model = request->length < LENGTH ? "vqgan-nano" : "vqgan-mini";
    s->steps = request->repeats;
}

const bench_measure bench_train = {
    .name = "train", .command = &cli_bench_train, .size = sizeof(settings), .adapt = train_adapt,
    .measure = train_work};
const bench_measure bench_train_f32 = {
    .name = "train_f32", .command = &cli_bench_train, .size = sizeof(settings), .adapt = adapt_f32,
    .measure = train_work};
const bench_measure bench_train_bf16 = {
    .name = "train_bf16", .command = &cli_bench_train, .size = sizeof(settings),
    .adapt = adapt_bf16, .measure = train_work, .bf16 = true};
const bench_measure bench_train_codes = {
    .name = "train_codes", .command = &cli_bench_train, .size = sizeof(settings),
    .adapt = adapt_codes, .measure = train_work};

static const char *const examples[] = {
    "qkv bench train --model gpt2 --batch 4 --length 256 --dtype f32 --json",
    "qkv bench train --model gpt2 --lora r=8,targets=c_attn",
    "qkv bench train --model transformer-base",
    "qkv bench train --model vqgan-f16 --steps 3", NULL};

CLI_COMMAND(cli_bench_train, 710) = {
    .manual = {.name = "bench train", .summary = "time a training step",
               .usage = "[--model PRESET] [options]", .examples = examples,
               .text = "Median of the timed steps of a model with random parameters on random "
                       "data: forward, backward, clipping and AdamW. A GPT has 50257 tokens; "
                       "bert-base guesses 15 % of its words, and its output layer sees (and "
                       "counts) those alone; transformer-base is 6 + 6 blocks of width 512 with "
                       "32001 tokens, on pairs of sentences of --length tokens each; vit-base is "
                       "ViT-B/16 with 1000 classes, cct-7 CCT-7/3x2 with 10; mae-base masks 75 % "
                       "of an image's patches. Of a VQGAN it is the generator's "
                       "phase of a step: encoder, codes, decoder, a perceptual network (from 128 "
                       "pixels on LPIPS's VGG16, below it one of qkv's own) and the discriminator "
                       "that the gradient goes through. The limit is the best of ten products of "
                       "2048 x 2048 matrices, five before and five after; on a card five of 8192 x "
                       "8192 after."},
    .own = {&bench_step_table, &table}, .measure = &bench_train, .run = bench_run};
