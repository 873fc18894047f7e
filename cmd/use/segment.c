/* segment.c - `qkv segment`: the class of every pixel of a picture, as a picture. */
#include <stdio.h>
#include <string.h>

#include "core/commands.h"
#include "pipeline/masks.h"
#include "use/painting.h"
#include "qkv/hub.h"
#include "qkv/image_file.h"
#include "qkv/segment.h"

typedef struct {
    const char *out;
    bool mask;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "out", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(out),
     .value = "F.png", .help = "the classes as colours"},
    {.flag = "mask", .type = QKV_OPT_BOOL, FIELD(mask),
     .help = "write them in the colours of the masks in training, not in ones that differ well"},
};
static const qkv_option_table table = {"Segmenting", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli *c;
    settings s;
    qkv_model *model;
    qkv_tape *tape;
    qkv_image in, out;
    uint8_t *classes; /* (height, width) of in */
    size_t counts[QKV_MASK_CLASSES];
} job;

static const char *label(const job *j, size_t i, char room[32])
{
    if (i < qkv_model_label_count(j->model))
        return qkv_model_label(j->model, i);
    (void)snprintf(room, 32, "LABEL_%zu", i); /* Hugging Face's name for one without */
    return room;
}

static qkv_status paint(job *j)
{
    qkv_context *ctx = j->c->ctx;
    qkv_mask_palette palette = {0};
    qkv_status status = j->s.mask ? qkv__masks_of_model(&palette, j->model) : QKV_OK;
    if (!status)
        status = qkv_image_create(&j->out, ctx, j->in.width, j->in.height, 3);
    for (size_t i = 0; i < j->in.width * j->in.height && !status; i++) {
        size_t class_ = j->classes[i];
        uint8_t *pixel = j->out.data + 3 * i;
        j->counts[class_]++;
        cli_class_color(class_, pixel);
        for (int k = 0; k < 3 && j->s.mask; k++)
            pixel[k] = (uint8_t)(palette.color[class_] >> (16 - 8 * k));
    }
    return status ? status : qkv_image_write(&j->out, ctx, j->s.out);
}

static qkv_status segment(job *j)
{
    qkv_context *ctx = j->c->ctx;
    const char *dir = j->c->args.items[0];
    qkv_status status = qkv_hub_load(&j->model, ctx, dir);
    if (!status && qkv_model_type_of(j->model) != &qkv_segmenter_type)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "%s: a %s model does not tell pixels' classes",
                          dir, qkv_model_type_name(qkv_model_type_of(j->model)));
    if (!status)
        status = qkv_image_read(&j->in, ctx, j->c->args.items[1], NULL);
    if (!status)
        status = qkv_tape_create(&j->tape, ctx);
    if (!status) {
        j->classes = qkv_calloc(ctx, j->in.height, j->in.width);
        status = j->classes ? QKV_OK : QKV_E_MEMORY;
    }
    if (!status)
        status = qkv_segment(j->classes, j->model, j->tape, &j->in);
    return status ? status : paint(j);
}

static int answer(const job *j)
{
    size_t classes = ((const qkv_dense_config *)qkv_model_config(j->model))->outputs;
    char room[32];
    qkv_json_writer w;
    if (j->c->common.json) {
        qkv_json_writer_init(&w, j->c->ctx, 0);
        qkv_json_begin_object(&w, NULL);
        qkv_json_put_string(&w, "file", j->c->args.items[1]);
        qkv_json_put_string(&w, "out", j->s.out);
        qkv_json_begin_object(&w, "pixels");
    }
    for (size_t i = 0; i < classes; i++) {
        uint8_t rgb[3];
        cli_class_color(i, rgb);
        if (j->c->common.json)
            qkv_json_put_int(&w, label(j, i, room), (int64_t)j->counts[i]);
        else if (j->s.mask)
            printf("%-12s%zu\n", label(j, i, room), j->counts[i]);
        else
            printf("%-12s%-10zu#%02x%02x%02x\n", label(j, i, room), j->counts[i], rgb[0], rgb[1],
                   rgb[2]);
    }
    if (!j->c->common.json)
        return CLI_DONE;
    qkv_json_end_object(&w);
    qkv_json_end_object(&w);
    return cli_answer(j->c, &w);
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.c = c};
    cli_bind(c, &table, &j.s);
    if (cli_parse(c, argc, argv, 2, 2) || cli_png_only(c, j.s.out))
        return CLI_USAGE;
    int code = segment(&j) ? cli_error(c) : answer(&j);
    qkv_image_free(&j.in, c->ctx);
    qkv_image_free(&j.out, c->ctx);
    qkv_free(c->ctx, j.classes);
    qkv_tape_destroy(j.tape);
    qkv_model_destroy(j.model);
    return code;
}

static const qkv_option_table *const tables[] = {&table, NULL};
static const char *const examples[] = {"qkv segment runs/seg photo.jpg --out classes.png",
                                       "qkv segment runs/seg photo.jpg --out c.png --json", NULL};

const cli_command cli_segment = {
    .manual = {.name = "segment", .summary = "tell the class of every pixel",
               .usage = "DIR IMG --out F.png [options]", .examples = examples, .tables = tables,
               .text = "Writes a picture of the same size with a colour for each class, and "
                       "prints how many pixels each class has, and its colour. --json: {\"file\", "
                       "\"out\", \"pixels\": {class: count}}."},
    .run = run};
