/* attention.c - `qkv bench attention`: causal attention, forward and backward, against
 * the machine's best products. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 2 };

typedef struct {
    size_t batch, length, to, heads, head_width, repeats;
    int dtype; /* QKV_PRODUCTS_* */
} settings;

#define SIZE_ROW(flag_, member, most, initial_, help_)                                            \
    {.flag = flag_, .type = QKV_OPT_SIZE, .min = 1, .max = most,                                  \
     .offset = offsetof(settings, member), .initial = initial_, .help = help_}
static const qkv_option rows[] = {
    SIZE_ROW("length", length, 1048576, "2048", "queries and keys in a sequence"),
    {.flag = "to", .type = QKV_OPT_SIZE, .max = 1048576, .offset = offsetof(settings, to),
     .initial = "0", .help = "a line for every length from --length on, doubled up to this one; 0: "
                             "--length alone"},
    SIZE_ROW("batch", batch, 65536, "1", "sequences"),
    SIZE_ROW("heads", heads, 1024, "12", "attention heads"),
    SIZE_ROW("head-width", head_width, 1024, "64", "channels of a head"),
    {.flag = "dtype", .type = QKV_OPT_ENUM, .offset = offsetof(settings, dtype),
     .names = bench_dtypes, .initial = "f32", .help = bench_dtype_help},
    SIZE_ROW("repeats", repeats, 1000, "10", "times it is timed, after two that are not"),
};
static const qkv_option_table table = {"Attention", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_tape *tape;
    qkv_rng rng;
    double *forward, *backward; /* (repeats) seconds */
    double peak;                /* flop/s */
} job;

static qkv_status attention_prepare(job *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_status status = qkv_tape_create(&j->tape, ctx);
    if (status)
        return status;
    j->forward = qkv_calloc(ctx, j->s.repeats, sizeof *j->forward);
    j->backward = qkv_calloc(ctx, j->s.repeats, sizeof *j->backward);
    qkv_rng_init(&j->rng, j->c->common.seed, qkv_hash64("attention", 9));
    return j->forward && j->backward ? QKV_OK : QKV_E_MEMORY;
}

/* Random numbers in the memory that a network's tensors have. */
static qkv_tensor *attention_input(job *j)
{
    size_t shape[] = {j->s.batch, j->s.length, j->s.heads, j->s.head_width};
    qkv_tensor *x = qkv_tensor_from(j->tape, NULL, 4, shape);
    qkv_real *data = qkv_tensor_fill(x);
    for (size_t i = 0; data && i < qkv_count(x); i++)
        data[i] = (qkv_real)(2 * qkv_rng_uniform(&j->rng) - 1);
    return x;
}

static qkv_status attention_pass(job *j, double *forward, double *backward)
{
    qkv_tape *t = j->tape;
    qkv_tensor *x[4];
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    for (size_t i = 0; i < 4; i++) {
        x[i] = attention_input(j);
        if (i < 3)
            qkv_require_grad(t, x[i]);
    }
    qkv_attention_options o = {.causal = true};
    qkv_status status = qkv_context_wait(j->c->ctx);
    double start = qkv_now();
    qkv_tensor *y = qkv_attention(t, x[0], x[1], x[2], &o);
    status = status ? status : qkv_context_wait(j->c->ctx);
    double middle = qkv_now();
    const qkv_tensor *dy = x[3];
    qkv_backward_args args = {.n = 1, .outputs = &y, .gradients = &dy};
    status = status ? status : qkv_backward_from(t, &args);
    status = status ? status : qkv_context_wait(j->c->ctx);
    *forward = middle - start;
    *backward = qkv_now() - middle;
    return status;
}

static qkv_status attention_measure(job *j)
{
    qkv_status status = qkv_context_set_products(j->c->ctx, j->s.dtype);
    if (!status)
        status = bench_peak(j->c, QKV_WEIGHTS_AUTO, &j->peak);
    if (!status)
        status = attention_prepare(j);
    for (size_t i = 0; i < WARM_UPS + j->s.repeats && !status; i++) {
        size_t at = i < WARM_UPS ? 0 : i - WARM_UPS;
        status = attention_pass(j, &j->forward[at], &j->backward[at]);
    }
    return status ? status : bench_peak(j->c, QKV_WEIGHTS_AUTO, &j->peak);
}

/* The forward pass counts as half (causal) of its two products of 2 T^2 width operations; the
 * backward pass has five of them. */
