/* attention.c - `qkv bench attention`: causal attention, forward and backward, against
 * the machine's best products. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

enum { WARM_UPS = 2 };

typedef struct {
    size_t batch, length, heads, head_width, repeats;
} settings;

#define SIZE_ROW(flag_, member, most, initial_, help_)                                            \
    {.flag = flag_, .type = QKV_OPT_SIZE, .min = 1, .max = most,                                  \
     .offset = offsetof(settings, member), .initial = initial_, .help = help_}
static const qkv_option rows[] = {
    SIZE_ROW("length", length, 1048576, "2048", "queries and keys in a sequence"),
    SIZE_ROW("batch", batch, 65536, "1", "sequences"),
    SIZE_ROW("heads", heads, 1024, "12", "attention heads"),
    SIZE_ROW("head-width", head_width, 1024, "64", "channels of a head"),
    SIZE_ROW("repeats", repeats, 1000, "10", "times it is timed, after two that are not"),
};
static const qkv_option_table table = {"Attention", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_tape *tape;
    qkv_real *data;             /* q, k, v and d(loss)/d(output), each of `size` */
    size_t size;                /* batch length heads head_width */
    double *forward, *backward; /* (repeats) seconds */
    double peak;                /* flop/s */
} job;

static qkv_status attention_prepare(job *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_status status = qkv_tape_create(&j->tape, ctx);
    if (status)
        return status;
    j->size = j->s.batch * j->s.length * j->s.heads * j->s.head_width;
    j->data = qkv_calloc(ctx, 4 * j->size, sizeof *j->data);
    j->forward = qkv_calloc(ctx, j->s.repeats, sizeof *j->forward);
    j->backward = qkv_calloc(ctx, j->s.repeats, sizeof *j->backward);
    if (!j->data || !j->forward || !j->backward)
        return QKV_E_MEMORY;
    qkv_rng r;
    qkv_rng_init(&r, j->c->common.seed, qkv_hash64("attention", 9));
    for (size_t i = 0; i < 4 * j->size; i++)
        j->data[i] = (qkv_real)qkv_rng_normal(&r);
    return QKV_OK;
}

static qkv_status attention_pass(job *j, double *forward, double *backward)
{
    qkv_tape *t = j->tape;
    size_t shape[] = {j->s.batch, j->s.length, j->s.heads, j->s.head_width};
    qkv_tensor *x[4];
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    for (size_t i = 0; i < 4; i++) {
        x[i] = qkv_tensor_wrap(t, j->data + i * j->size, 4, shape);
        if (i < 3)
            qkv_require_grad(t, x[i]);
    }
    qkv_attention_options o = {.causal = true};
    double start = qkv_now();
    qkv_tensor *y = qkv_attention(t, x[0], x[1], x[2], &o);
    double middle = qkv_now();
    const qkv_tensor *dy = x[3];
    qkv_backward_args args = {.n = 1, .outputs = &y, .gradients = &dy};
    qkv_status status = qkv_backward_from(t, &args);
    *forward = middle - start;
    *backward = qkv_now() - middle;
    return status;
}

static qkv_status attention_measure(job *j)
{
    qkv_status status = bench_peak(j->c, &j->peak);
    if (!status)
        status = attention_prepare(j);
    for (size_t i = 0; i < WARM_UPS + j->s.repeats && !status; i++) {
        size_t at = i < WARM_UPS ? 0 : i - WARM_UPS;
        status = attention_pass(j, &j->forward[at], &j->backward[at]);
    }
    return status ? status : bench_peak(j->c, &j->peak);
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
    const bench_figure figures[] = {
        {"forward_s", "forward", "ms", BENCH_REAL, forward, 1e-3},
        {"backward_s", "backward", "ms", BENCH_REAL, backward, 1e-3},
        {"forward_gflops", "forward", "GFLOP/s", BENCH_REAL, once / forward / 1e9, 0},
        {"backward_gflops", "backward", "GFLOP/s", BENCH_REAL, back / backward / 1e9, 0},
        {"gflops", "both", "GFLOP/s", BENCH_REAL, rate / 1e9, 0},
        {"peak_gflops", "limit: best product", "GFLOP/s", BENCH_REAL, j->peak / 1e9, 0},
        {"of_peak", "both, of the limit", "", BENCH_PERCENT, rate / j->peak, 0},
    };
    *r = (bench_report){.reached = rate / 1e9, .limit = j->peak / 1e9, .unit = "GFLOP/s"};
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    (void)snprintf(r->title, sizeof r->title,
                   "causal attention, %zu heads of %zu, batch %zu x %zu, f32", s->heads,
                   s->head_width, s->batch, s->length);
}

static qkv_status attention_work(cli *c, const void *asked, bench_report *out)
{
    job j = {.c = c, .s = *(const settings *)asked};
    qkv_status status = attention_measure(&j);
    if (!status)
        attention_report(&j, out);
    qkv_free(c->ctx, j.backward);
    qkv_free(c->ctx, j.forward);
    qkv_free(c->ctx, j.data);
    qkv_tape_destroy(j.tape);
    return status;
}

static void attention_adapt(void *asked, const bench_request *request)
{
    settings *s = asked;
    s->length = request->length;
    s->repeats = request->repeats;
}

const bench_measure bench_attention = {"attention", &cli_bench_attention, sizeof(settings),
                                       attention_adapt, attention_work};

static const char *const examples[] = {"qkv bench attention --length 2048 --json", NULL};

CLI_COMMAND(cli_bench_attention, 720) = {
    .manual = {.name = "bench attention", .summary = "time attention, forward and backward",
               .usage = "[--length T] [options]", .examples = examples,
               .text = "Medians of the timed passes. The forward pass counts as half of "
                       "4 T^2 heads head-width operations, because half of the keys are hidden, "
                       "and the backward pass as 2.5 times that. The limit is the best of ten "
                       "products of 2048 x 2048 matrices, five before and five after."},
    .own = {&table}, .measure = &bench_attention, .run = bench_run};
