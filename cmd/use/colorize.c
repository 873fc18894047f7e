/* colorize.c - `qkv colorize`: an image in the colours that a model gives it, and where a
 * patch of it looked for them. */
#include <stdio.h>
#include <string.h>

#include "core/cli.h"

typedef struct {
    const char *out;
} settings;

static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED,
     .offset = offsetof(settings, out), .value = "F.png", .help = "the coloured image"},
};
static const qkv_option_table table = {"Colouring", rows, sizeof rows / sizeof *rows, 0};

/* Beside the coloured image: F-WHAT.png; nothing if there is no such image. */
static qkv_status write_beside(const cli *c, const qkv_image *image, const char *out,
                               const char *what)
{
    if (!image->data)
        return QKV_OK;
    qkv_str path;
    size_t stem = strlen(out);
    stem -= stem > 4 && strcmp(out + stem - 4, ".png") == 0 ? 4 : 0;
    qkv_str_init(&path, c->ctx);
    qkv_str_printf(&path, "%.*s-%s.png", (int)stem, out, what);
    qkv_status status = path.data ? qkv_image_write(image, c->ctx, path.data) : QKV_E_MEMORY;
    qkv_str_free(&path);
    return status;
}

static int colorize_answer_json(const cli *c, const qkv_colorization *found, const char *out)
{
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "file", c->args.items[1]);
    qkv_json_put_string(&w, "out", out);
    if (found->attention.data) {
        qkv_json_begin_array(&w, "attention");
        for (size_t i = 0; i < found->attended_count; i++) {
            qkv_json_begin_object(&w, NULL);
            qkv_json_put_int(&w, "x", (int64_t)found->attended[i].x);
            qkv_json_put_int(&w, "y", (int64_t)found->attended[i].y);
            qkv_json_put_real(&w, "weight", found->attended[i].weight);
            qkv_json_end_object(&w);
        }
        qkv_json_end_array(&w);
    }
    return cli_answer(c, &w);
}

static int colorize_answer(const cli *c, const qkv_colorization *found, const char *out)
{
    if (c->common.json)
        return colorize_answer_json(c, found, out);
    for (size_t i = 0; i < found->attended_count; i++) {
        const qkv_attended *a = &found->attended[i];
        printf("%s%.2f of the patch at %zu,%zu%s", i ? ", " : "", a->weight, a->x, a->y,
               a->itself ? " (itself)" : "");
    }
    if (found->attention.data)
        printf("\n");
    return CLI_DONE;
}

static int colorize_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_pipeline_colorize_options o;
    qkv_colorization found = {0};
    qkv_pipeline *p = NULL;
    cli_bind(c, &table, &s);
    cli_bind(c, qkv_pipeline_colorize_table(), &o);
    int refused = cli_parse(c, argc, argv, 2, 2);
    if (!refused)
        refused = cli_png_only(c, s.out);
    if (refused)
        return refused;
    const qkv_image_source in = {.path = c->args.items[1]};
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = qkv_pipeline_colorize(p, &in, &o, &found);
    if (!status)
        status = qkv_image_write(&found.image, c->ctx, s.out);
    if (!status)
        status = write_beside(c, &found.attention, s.out, "attention");
    if (!status)
        status = write_beside(c, &found.seen, s.out, "seen");
    int code = status ? cli_error(c) : colorize_answer(c, &found, s.out);
    qkv_colorization_free(&found);
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {
    "qkv colorize runs/color old.jpg --out new.png",
    "qkv colorize runs/color old.jpg --hint 12,40,#c03020 --out new.png",
    "qkv colorize runs/color photo.png --missing 20,30,40,40 --out whole.png",
    "qkv colorize runs/color old.jpg --attention 12,40 --out new.png", NULL};

CLI_COMMAND(cli_colorize, 440) = {
    .manual = {.name = "colorize", .summary = "give an image colours",
               .usage = "DIR IMG [--hint X,Y,#RRGGBB]... --out F.png", .examples = examples,
               .text = "Reads the image's lightness alone. Colours are made at the size that "
                       "the model was trained on and stretched over the image; a hint colours "
                       "a cell of it, a 16th of its side. --missing and --mask name a "
                       "part that has lost its colours: all others are kept, and their cells are "
                       "hints; F-seen.png is the image as the model saw it. (Train with --hints "
                       "256 for that: so many cells are known.) --attention lists the patches that "
                       "the "
                       "patch at a pixel mixed, with their weights (the mean over the heads), and "
                       "paints them. --json: {\"file\", \"out\", \"attention\": [{\"x\", \"y\", "
                       "\"weight\"}, ...]}, places as pixels of the image."},
    .library[CLI_BEHIND] = qkv_pipeline_colorize_table, .own = {&table},
    .opens = true, .run = colorize_run};