static void attention_report(job *j, bench_report *r)
{
    const settings *s = &j->s;
    double T = (double)s->length;
    double once = 2 * T * T * (double)(s->batch * s->heads * s->head_width), back = 2.5 * once;
    double forward = bench_median(j->forward, s->repeats);
    double backward = bench_median(j->backward, s->repeats);
    double rate = (once + back) / (forward + backward);
    double memory = (double)(qkv_tape_high_water(j->tape) + qkv_tape_scratch_high_water(j->tape));
    const bench_figure figures[] = {
        {"forward_s", "forward", "ms", BENCH_REAL, forward, 1e-3},
        {"backward_s", "backward", "ms", BENCH_REAL, backward, 1e-3},
        {"forward_gflops", "forward", "GFLOP/s", BENCH_REAL, once / forward / 1e9, 0},
        {"backward_gflops", "backward", "GFLOP/s", BENCH_REAL, back / backward / 1e9, 0},
        {"gflops", "both", "GFLOP/s", BENCH_REAL, rate / 1e9, 0},
        {"peak_gflops", "limit: best product", "GFLOP/s", BENCH_REAL, j->peak / 1e9, 0},
        {"of_peak", "both, of the limit", "", BENCH_PERCENT, rate / j->peak, 0},
        {"memory_bytes", "tensors and scratch", "MB", BENCH_REAL, memory, 1e6},
    };
    *r = (bench_report){.reached = rate / 1e9, .limit = j->peak / 1e9, .unit = "GFLOP/s"};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    r->products = qkv_machine_products(j->c->ctx);
    (void)snprintf(r->title, sizeof r->title,
                   "causal attention, %zu heads of %zu, batch %zu x %zu, %s", s->heads,
                   s->head_width, s->batch, s->length, bench_dtypes[s->dtype]);
}

static qkv_status attention_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = attention_measure(&j);
    if (!status)
        attention_report(&j, out);
    qkv_free(c->ctx, j.backward);
    qkv_free(c->ctx, j.forward);
    qkv_tape_destroy(j.tape);
    return status;
}

static void attention_adapt(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->length = request->length;
    s->repeats = request->repeats;
}

const bench_measure bench_attention = {
    .name = "attention", .command = &cli_bench_attention, .size = sizeof(settings),
    .adapt = attention_adapt, .measure = attention_work};

/* ---- a line for every length ----------------------------------------------------------------- */

static double attention_figure(const bench_report *r, const char *key)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->figures[i].key, key) == 0)
            return r->figures[i].value;
    return 0;
}

static void attention_line(size_t length, const bench_report *r)
{
    printf("%7zu %10.1f %10.1f %10.1f %7.1f %% %10.1f\n", length,
           attention_figure(r, "forward_gflops"), attention_figure(r, "backward_gflops"),
           attention_figure(r, "gflops"), 100 * attention_figure(r, "of_peak"),
           attention_figure(r, "memory_bytes") / 1e6);
    (void)fflush(stdout);
}

static void attention_head(const cli *c, const settings *s)
{
    printf("causal attention, %zu heads of %zu, batch %zu, %s\n", s->heads, s->head_width,
           s->batch, bench_dtypes[s->dtype]);
    bench_show_machine(c);
    printf("%7s %10s %10s %10s %9s %10s\n", "length", "forward", "backward", "both", "of limit",
           "MB");
}

static int attention_lengths(cli *c, settings s)
{
    qkv_status status = QKV_OK;
    qkv_json_writer w = cli_object(c);
    bench_report found;
    if (!c->common.json)
        attention_head(c, &s);
    qkv_json_begin_array(&w, "lengths");
    for (; s.length <= s.to && !status; s.length *= 2) {
        if ((status = attention_work(c, &s, &found)))
            break;
        if (!c->common.json)
            attention_line(s.length, &found);
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_int(&w, "length", (int64_t)s.length);
        bench_put(&w, &found);
        qkv_json_end_object(&w);
    }
    qkv_json_end_array(&w);
    bench_put_machine(&w, c);
    if (c->common.json && !status)
        return cli_answer(c, &w);
    qkv_json_writer_free(&w);
    return status ? cli_error(c) : CLI_DONE;
}

static int attention_run(cli *c, int argc, char **argv)
{
    settings s;
    bench_report found;
    cli_bind(c, &table, &s);
    int refused = cli_parse(c, argc, argv, 0, 0);
    if (refused)
        return refused;
    if (s.to && s.to < s.length)
        return cli_usage(c, "--to is less than --length");
    if (s.to)
        return attention_lengths(c, s);
    return attention_work(c, &s, &found) ? cli_error(c) : bench_answer(c, &found);
}

static const char *const examples[] = {"qkv bench attention --length 2048 --json",
                                       "qkv bench attention --length 1024 --to 32768 --repeats 3",
                                       NULL};

CLI_COMMAND(cli_bench_attention, 720) = {
    .manual = {.name = "bench attention", .summary = "time attention, forward and backward",
               .usage = "[--length T] [options]", .examples = examples,
               .text = "Medians of the timed passes, in GFLOP/s. The forward pass counts as half "
                       "of 4 T^2 heads head-width operations, because half of the keys are "
                       "hidden, and the backward pass as 2.5 times that. The limit is the best "
                       "of ten products of 2048 x 2048 matrices, five before and five after; on a "
                       "card, which both passes are timed on as a training step has them, of "
                       "8192 x 8192."},
    .own = {&table}, .measure = &bench_attention, .run = attention_run};
