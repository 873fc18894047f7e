/* segment.c - `qkv segment`: the class of every pixel of an image, as an image. */
#include <stdio.h>

#include "core/cli.h"

typedef struct {
    const char *out;
} settings;

static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED,
     .offset = offsetof(settings, out), .value = "F.png", .help = "the classes as colours"},
};
static const qkv_option_table table = {"Segmenting", rows, sizeof rows / sizeof *rows, 0};

static int segment_answer_json(cli *c, qkv_pipeline *p, const qkv_segmentation *s, const char *out)
{
    qkv_json_writer w = cli_object(c);
    qkv_json_put_string(&w, "file", c->args.items[1]);
    qkv_json_put_string(&w, "out", out);
    qkv_json_begin_object(&w, "pixels");
    for (size_t i = 0; i < s->classes; i++)
        qkv_json_put_int(&w, qkv_pipeline_label(p, i), (int64_t)s->pixels[i]);
    qkv_json_end_object(&w);
    return cli_answer(c, &w);
}

static int segment_answer(qkv_pipeline *p, const qkv_segmentation *s, bool colors)
{
    for (size_t i = 0; i < s->classes; i++) {
        const uint8_t *rgb = s->color[i];
        if (colors)
            printf("%-12s%-10zu#%02x%02x%02x\n", qkv_pipeline_label(p, i), s->pixels[i], rgb[0],
                   rgb[1], rgb[2]);
        else
            printf("%-12s%zu\n", qkv_pipeline_label(p, i), s->pixels[i]);
    }
    return CLI_DONE;
}

static int segment_run(cli *c, int argc, char **argv)
{
    settings s;
    qkv_pipeline_segment_options o;
    qkv_segmentation found = {0};
    qkv_pipeline *p = NULL;
    cli_bind(c, &table, &s);
    cli_bind(c, qkv_pipeline_segment_table(), &o);
    int refused = cli_parse(c, argc, argv, 2, 2);
    if (!refused)
        refused = cli_png_only(c, s.out);
    if (refused)
        return refused;
    const qkv_image_source in = {.path = c->args.items[1]};
    qkv_status status = qkv_pipeline_open_with(&p, c->ctx, c->args.items[0], &c->opening);
    if (!status)
        status = qkv_pipeline_segment(p, &in, &o, &found);
    if (!status)
        status = qkv_image_write(&found.image, c->ctx, s.out);
    int code = status ? cli_error(c) : c->common.json ? segment_answer_json(c, p, &found, s.out)
                                                      : segment_answer(p, &found, !o.mask);
    qkv_segmentation_free(&found);
    qkv_pipeline_close(p);
    return code;
}

static const char *const examples[] = {"qkv segment runs/seg photo.jpg --out classes.png",
                                       "qkv segment runs/seg photo.jpg --out c.png --json", NULL};

CLI_COMMAND(cli_segment, 450) = {
    .manual = {.name = "segment", .summary = "tell the class of every pixel",
               .usage = "DIR IMG --out F.png [options]", .examples = examples,
               .text = "Writes an image of the same size with a colour for each class, and "
                       "prints how many pixels each class has, and its colour. --json: {\"file\", "
                       "\"out\", \"pixels\": {class: count}}."},
    .library[CLI_BEHIND] = qkv_pipeline_segment_table, .own = {&table},
    .opens = true, .run = segment_run};
