/* bench.c - what the commands of `qkv bench` share. */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

const char *const bench_layouts[] = {"gpt2", "llama", NULL};

const char *const bench_weights[] = {"f32", "bf16", "int8", "int4", NULL};
qkv_weights bench_weights_of(int row) { return (qkv_weights)(QKV_WEIGHTS_F32 + row); }

#define PASS(member) .offset = offsetof(bench_pass, member)
static const qkv_option pass_rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, PASS(model), .value = "PRESET", .initial = "gpt2",
     .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, PASS(length),
     .initial = "1024", .help = "tokens of the text"},
};
const qkv_option_table bench_pass_table = {"Forward pass", pass_rows,
                                           sizeof pass_rows / sizeof *pass_rows, 0};

enum { GPT2_VOCAB = 50257, GPT2_POSITIONS = 1024 };

static void bench_show(const bench_figure *f)
{
    double value = f->value / (f->shown > 0 ? f->shown : 1);
    printf("%-24s", f->label);
    if (f->kind == BENCH_PERCENT)
        printf(" %12.1f %%\n", 100 * value);
    else
        printf(" %12.*f%s%s\n", f->kind == BENCH_COUNT ? 0 : value < 10 ? 3 : 1, value,
               f->unit[0] ? " " : "", f->unit);
}

void bench_add_all(bench_report *r, const bench_figure *figures, size_t count)
{
    for (size_t i = 0; i < count && r->count < BENCH_FIGURES; i++)
        r->figures[r->count++] = figures[i];
}

void bench_put(qkv_json_writer *w, const bench_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const bench_figure *f = &r->figures[i];
        if (f->kind == BENCH_COUNT)
            qkv_json_put_int(w, f->key, (int64_t)f->value);
        else
            qkv_json_put_real(w, f->key, f->value);
    }
    if (r->products)
        qkv_json_put_string(w, "products", r->products);
}

void bench_show_machine(const cli *c)
{
    const char *card = qkv_machine_card(c->ctx);
    printf("%s%s%s, %d threads\n\n", card ? card : "", card ? "; " : "", qkv_machine_cpu(),
           qkv_context_threads(c->ctx));
}

void bench_put_machine(qkv_json_writer *w, const cli *c)
{
    const char *card = qkv_machine_card(c->ctx);
    if (card)
        qkv_json_put_string(w, "device", card);
    qkv_json_put_string(w, "cpu", qkv_machine_cpu());
    qkv_json_put_int(w, "threads", qkv_context_threads(c->ctx));
}

int bench_answer(const cli *c, const bench_report *r)
{
    if (!c->common.json) {
        puts(r->title);
        bench_show_machine(c);
        for (size_t i = 0; i < r->count; i++)
            bench_show(&r->figures[i]);
        if (r->products)
            printf("%-24s %12s\n", "products", r->products);
        return CLI_DONE;
    }
    qkv_json_writer w = cli_object(c);
    bench_put(&w, r);
    bench_put_machine(&w, c);
    return cli_answer(c, &w);
}

/* ---- measures ------------------------------------------------------------------------------- */

int bench_run(cli *c, int argc, char **argv)
{
    const bench_measure *m = c->command->measure;
    bench_report found = {.count = 0};
    void *settings = qkv_calloc(c->ctx, 1, m->size);
    int code = settings ? CLI_DONE : cli_error(c);
    for (size_t i = 0; !code && i < CLI_TABLES && c->command->own[i]; i++)
        cli_bind(c, c->command->own[i], settings);
    if (!code)
        code = cli_parse(c, argc, argv, 0, 0);
    if (!code)
        code = m->measure(c, settings, &found) ? cli_error(c) : bench_answer(c, &found);
    qkv_free(c->ctx, settings);
    return code;
}

qkv_status bench_part(cli *c, const bench_measure *m, const bench_request *request,
                      bench_report *out)
{
    void *settings = qkv_calloc(c->ctx, 1, m->size);
    if (!settings)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < CLI_TABLES && m->command->own[i]; i++)
        qkv_option_defaults(m->command->own[i], settings);
    if (m->adapt)
        m->adapt(settings, request);
    qkv_status status = m->measure(c, settings, out);
    qkv_free(c->ctx, settings);
    return status;
}

