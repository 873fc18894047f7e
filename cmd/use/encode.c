/* encode.c - `qkv encode` and `qkv decode`: between an image and a grid of codes in a file. */
#include "core/cli.h"

typedef struct {
    const char *out;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option encode_rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out),
     .value = "F.npy", .help = "where the codes go, rows x columns"},
};
static const qkv_option decode_rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out),
     .value = "F.png", .help = "where the image goes"},
};
static const qkv_option_table encode_table = {"Coding", encode_rows, 1, 0};
static const qkv_option_table decode_table = {"Decoding", decode_rows, 1, 0};

/* {"out": .., "rows": .., "columns": ..} */
static int encode_answer(const cli *c, const char *out, const qkv_code_grid *g)
{
    if (!c->common.json)
        return CLI_DONE;
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "out", out);
    qkv_json_put_int(&w, "rows", (int64_t)g->rows);
    qkv_json_put_int(&w, "columns", (int64_t)g->columns);
    return cli_answer(c, &w);
}

static qkv_status encode(qkv_pipeline *p, cli *c, const char *out, qkv_code_grid *g)
{
    const qkv_image_source in = {.path = c->args.items[1]};
    qkv_status status = qkv_pipeline_encode(p, &in, g);
    return status ? status : qkv_code_grid_save(g, out);
}

static qkv_status encode_decode(qkv_pipeline *p, cli *c, const char *out, qkv_code_grid *g)
{
    qkv_image image = {0};
    qkv_status status = qkv_code_grid_load(g, c->ctx, c->args.items[1]);
    if (!status)
        status = qkv_pipeline_decode(p, g, &image);
    if (!status)
        status = qkv_image_write(&image, c->ctx, out);
    qkv_image_free(&image, c->ctx);
    return status;
}

static int encode_run(cli *c, int argc, char **argv, const qkv_option_table *table,
                      qkv_status (*work)(qkv_pipeline *p, cli *c, const char *out,
                                         qkv_code_grid *g))
{
    settings s;
    qkv_code_grid g = {0};
    qkv_pipeline *p = NULL;
    cli_bind(c, table, &s);
    int refused = cli_parse(c, argc, argv, 2, 2);
    if (!refused)
        refused = cli_png_only(c, s.out);
    if (refused)
        return refused;
    qkv_status status = qkv_pipeline_open(&p, c->ctx, c->args.items[0]);
    if (!status)
        status = work(p, c, s.out, &g);
    int code = status ? cli_error(c) : encode_answer(c, s.out, &g);
    qkv_code_grid_free(&g);
    qkv_pipeline_close(p);
    return code;
}

static int run_encode(cli *c, int argc, char **argv)
{
    return encode_run(c, argc, argv, &encode_table, encode);
}

static int run_decode(cli *c, int argc, char **argv)
{
    return encode_run(c, argc, argv, &decode_table, encode_decode);
}

static const char *const encode_examples[] = {
    "qkv encode runs/codes cat.png --out cat.npy", NULL};
static const char *const decode_examples[] = {
    "qkv decode runs/codes cat.npy --out again.png", NULL};

CLI_COMMAND(cli_encode, 480) = {
    .manual = {.name = "encode", .summary = "an image's codes",
               .usage = "DIR IMG --out F.npy", .examples = encode_examples,
               .text = "The codes that a model of train vqgan has for an image of any size, as a "
                       "NumPy file of rows x columns. Pixels at the edges that do not make up a "
                       "whole code are left out, as many on either side."},
    .own = {&encode_table}, .run = run_encode};

CLI_COMMAND(cli_decode, 490) = {
    .manual = {.name = "decode", .summary = "an image of codes",
               .usage = "DIR F.npy --out F.png", .examples = decode_examples,
               .text = "The image that codes stand for: a NumPy file as qkv encode writes, or "
                       "rows of numbers with commas between them."},
    .own = {&decode_table}, .run = run_decode};
