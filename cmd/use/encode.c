/* encode.c - `qkv encode` and `qkv decode`: between a picture and a grid of codes in a file. */
#include "pipeline/codec.h"
#include "core/commands.h"
#include "pipeline/pictures.h"
#include "qkv/codes.h"
#include "qkv/image_file.h"
#include "qkv/pixels.h"

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
     .value = "F.png", .help = "where the picture goes"},
};
static const qkv_option_table encode_table = {"Coding", encode_rows, 1};
static const qkv_option_table decode_table = {"Decoding", decode_rows, 1};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tape *tape;
    size_t factor, colors;
    size_t rows, columns; /* of codes */
} job;

static qkv_status open_model(job *j)
{
    qkv_status status = qkv__codec_load(&j->model, j->c->ctx, j->c->args.items[0]);
    if (status)
        return status;
    j->factor = qkv_vqgan_factor(j->model);
    j->colors = qkv__codec_config(j->model)->colors;
    return qkv_tape_create(&j->tape, j->c->ctx);
}

/* {"out": .., "rows": .., "columns": ..} */
static int answer(const job *j)
{
    if (!j->c->common.json)
        return CLI_DONE;
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "out", j->s.out);
    qkv_json_put_int(&w, "rows", (int64_t)j->rows);
    qkv_json_put_int(&w, "columns", (int64_t)j->columns);
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

/* What does not fill a whole code at the right and the bottom is left out. */
static qkv_status read_picture(job *j, qkv_image *out)
{
    qkv_context *ctx = j->c->ctx;
    const char *path = j->c->args.items[1];
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_status status = qkv_image_read(out, ctx, path, NULL);
    if (status)
        return status;
    j->rows = out->height / j->factor;
    j->columns = out->width / j->factor;
    if (!j->rows || !j->columns)
        return qkv_fail(ctx, QKV_E_FORMAT, "%s: %zu x %zu pixels; %zu x %zu at least expected",
                        path, out->width, out->height, j->factor, j->factor);
    o.height = j->rows * j->factor;
    o.width = j->columns * j->factor;
    o.channels = j->colors;
    o.fit = QKV_FIT_CROP;
    return qkv_image_fit(out, ctx, &o);
}

static qkv_status encode(job *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_image picture = {0};
    int32_t *codes = NULL;
    qkv_status status = read_picture(j, &picture);
    if (!status)
        codes = qkv_calloc(ctx, j->rows * j->columns, sizeof *codes);
    if (!status)
        status = codes ? qkv_pictures_encode(j->model, j->tape, picture.data, 1,
                                             picture.height, picture.width, codes)
                       : QKV_E_MEMORY;
    if (!status)
        status = qkv__codes_save(ctx, j->s.out, codes, j->rows, j->columns);
    qkv_free(ctx, codes);
    qkv_image_free(&picture, ctx);
    return status;
}

static qkv_status decode(job *j)
{
    qkv_context *ctx = j->c->ctx;
    const char *path = j->c->args.items[1];
    qkv_image picture = {0};
    int32_t *codes = NULL;
    qkv_status status = qkv__codes_load(&codes, ctx, path, &j->rows, &j->columns);
    if (!status)
        status = qkv__codec_size(j->model, ctx, path, j->rows, j->columns);
    if (!status)
        status = qkv_image_create(&picture, ctx, j->columns * j->factor, j->rows * j->factor,
                                  j->colors);
    if (!status) {
        status = qkv_pictures_decode(j->model, j->tape, codes, 1, j->rows, j->columns,
                                     picture.data);
        if (status)
            qkv_fail_prefix(ctx, path);
    }
    if (!status)
        status = qkv_image_write(&picture, ctx, j->s.out);
    qkv_free(ctx, codes);
    qkv_image_free(&picture, ctx);
    return status;
}

static int run(cli *c, int argc, char **argv, const qkv_option_table *table,
               qkv_status (*work)(job *j))
{
    job j = {.c = c};
    cli_bind(c, table, &j.s);
    if (cli_parse(c, argc, argv, 2, 2) || cli_png_only(c, j.s.out))
        return CLI_USAGE;
    qkv_status status = open_model(&j);
    if (!status)
        status = work(&j);
    int code = status ? cli_error(c) : answer(&j);
    qkv_tape_destroy(j.tape);
    qkv_model_destroy(j.model);
    return code;
}

static int run_encode(cli *c, int argc, char **argv)
{
    return run(c, argc, argv, &encode_table, encode);
}

static int run_decode(cli *c, int argc, char **argv)
{
    return run(c, argc, argv, &decode_table, decode);
}

static const qkv_option_table *const encode_tables[] = {&encode_table, NULL};
static const qkv_option_table *const decode_tables[] = {&decode_table, NULL};
static const char *const encode_examples[] = {
    "qkv encode runs/codes cat.png --out cat.npy", NULL};
static const char *const decode_examples[] = {
    "qkv decode runs/codes cat.npy --out again.png", NULL};

const cli_command cli_encode = {
    .manual = {.name = "encode", .summary = "a picture's codes",
               .usage = "DIR IMG --out F.npy", .examples = encode_examples,
               .tables = encode_tables,
               .text = "The codes that a model of train vqgan has for a picture of any size, as a "
                       "NumPy file of rows x columns. Pixels at the edges that do not make up a "
                       "whole code are left out, as many on either side."},
    .run = run_encode};

const cli_command cli_decode = {
    .manual = {.name = "decode", .summary = "a picture of codes",
               .usage = "DIR F.npy --out F.png", .examples = decode_examples,
               .tables = decode_tables,
               .text = "The picture that codes stand for: a NumPy file as qkv encode writes, or "
                       "rows of numbers with commas between them."},
    .run = run_decode};
