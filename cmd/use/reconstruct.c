/* reconstruct.c - `qkv reconstruct`: a picture, what a model sees of it, what it makes of
 * that. */
#include <stdlib.h>
#include <string.h>

#include "core/commands.h"
#include "eval/kinds.h"
#include "pipeline/pictures.h"
#include "qkv/hub.h"
#include "qkv/image_file.h"
#include "qkv/reconstruct.h"
#include "qkv/resize.h"

enum { COLUMNS = 3, GAP = 4, TILE = 192, WHITE = 255, MOST_ROWS = 64 };

typedef struct {
    qkv_strings masks;
    const char *out;
    bool paste;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "mask", .type = QKV_OPT_LIST, FIELD(masks), .value = "R",
     .help = "share hidden, 0.75 or 75 (per cent); several: 25,75,90,98; default: 0.75"},
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out),
     .value = "F.png", .help = "where the picture goes"},
    {.flag = "paste", .type = QKV_OPT_BOOL, FIELD(paste),
     .help = "show visible patches as they are, not as the model has them"},
};
static const qkv_option_table table = {"Filling in", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tape *tape;
    double ratios[MOST_ROWS];
    size_t ratio_count;
    size_t side, channels, zoom;
    uint8_t *hidden, *filled; /* of the picture at hand */
    qkv_image sheet;
} job;

/* "0.75", "75" or several with commas between. */
static qkv_status read_ratios(job *j, const char *text)
{
    const char *at = text;
    do {
        char *end;
        double r = strtod(at, &end);
        r = r >= 1 ? r / 100 : r;
        if (end == at || (*end && *end != ',') || !(r >= 0 && r < 1))
            return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--mask: shares in [0, 1) or per cent "
                            "below 100 expected, found \"%.40s\"", text);
        if (j->ratio_count == MOST_ROWS)
            return qkv_fail(j->c->ctx, QKV_E_ARGUMENT, "--mask: at most %d shares expected",
                            (int)MOST_ROWS);
        j->ratios[j->ratio_count++] = r;
        at = *end ? end + 1 : end;
    } while (*at);
    return QKV_OK;
}

static qkv_status read_options(job *j)
{
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < j->s.masks.count && !status; i++)
        status = read_ratios(j, j->s.masks.items[i]);
    if (!j->s.masks.count)
        j->ratios[j->ratio_count++] = 0.75;
    return status;
}

static qkv_status open_model(job *j, const char *dir)
{
    qkv_context *ctx = j->c->ctx;
    qkv_status status = qkv_hub_load(&j->model, ctx, dir);
    if (!status && !eval_takes_reconstruct(j->model))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s does not fill in hidden patches", dir,
                        qkv_model_type_architecture(qkv_model_type_of(j->model)));
    if (!status)
        status = qkv_tape_create(&j->tape, ctx);
    if (status)
        return status;
    const qkv_mae_config *c = qkv_model_config(j->model);
    j->side = c->trunk.image;
    j->channels = c->trunk.channels;
    j->zoom = j->side < TILE ? TILE / j->side : 1;
    size_t bytes = j->side * j->side * j->channels;
    j->hidden = qkv_malloc(ctx, bytes);
    j->filled = qkv_malloc(ctx, bytes);
    return j->hidden && j->filled ? QKV_OK : QKV_E_MEMORY;
}

/* ---- the sheet ------------------------------------------------------------------------------ */

static qkv_status make_sheet(job *j, size_t count)
{
    size_t tile = j->side * j->zoom;
    qkv_status status = qkv_image_create(&j->sheet, j->c->ctx, COLUMNS * (tile + GAP) + GAP,
                                         count * (tile + GAP) + GAP, j->channels);
    if (!status)
        memset(j->sheet.data, WHITE, j->sheet.width * j->sheet.height * j->channels);
    return status;
}

static void put_tile(job *j, size_t row, size_t column, const uint8_t *picture)
{
    size_t tile = j->side * j->zoom, n = j->channels;
    for (size_t y = 0; y < tile; y++)
        for (size_t x = 0; x < tile; x++) {
            size_t to = (GAP + row * (tile + GAP) + y) * j->sheet.width + GAP +
                        column * (tile + GAP) + x;
            memcpy(j->sheet.data + to * n,
                   picture + (y / j->zoom * j->side + x / j->zoom) * n, n);
        }
}

/* The picture's rows, one for each share. */
static qkv_status show(job *j, const char *path, size_t first)
{
    qkv_context *ctx = j->c->ctx;
    qkv_pixels_options o = qkv_pixels_defaults();
    qkv_image image = {0};
    o.height = o.width = j->side;
    o.channels = j->channels;
    o.fit = QKV_FIT_CROP;
    qkv_status status = qkv_image_read(&image, ctx, path, NULL);
    if (!status)
        status = qkv_image_fit(&image, ctx, &o);
    for (size_t i = 0; i < j->ratio_count && !status; i++) {
        status = qkv_reconstruct(j->model, j->tape, image.data, j->ratios[i],
                                 j->c->common.seed, j->s.paste, j->hidden, j->filled);
        if (status)
            break;
        put_tile(j, first + i, 0, image.data);
        put_tile(j, first + i, 1, j->hidden);
        put_tile(j, first + i, 2, j->filled);
    }
    qkv_image_free(&image, ctx);
    return status;
}

static int answer(const job *j)
{
    if (!j->c->common.json)
        return CLI_DONE;
    qkv_json_writer w;
    qkv_json_writer_init(&w, j->c->ctx, 0);
    qkv_json_begin_object(&w, NULL);
    qkv_json_put_string(&w, "out", j->s.out);
    qkv_json_begin_array(&w, "masks");
    for (size_t i = 0; i < j->ratio_count; i++)
        qkv_json_put_real(&w, NULL, j->ratios[i]);
    qkv_json_end_array(&w);
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 2, SIZE_MAX) || cli_png_only(c, j.s.out))
        return CLI_USAGE;
    size_t pictures = c->args.count - 1;
    qkv_status status = read_options(&j);
    if (!status)
        status = open_model(&j, c->args.items[0]);
    if (!status)
        status = make_sheet(&j, pictures * j.ratio_count);
    for (size_t i = 0; i < pictures && !status; i++)
        status = show(&j, c->args.items[1 + i], i * j.ratio_count);
    if (!status)
        status = qkv_image_write(&j.sheet, c->ctx, j.s.out);
    int code = status ? cli_error(c) : answer(&j);
    qkv_image_free(&j.sheet, c->ctx);
    qkv_free(c->ctx, j.hidden);
    qkv_free(c->ctx, j.filled);
    qkv_tape_destroy(j.tape);
    qkv_model_destroy(j.model);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {
    "qkv reconstruct runs/mae cat.png --mask 0.75 --out cat-75.png",
    "qkv reconstruct runs/mae cat.png --mask 25,75,90,98 --out cat.png",
    "qkv reconstruct runs/mae a.png b.jpg --mask 75 --paste --out both.png", NULL};

const cli_command cli_reconstruct = {
    .manual = {.name = "reconstruct", .summary = "fill in hidden parts of a picture",
               .usage = "DIR IMG... --out F.png [--mask R]", .examples = examples,
               .tables = tables,
               .text = "Hides patches of a picture, those that --seed says, and has a model of "
                       "train reconstruct fill them in. Writes what there was, what the model "
                       "saw and what it makes of it side by side, a row for every share, one "
                       "picture below the other. A model that learnt normed patches "
                       "(norm_pix_loss) is told the mean and deviation of the true ones."},
    .run = run};