/* ---- what measures share -------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double bench_median(double *seconds, size_t n)
{
    qsort(seconds, n, sizeof *seconds, ascending);
    return (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
}

qkv_status bench_peak(const cli *c, qkv_weights weights, double *peak)
{
    double now = weights ? qkv_weights_peak_flops(c->ctx, weights, BENCH_PEAK_PRODUCTS)
                         : qkv_machine_peak_flops(c->ctx, BENCH_PEAK_PRODUCTS);
    if (now > *peak)
        *peak = now;
    return now > 0 ? QKV_OK : qkv_context_status(c->ctx);
}

size_t bench_memory(const cli *c)
{
    return qkv_machine_card(c->ctx) ? qkv_context_memory(c->ctx).peak_bytes
                                    : qkv_machine_peak_rss();
}

qkv_status bench_time(const cli *c, bench_timing *out, size_t warm_ups, size_t repeats,
                      bench_pass_fn *prepare, bench_pass_fn *pass, void *user)
{
    double *seconds = qkv_calloc(c->ctx, repeats, sizeof *seconds);
    *out = (bench_timing){.weights = out->weights, .card = qkv_machine_card(c->ctx) != NULL};
    qkv_status status = !seconds    ? QKV_E_MEMORY
                        : out->card ? QKV_OK
                                    : bench_peak(c, out->weights, &out->peak);
    if (!status)
        status = prepare(user);
    if (!status)
        status = qkv_context_wait(c->ctx);
    for (size_t i = 0; i < warm_ups + repeats && !status; i++) {
        double start = qkv_now();
        status = pass(user);
        if (!status)
            status = qkv_context_wait(c->ctx);
        if (i >= warm_ups)
            seconds[i - warm_ups] = qkv_now() - start;
    }
    out->memory = bench_memory(c);
    if (!status) {
        out->seconds = bench_median(seconds, repeats);
        status = bench_peak(c, out->weights, &out->peak);
    }
    qkv_free(c->ctx, seconds);
    return status;
}

bench_figure bench_memory_figure(bool card, size_t bytes)
{
    return (bench_figure){card ? "peak_device_bytes" : "peak_rss_bytes",
                          card ? "memory, card and host" : "memory, most", "MB", BENCH_COUNT,
                          (double)bytes, 1e6};
}

void bench_add_rate(bench_report *r, double rate, const bench_timing *t)
{
    const bench_figure memory = bench_memory_figure(t->card, t->memory);
    const bench_figure figures[] = {
        {"gflops", "reached", "GFLOP/s", BENCH_REAL, rate / 1e9, 0},
        {"peak_gflops", "limit: best product", "GFLOP/s", BENCH_REAL, t->peak / 1e9, 0},
        {"of_peak", "of the limit", "", BENCH_PERCENT, rate / t->peak, 0},
    };
    bench_add_all(r, figures, sizeof figures / sizeof *figures);
    bench_add_all(r, &memory, 1);
    r->reached = rate / 1e9;
    r->limit = t->peak / 1e9;
    r->unit = "GFLOP/s";
}

qkv_status bench_model(qkv_context *ctx, qkv_model **out, int layout, const char *preset,
                       size_t vocab, size_t positions, double dropout)
{
    const qkv_model_type *type = layout ? qkv_llama_type() : qkv_gpt2_type();
    qkv_gpt_config config;
    qkv_option_defaults(qkv_model_type_config(type), &config);
    if (!qkv_model_type_preset(type, preset, &config))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", preset);
    config.vocab = vocab ? vocab : GPT2_VOCAB;
    config.positions = positions > GPT2_POSITIONS ? positions : GPT2_POSITIONS;
    config.dropout = config.embd_dropout = config.attention_dropout = dropout;
    return qkv_model_create(out, ctx, type, &config);
}

void bench_random_ids(int32_t *ids, size_t n, size_t vocab, uint64_t seed)
{
    qkv_rng r;
    qkv_rng_init(&r, seed, qkv_hash64("bench", 5));
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)qkv_rng_below(&r, (uint32_t)vocab);
}
