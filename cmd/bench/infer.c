/* infer.c - `qkv bench infer`: a forward pass of BERT or of an image classifier, against the
 * machine's best products. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 2 };

typedef struct {
    const char *model;
    size_t batch, length, repeats;
    int weights; /* a row of bench_weights */
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "NAME",
     .initial = "vit-base", .help = "vit-base, cct-7 or bert-base"},
    {.flag = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(batch), .initial = "1",
     .help = "images or texts in a pass"},
    {.flag = "length", .type = QKV_OPT_SIZE, .max = 1048576, FIELD(length), .initial = "0",
     .help = "tokens of a text, side of an image in pixels; 0: of vit-base 224, of cct-7 32, of "
             "bert-base 128"},
    {.flag = "weights", .type = QKV_OPT_ENUM, .names = bench_weights, FIELD(weights),
     .initial = "f32", .help = "how matrices are kept in memory"},
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(repeats),
     .initial = "10", .help = "passes timed, after two that are not"},
};
static const qkv_option_table table = {"Inference", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    bench_training network; /* no optimiser */
    double *seconds;        /* (repeats) */
    double peak;            /* flop/s */
    size_t rss;             /* bytes */
} job;

static qkv_status infer_prepare(job *j)
{
    qkv_context *ctx = j->c->ctx;
    bench_training *b = &j->network;
    const bench_step step = {.model = j->s.model, .batch = j->s.batch, .length = j->s.length};
    if (!bench_network_find(j->s.model)->forward)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--model: vit-base, cct-7 or bert-base, not \"%.40s\"",
                        j->s.model);
    qkv_status status = bench_training_make(b, ctx, &step);
    if (!status)
        status = bench_training_fill(b, j->c->common.seed);
    if (!status)
        status = qkv_params_store(qkv_model_params(b->model), bench_weights_of(j->s.weights));
    if (!status)
        status = qkv_tape_create(&b->tape, ctx);
    if (status)
        return status;
    j->seconds = qkv_calloc(ctx, j->s.repeats, sizeof *j->seconds);
    return j->seconds ? QKV_OK : QKV_E_MEMORY;
}

static qkv_status infer_measure(job *j)
{
    bench_training *b = &j->network;
    qkv_status status = bench_peak(j->c, &j->peak);
    if (!status)
        status = infer_prepare(j);
    for (size_t i = 0; i < WARM_UPS + j->s.repeats && !status; i++) {
        double start = qkv_now();
        qkv_tape_reset(b->tape);
        qkv_tape_mode(b->tape, false, false);
        (void)b->network->forward(b);
        status = qkv_tape_status(b->tape);
        if (i >= WARM_UPS)
            j->seconds[i - WARM_UPS] = qkv_now() - start;
    }
    j->rss = qkv_machine_peak_rss();
    return status ? status : bench_peak(j->c, &j->peak);
}

static void infer_report(job *j, bench_report *r)
{
    const bench_training *b = &j->network;
    double seconds = bench_median(j->seconds, j->s.repeats);
    double rate = b->network->flops(b, QKV_PASS_FORWARD) / seconds;
    const bench_figure figures[] = {
        {"pass_s", "pass", "ms", BENCH_REAL, seconds, 1e-3},
        {"inputs_per_s", "images or texts", "/s", BENCH_REAL, (double)b->batch / seconds, 0},
        {"gflops", "reached", "GFLOP/s", BENCH_REAL, rate / 1e9, 0},
        {"peak_gflops", "limit: products in f32", "GFLOP/s", BENCH_REAL, j->peak / 1e9, 0},
        {"of_peak", "of the limit", "", BENCH_PERCENT, rate / j->peak, 0},
        {"peak_rss_bytes", "memory, most", "MB", BENCH_COUNT, (double)j->rss, 1e6},
    };
    *r = (bench_report){.reached = rate / 1e9, .limit = j->peak / 1e9, .unit = "GFLOP/s"};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    (void)snprintf(r->title, sizeof r->title, "a forward pass of %s, batch %zu x %zu%s, %s",
                   b->name, b->batch, b->length, b->network->what, bench_weights[j->s.weights]);
}

static qkv_status infer_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = infer_measure(&j);
    if (!status)
        infer_report(&j, out);
    qkv_free(c->ctx, j.seconds);
    bench_training_free(&j.network);
    return status;
}

const bench_measure bench_infer = {"infer", &cli_bench_infer, sizeof(settings), NULL, infer_work};

static const char *const examples[] = {"qkv bench infer --model vit-base --batch 1",
                                       "qkv bench infer --model bert-base --batch 32 --json", NULL};

CLI_COMMAND(cli_bench_infer, 715) = {
    .manual = {.name = "bench infer", .summary = "time a forward pass of BERT or a classifier",
               .usage = "[--model NAME] [--batch N] [options]", .examples = examples,
               .text = "Median time of a forward pass with random parameters on random input: to "
                       "the logits of an image classifier (vit-base: ViT-B/16 with 1000 classes; "
                       "cct-7: 10 classes), to the last layer's output of bert-base. The limit "
                       "is the best of ten products of 2048 x 2048 matrices in f32, five before "
                       "and five after."},
    .own = {&table}, .measure = &bench_infer, .run = bench_run};
