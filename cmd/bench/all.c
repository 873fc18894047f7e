/* all.c - `qkv bench`: every measure once, in one table against this machine's limits. */
#include <stdio.h>

#include "bench/bench.h"
#include "core/cli.h"

static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, .offset = offsetof(bench_request, model),
     .value = "PRESET", .initial = "gpt2",
     .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 1048576,
     .offset = offsetof(bench_request, length), .initial = "2048",
     .help = "tokens that attend to each other; training takes 256 at most"},
    {.flag = "repeats", .type = QKV_OPT_SIZE, .min = 1, .max = 1000,
     .offset = offsetof(bench_request, repeats), .initial = "5",
     .help = "steps and passes timed, after two that are not"},
};
static const qkv_option_table table = {"Everything", rows, sizeof rows / sizeof *rows, 0};

static const bench_measure *const measures[] = {
    &bench_train, &bench_train_f32, &bench_train_bf16, &bench_train_codes, &bench_attention,
    &bench_decode, &bench_image, &bench_translate, &bench_tokenize};
enum { MEASURES = sizeof measures / sizeof *measures };

/* Whether the context's device has products in bf16. */
static bool all_has_bf16(cli *c)
{
    return qkv_context_set_products(c->ctx, QKV_PRODUCTS_BF16) == QKV_OK &&
           qkv_context_products(c->ctx) != QKV_PRODUCTS_F32;
}

static void all_show(const bench_report *r)
{
    printf("%-60s %8.1f", r->title, r->reached);
    if (r->limit > 0)
        printf(" %8.1f %5.1f %%", r->limit, 100 * r->reached / r->limit);
    else
        printf(" %8s %7s", "", "");
    printf("  %s%s%s\n", r->unit, r->products ? ", " : "", r->products ? r->products : "");
}

static int all_run(cli *c, int argc, char **argv)
{
    bench_request request;
    bench_report found;
    qkv_status status = QKV_OK;
    cli_bind(c, &table, &request);
    int refused = cli_parse(c, argc, argv, 0, 0);
    if (refused)
        return refused;
    bool json = c->common.json;
    qkv_json_writer w = cli_object(c);
    if (!json) {
        bench_show_machine(c);
        printf("%-60s %8s %8s %7s\n", "", "reached", "limit", "share");
    }
    for (size_t i = 0; i < MEASURES && !status; i++) {
        if (measures[i]->bf16 && !all_has_bf16(c))
            continue;
        (void)fflush(stdout);
        status = bench_part(c, measures[i], &request, &found);
        if (status)
            break;
        qkv_json_begin_object(&w, measures[i]->name);
        bench_put(&w, &found);
        qkv_json_end_object(&w);
        if (!json)
            all_show(&found);
    }
    bench_put_machine(&w, c);
    if (json && !status)
        return cli_answer(c, &w);
    qkv_json_writer_free(&w);
    return status ? cli_error(c) : CLI_DONE;
}

static const char *const examples[] = {"qkv bench", "qkv bench --model small --json", NULL};

CLI_COMMAND(cli_bench, 700) = {
    .manual = {.name = "bench", .summary = "what this machine allows and what qkv reaches of it",
               .usage = "[MEASURE] [options]",
               .examples = examples,
               .text = "MEASURE is train, forward, attention, decode, prompt, image, translate, "
                       "tokenize or look: a command of its own, see qkv help bench train. Without "
                       "one the most important run, a minute and a half on two cores. Each rate "
                       "stands beside the limit that this machine set at that moment: the best "
                       "product of matrices, or the speed of reading memory. The limits are "
                       "measured before and after the work, so figures of a busy machine come out "
                       "low. In JSON there is an object for each, with that command's fields; "
                       "train_f32 is bench train once more with --dtype f32, train_bf16 with "
                       "--dtype bf16 where the processor has such products, train_codes of a "
                       "VQGAN."},
    .own = {&table}, .run = all_run};
