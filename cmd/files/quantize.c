/* quantize.c - `qkv quantize`: a model directory in 8 or 4 bits. */
#include "core/cli.h"

typedef struct {
    const char *out;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, FIELD(out), .value = "DIR",
     .help = "directory to write, empty or missing"},
};
static const qkv_option_table table = {"Output", rows, sizeof rows / sizeof *rows,
                                       sizeof(settings)};

static int quantize_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_quantize_options o;
    cli_bind(c, &table, &s);
    cli_bind(c, qkv_quantize_table(), &o);
    int refused = cli_parse(c, argc, argv, 1, 1);
    if (refused)
        return refused;
    if (!s.out)
        return cli_usage(c, "--out DIR expected");
    return qkv_quantize(c->ctx, c->args.items[0], s.out, &o) ? cli_error(c) : CLI_DONE;
}

static const char *const examples[] = {"qkv quantize runs/book --to int8 --out runs/book-int8",
                                       "qkv quantize runs/book --to int4 --out runs/book-int4",
                                       NULL};

CLI_COMMAND(cli_quantize, 645) = {
    .manual = {.name = "quantize", .summary = "store a model in 8 or 4 bits",
               .usage = "DIR --to int8|int4 --out DIR",
               .text = "Writes a model directory whose linear layers have integers for weights, in "
                       "the format of compressed-tensors, and tables of tokens bf16. All commands "
                       "that use a model take it, and keep its matrices in memory as it does; `qkv "
                       "convert` makes f32 of it again. --weights of these commands rounds "
                       "another directory's matrices in memory alone.",
               .examples = examples},
    .own = {&table}, .library[CLI_BEHIND] = qkv_quantize_table, .run = quantize_run};
