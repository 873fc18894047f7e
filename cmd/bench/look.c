/* look.c - `qkv bench look`: a forward pass that is captured, against the pass alone. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { PASSES = 4 };

typedef struct {
    bench_pass pass; /* first: bench_pass_table fills it */
    const char *file;
    size_t repeats;
    bool all;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 1000, FIELD(repeats),
     .initial = "5", .help = "of each pass; medians count"},
    {.flag = "file", .type = QKV_OPT_STRING, FIELD(file), .value = "FILE",
     .initial = "bench-look.safetensors", .help = "written, and removed at the end"},
    {.flag = "all", .type = QKV_OPT_BOOL, FIELD(all),
     .help = "all layers and heads, too: length^2 numbers each"},
};
static const qkv_option_table table = {"Capturing", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tape *t;
    int32_t *ids;
    double *seconds[PASSES];
    size_t memory[PASSES]; /* peak bytes of this process after the pass */
} job;

/* One pass; kind: 0 alone, 1 a row, 2 a layer, 3 all. */
static qkv_status look_pass(job *j, int kind, double *seconds)
{
    const qkv_capture_options o = {.file = j->s.file, .attentions = true, .rows = kind == 1,
                                   .row = kind == 1 ? j->s.pass.length / 2 : 0,
                                   .layer = kind == 3 ? -1 : 0, .head = kind == 1 ? 0 : -1};
    qkv_capture *capture = NULL;
    const size_t shape[] = {1, j->s.pass.length};
    qkv_tape_reset(j->t);
    qkv_tape_mode(j->t, false, false);
    double begun = qkv_now();
    qkv_status status = kind ? qkv_capture_open(&capture, j->c->ctx, j->t, &o) : QKV_OK;
    if (!status)
        (void)qkv_lm_hidden(j->model, j->t, qkv_tensor_ids(j->t, j->ids, 2, shape), 0, NULL, NULL);
    if (!status)
        status = qkv_tape_status(j->t);
    if (capture && !status)
        status = qkv_capture_close(capture);
    else
        qkv_capture_abandon(capture);
    if (!status)
        status = qkv_context_wait(j->c->ctx);
    *seconds = qkv_now() - begun;
    return status;
}

static qkv_status look_measure(job *j)
{
    qkv_context *ctx = j->c->ctx;
    int passes = j->s.all ? PASSES : PASSES - 1;
    double warm;
    qkv_status status = bench_model(ctx, &j->model, 0, j->s.pass.model, 0, j->s.pass.length, 0);
    if (!status)
        status = qkv_model_init(j->model, j->c->common.seed);
    if (!status)
        status = qkv_tape_create(&j->t, ctx);
    j->ids = qkv_calloc(ctx, j->s.pass.length, sizeof *j->ids);
    for (int k = 0; k < PASSES && !status; k++)
        if (!j->ids || !(j->seconds[k] = qkv_calloc(ctx, j->s.repeats, sizeof *j->seconds[k])))
            status = QKV_E_MEMORY;
    if (!status) {
        bench_random_ids(j->ids, j->s.pass.length, qkv_lm_vocab(j->model), j->c->common.seed);
        status = look_pass(j, 0, &warm);
    }
    for (size_t i = 0; i < j->s.repeats && !status; i++)
        for (int k = 0; k < passes && !status; k++) {
            status = look_pass(j, k, &j->seconds[k][i]);
            j->memory[k] = j->memory[k] ? j->memory[k] : qkv_machine_peak_rss();
        }
    (void)remove(j->s.file);
    return status;
}

static qkv_status look_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = look_measure(&j);
    if (!status) {
        double plain = bench_median(j.seconds[0], j.s.repeats);
        double row = bench_median(j.seconds[1], j.s.repeats);
        double layer = bench_median(j.seconds[2], j.s.repeats);
        double all = j.s.all ? bench_median(j.seconds[3], j.s.repeats) : 0;
        const bench_figure figures[] = {
            {"plain_s", "the pass alone", "ms", BENCH_REAL, plain, 1e-3},
            {"row", "one row of one head, times that", "", BENCH_REAL, row / plain, 0},
            {"layer", "all of one layer, times that", "", BENCH_REAL, layer / plain, 0},
            {"plain_bytes", "memory, most: the pass alone", "MB", BENCH_COUNT,
             (double)j.memory[0], 1e6},
            {"captured_bytes", "memory, most: captured", "MB", BENCH_COUNT,
             (double)j.memory[j.s.all ? 3 : 2], 1e6},
            {"all", "all layers and heads, times that", "", BENCH_REAL, all / plain, 0},
        };
        *out = (bench_report){.reached = 1 / layer, .unit = "passes/s"};
        bench_add_all(out, figures, sizeof figures / sizeof *figures - !j.s.all);
        (void)snprintf(out->title, sizeof out->title, "capturing a pass of %s, %zu tokens",
                       j.s.pass.model, j.s.pass.length);
    }
    for (int k = 0; k < PASSES; k++)
        qkv_free(c->ctx, j.seconds[k]);
    qkv_free(c->ctx, j.ids);
    qkv_tape_destroy(j.t);
    qkv_model_destroy(j.model);
    return status;
}

const bench_measure bench_look = {
    .name = "look", .command = &cli_bench_look, .size = sizeof(settings), .adapt = NULL,
    .measure = look_work};

static const char *const examples[] = {"qkv bench look --length 1024",
                                       "qkv bench look --length 4096 --all --repeats 1", NULL};

CLI_COMMAND(cli_bench_look, 745) = {
    .manual = {.name = "bench look", .summary = "time capturing attention weights",
               .usage = "[--length N] [options]", .examples = examples,
               .text = "A forward pass of a GPT in the gpt2 layout with random parameters, alone "
                       "and with a capture of its attention weights in a file, in turn."},
    .own = {&bench_pass_table, &table}, .measure = &bench_look, .run = bench_run};
