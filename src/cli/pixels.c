/* pixels.c - pictures to train on. */
#include "cli/pixels.h"

#include "cli/texts.h"
#include "io/file.h"

enum { MOST_SIDE = 64, STEP = 8 };

static const char *const splits[] = {"auto", "last", "class", "name", NULL};
#define FIELD(member) .offset = offsetof(cli_pixels_options, member)
static const qkv_option rows[] = {
    {.flag = "images", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(images),
     .value = "D", .help = "pictures: a folder, a tar or idx file"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "DATA",
     .help = "pictures to judge on, never trained on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: pictures or share held out"},
    {.flag = "split", .type = QKV_OPT_ENUM, FIELD(split), .names = splits, .initial = "auto",
     .help = "which: the last, the last of each class, files whose names begin alike"},
    {.flag = "size", .type = QKV_OPT_SIZE, .max = 4096, FIELD(size), .initial = "0",
     .help = "side of the pictures in pixels; 0: the first one's, at most 64"},
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET", .initial = "micro",
     .help = "size: nano micro mini tiny small base large"},
};
const qkv_option_table cli_pixels_table = {"Pictures", rows, sizeof rows / sizeof *rows};

void cli_reading_begin(cli_reading *r, cli *c)
{
    *r = (cli_reading){.c = c};
    cli_progress_begin(&r->line, c, "reading", "pictures", 0);
}

bool cli_reading_show(void *user, const qkv_pixels_event *event)
{
    cli_reading *r = user;
    if (event->bad) {
        cli_progress_hide(&r->line);
        cli_note(r->c, "%s: left out", event->bad);
    }
    r->skipped = event->skipped;
    r->count = event->count;
    cli_progress_show(&r->line, event->done, event->count, NULL);
    return !cli_stopped();
}

void cli_reading_end(cli_reading *r, const char *path)
{
    cli_progress_end(&r->line);
    if (r->skipped)
        cli_note(r->c, "%s: %zu of %zu pictures could not be read", path, r->skipped, r->count);
}

qkv_status cli_pixels_read(qkv_pixels **out, cli *c, const char *path, size_t side,
                           size_t channels)
{
    qkv_pixels_options o = qkv_pixels_defaults();
    o.height = o.width = side;
    o.channels = channels;
    o.fit = QKV_FIT_CROP;
    qkv_pictures *pictures = NULL;
    cli_reading r;
    *out = NULL;
    qkv_status status = qkv_pictures_open(&pictures, c->ctx, path);
    if (status)
        return status;
    cli_reading_begin(&r, c);
    status = qkv_pixels_read(out, c->ctx, pictures, NULL, &o, cli_reading_show, &r);
    cli_reading_end(&r, path);
    qkv_pictures_close(pictures);
    return status;
}

qkv_status cli_pixels_side(size_t *side, cli *c, const cli_pixels_options *o)
{
    *side = o->size;
    if (*side)
        return QKV_OK;
    qkv_pictures *pictures = NULL;
    qkv_image image = {0};
    qkv_status status = qkv_pictures_open(&pictures, c->ctx, o->images), bad = QKV_E_FORMAT;
    for (size_t i = 0; !status && bad && i < qkv_pictures_count(pictures); i++)
        bad = qkv_pictures_read(pictures, i, &image, NULL);
    size_t shorter = image.width < image.height ? image.width : image.height;
    *side = shorter < MOST_SIDE ? shorter / STEP * STEP : MOST_SIDE;
    *side = *side ? *side : STEP;
    qkv_image_free(&image, c->ctx);
    qkv_pictures_close(pictures);
    return status ? status : bad;
}

qkv_status cli_pixels_split(qkv_held_out *out, cli *c, const cli_pixels_options *o,
                            const qkv_pixels *all)
{
    size_t held = 0, count = qkv_pixels_count(all);
    *out = (qkv_held_out){.ctx = c->ctx};
    qkv_status status = o->valid ? QKV_OK
                                 : cli_held_out(c, o->valid_last, count, "pictures", &held);
    if (status)
        return status;
    if (held)
        return qkv_pixels_split(out, c->ctx, all, held, (qkv_held_out_by)o->split, false);
    out->train = qkv__calloc(c->ctx, count, sizeof *out->train);
    if (!out->train)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < count; i++)
        out->train[out->train_count++] = i;
    return QKV_OK;
}

qkv_status cli_pixels_write(qkv_pixels **out, const cli_job *j, const char *name,
                            const qkv_pixels *from, const size_t *numbers, size_t count)
{
    qkv_pixels_writer *w = NULL;
    char *path = cli_job_path(j, name);
    qkv_status status = path ? qkv_pixels_create(&w, j->c->ctx, path, qkv_pixels_height(from),
                                                 qkv_pixels_width(from),
                                                 qkv_pixels_channels(from))
                             : QKV_E_MEMORY;
    for (size_t i = 0; i < count && !status; i++)
        status = qkv_pixels_add(w, qkv_pixels_data(from, numbers ? numbers[i] : i), -1,
                                qkv_pixels_name(from, numbers ? numbers[i] : i));
    if (status)
        qkv_pixels_abandon(w);
    else
        status = qkv_pixels_finish(w, out);
    qkv__free(j->c->ctx, path);
    return status;
}

qkv_status cli_pixels_open(qkv_pixels **out, const cli_job *j, const char *name, bool required)
{
    char *path = cli_job_path(j, name);
    *out = NULL;
    qkv_status status = path ? QKV_OK : QKV_E_MEMORY;
    if (!status && (required || qkv__file_exists(path)))
        status = qkv_pixels_open(out, j->c->ctx, path);
    qkv__free(j->c->ctx, path);
    return status;
}

/* The smallest that cuts the side into at most 8. */
static size_t patch_of(size_t side)
{
    size_t patch = 1;
    while (side % patch || side / patch > STEP)
        patch++;
    return patch;
}

qkv_status cli_pixels_trunk(cli *c, const cli_pixels_options *o, size_t side,
                            qkv_patches_config *trunk)
{
    qkv_vit_config sizes = {0};
    if (!qkv_vit_preset(&qkv_vit_type, o->model, &sizes))
        return qkv__fail(c->ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", o->model);
    if (!qkv_options_given(c->options, "hidden_size"))
        trunk->width = sizes.trunk.width;
    if (!qkv_options_given(c->options, "num_hidden_layers"))
        trunk->layers = sizes.trunk.layers;
    if (!qkv_options_given(c->options, "num_attention_heads"))
        trunk->heads = sizes.trunk.heads;
    if (!qkv_options_given(c->options, "patch_size"))
        trunk->patch = patch_of(side);
    trunk->image = side;
    return QKV_OK;
}
