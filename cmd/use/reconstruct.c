/* reconstruct.c - `qkv reconstruct`: an image, what a model sees of it, what it makes of
 * that. */
#include <stdlib.h>

#include "core/cli.h"

enum { COLUMNS = 3, GAP = 4, TILE = 192, WHITE = 255, MOST_ROWS = 64 };

typedef struct {
    qkv_strings masks;
    const char *out;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "mask", .type = QKV_OPT_LIST, FIELD(masks), .value = "R",
     .help = "share hidden, 0.75 or 75 (per cent); several: 25,75,90,98; default: 0.75"},
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out),
     .value = "F.png", .help = "where the image goes"},
};
static const qkv_option_table table = {"Filling in", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    cli *c;
    settings s;
    qkv_pipeline_reconstruct_options o;
    qkv_pipeline *p;
    double ratios[MOST_ROWS];
    size_t ratio_count;
    qkv_sheet sheet; /* of all images, a row for each share */
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
        j->ratios[j->ratio_count++] = j->o.mask;
    j->o.seed = j->c->common.seed;
    return status;
}

/* The first one says of what size all are. */
static qkv_status use_reconstruct_put_row(job *j, size_t row, const qkv_reconstruction *r)
{
    const qkv_image *const tiles[COLUMNS] = {&r->image, &r->hidden, &r->filled};
    size_t side = r->image.width, count = (j->c->args.count - 1) * j->ratio_count;
    if (!j->sheet.image.data) {
        j->sheet = (qkv_sheet){.height = side, .width = side, .gap = GAP, .margin = GAP,
                               .zoom = side < TILE ? TILE / side : 1};
        qkv_status status = qkv_sheet_create(&j->sheet, j->c->ctx, count, COLUMNS,
                                             r->image.channels, WHITE);
        if (status)
            return status;
    }
    for (size_t i = 0; i < COLUMNS; i++)
        qkv_sheet_put(&j->sheet, row, i, tiles[i]->data, tiles[i]->channels);
    return QKV_OK;
}

/* Image number i's rows, one for each share. */
static qkv_status reconstruct_show(job *j, size_t i)
{
    qkv_image image;
    const qkv_image_source in = {.image = &image};
    qkv_status status = qkv_image_read(&image, j->c->ctx, j->c->args.items[1 + i], NULL);
    for (size_t k = 0; k < j->ratio_count && !status; k++) {
        qkv_reconstruction r;
        j->o.mask = j->ratios[k];
        status = qkv_pipeline_reconstruct(j->p, &in, &j->o, &r);
        if (!status)
            status = use_reconstruct_put_row(j, i * j->ratio_count + k, &r);
        qkv_reconstruction_free(&r);
    }
    qkv_image_free(&image, j->c->ctx);
    return status;
}

static int reconstruct_answer(const job *j)
{
    if (!j->c->common.json)
        return CLI_DONE;
    qkv_json_writer w = cli_object(j->c);
    qkv_json_put_string(&w, "out", j->s.out);
    qkv_json_put_reals(&w, "masks", j->ratios, j->ratio_count);
    return cli_answer(j->c, &w);
}

static int reconstruct_run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.s);
    cli_bind(c, qkv_pipeline_reconstruct_table(), &j.o);
    int refused = cli_parse(c, argc, argv, 2, SIZE_MAX);
    if (!refused)
        refused = cli_png_only(c, j.s.out);
    if (refused)
        return refused;
    qkv_status status = read_options(&j);
    if (!status)
        status = qkv_pipeline_open_with(&j.p, c->ctx, c->args.items[0], &c->opening);
    for (size_t i = 0; i < c->args.count - 1 && !status; i++)
        status = reconstruct_show(&j, i);
    if (!status)
        status = qkv_image_write(&j.sheet.image, c->ctx, j.s.out);
    int code = status ? cli_error(c) : reconstruct_answer(&j);
    qkv_image_free(&j.sheet.image, c->ctx);
    qkv_pipeline_close(j.p);
    return code;
}

static const char *const examples[] = {
    "qkv reconstruct runs/mae cat.png --mask 0.75 --out cat-75.png",
    "qkv reconstruct runs/mae cat.png --mask 25,75,90,98 --out cat.png",
    "qkv reconstruct runs/mae a.png b.jpg --mask 75 --paste --out both.png", NULL};

CLI_COMMAND(cli_reconstruct, 470) = {
    .manual = {.name = "reconstruct", .summary = "fill in hidden parts of an image",
               .usage = "DIR IMG... --out F.png [--mask R]", .examples = examples,
               .text = "Hides patches of an image, those that --seed says, and has a model of "
                       "train reconstruct fill them in. Writes what there was, what the model "
                       "saw and what it makes of it side by side, a row for every share, one "
                       "image below the other. A model that learnt normed patches "
                       "(norm_pix_loss) is told the mean and standard deviation of the true ones."},
    .library[CLI_BEHIND] = qkv_pipeline_reconstruct_table, .own = {&table},
    .opens = true, .run = reconstruct_run};
