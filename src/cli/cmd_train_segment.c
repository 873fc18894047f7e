/* cmd_train_segment.c - `qkv train segment`: pictures and masks become a model that tells the class
 * of every pixel. */
#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/masks.h"
#include "cli/pixels.h"
#include "model/dense.h"
#include "qkv/segment.h"

#define TRAIN_MASKS "train/train-masks.pixels"
#define VALID_MASKS "train/valid-masks.pixels"

typedef struct {
    const char *masks, *valid_masks;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "masks", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(masks),
     .value = "D", .help = "a picture of the same name and size for each of them, whose colours "
                           "or levels of grey are the classes"},
    {.flag = "valid-masks", .type = QKV_OPT_STRING, FIELD(valid_masks), .value = "D",
     .help = "those of --valid"},
};
static const qkv_option_table table = {"Masks", rows, sizeof rows / sizeof *rows};

typedef struct {
    cli_job base;
    cli_pixels_options s;
    settings m;
    qkv_segment_options o;
    qkv_dense_config config;
    cli_masks all, held; /* as read */
    qkv_held_out split;
    cli_masks train, valid; /* in OUT/train */
} job;

static qkv_status make_model(job *j, const qkv_mask_palette *palette, size_t side)
{
    cli *c = j->base.c;
    qkv_model **m = &j->base.model;
    qkv_status status = cli_pixels_trunk(c, &j->s, side, &j->config.trunk);
    j->config.trunk.channels = 3;
    j->config.outputs = palette->count;
    if (!status && palette->count < 2)
        status = qkv__fail(c->ctx, QKV_E_FORMAT, "%s: masks of at least 2 colours expected, found "
                           "%zu", j->m.masks, palette->count);
    if (!status)
        status = qkv_model_create(m, c->ctx, &qkv_segmenter_type, &j->config);
    if (!status)
        status = qkv_model_init(*m, c->common.seed);
    if (!status)
        status = cli_masks_label(*m, palette);
    const qkv_picture_format f = {.height = side, .width = side, .channels = 3, .resample = 2,
                                  .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    if (!status)
        qkv_model_set_pictures(*m, &f);
    return status;
}

/* The side and the palette of the model that is there, or is to be made. */
static qkv_status settle(job *j, size_t *side, qkv_mask_palette *palette)
{
    cli_job *base = &j->base;
    qkv_context *ctx = base->c->ctx;
    if (!base->o.init) {
        qkv_status status = cli_pixels_side(side, base->c, &j->s);
        return status ? status : cli_masks_palette(palette, ctx, j->m.masks);
    }
    qkv_status status = qkv_hub_load(&base->model, ctx, base->o.init);
    if (!status && qkv_model_type_of(base->model) != &qkv_segmenter_type)
        return qkv__fail(ctx, QKV_E_ARGUMENT, "--init: a qkv_segmenter model expected, %s holds "
                         "a %s", base->o.init,
                         qkv_model_type_name(qkv_model_type_of(base->model)));
    if (!status)
        *side = ((const qkv_dense_config *)qkv_model_config(base->model))->trunk.image;
    return status ? status : cli_masks_of_model(palette, base->model);
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    size_t side = 0;
    qkv_mask_palette palette = {0};
    if (!j->s.valid != !j->m.valid_masks)
        return qkv__fail(c->ctx, QKV_E_ARGUMENT, "--valid and --valid-masks: both expected, found "
                         "one of them");
    qkv_status status = settle(j, &side, &palette);
    if (!status)
        status = cli_masks_read(&j->all, c, j->s.images, j->m.masks, &palette, side);
    if (!status)
        status = cli_pixels_split(&j->split, c, &j->s, j->all.images);
    if (!status && j->s.valid)
        status = cli_masks_read(&j->held, c, j->s.valid, j->m.valid_masks, &palette, side);
    return status || base->o.init ? status : make_model(j, &palette, side);
}

static qkv_status write_part(const cli_job *base, cli_masks *out, const cli_masks *from,
                             const char *images, const char *classes, const size_t *numbers,
                             size_t count)
{
    qkv_status status =
        cli_pixels_write(&out->images, base, images, from->images, numbers, count);
    return status ? status : cli_pixels_write(&out->classes, base, classes, from->classes,
                                              numbers, count);
}

static qkv_status write_data(cli_job *base)
{
    job *j = (job *)base;
    const qkv_held_out *s = &j->split;
    qkv_status status = write_part(base, &j->train, &j->all, CLI_PIXELS_TRAIN, TRAIN_MASKS,
                                   s->train, s->train_count);
    if (!status && s->valid_count)
        status = write_part(base, &j->valid, &j->all, CLI_PIXELS_VALID, VALID_MASKS, s->valid,
                            s->valid_count);
    if (!status && j->held.images)
        status = write_part(base, &j->valid, &j->held, CLI_PIXELS_VALID, VALID_MASKS, NULL,
                            qkv_pixels_count(j->held.images));
    return status;
}

static qkv_status open_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_status status = cli_pixels_open(&j->train.images, base, CLI_PIXELS_TRAIN, true);
    if (!status)
        status = cli_pixels_open(&j->train.classes, base, TRAIN_MASKS, true);
    if (!status)
        status = cli_pixels_open(&j->valid.images, base, CLI_PIXELS_VALID, false);
    if (!status && j->valid.images)
        status = cli_pixels_open(&j->valid.classes, base, VALID_MASKS, true);
    return status;
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    const qkv_segment_data train = {j->train.images, j->train.classes};
    const qkv_segment_data valid = {j->valid.images, j->valid.classes};
    qkv_status status = qkv_task_segment(&base->task, base->model, &train,
                                         valid.images ? &valid : NULL, &j->o, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, base->o.out);
    const qkv_dense_config *config = qkv_model_config(base->model);
    cli_job_rate(base, config->trunk.width, cli_training_rate(config->trunk.width));
    cli_note(c, "%s, %zu parameters, %zu classes, pictures of %zu x %zu in patches of %zu; %zu "
             "pictures to learn from, %zu held out",
             qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), config->outputs,
             config->trunk.image, config->trunk.image, config->trunk.patch,
             qkv_pixels_count(train.images), valid.images ? qkv_pixels_count(valid.images) : 0);
    return QKV_OK;
}

static void close_data(cli_job *base)
{
    job *j = (job *)base;
    cli_masks *const all[] = {&j->all, &j->held, &j->train, &j->valid};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cli_masks_close(all[i]);
    qkv_held_out_free(&j->split);
}

static const char *const fixed[] = {"model", "size", NULL};
static const cli_job_type job_type = {
    .name = "segment", .takes = eval_takes_segment, .read = read_data, .write = write_data,
    .open = open_data, .begin = begin, .close = close_data, .fixed = fixed};

static int run(cli *c, int argc, char **argv)
{
    job j = {.base.c = c};
    cli_bind(c, &cli_pixels_table, &j.s);
    cli_bind(c, &table, &j.m);
    cli_bind(c, &qkv_segment_table, &j.o);
    cli_job_bind(&j.base);
    cli_bind(c, &qkv__segmenter_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &cli_pixels_table, &table, &qkv_segment_table, &cli_job_table, &qkv_train_table,
    &qkv_optimizer_table, &qkv_schedule_table, &qkv__segmenter_config, NULL};
static const char *const examples[] = {
    "qkv train segment --images photos --masks masks --minutes 15 --out runs/seg",
    "qkv train segment --images a --masks b --size 64 --model mini --out runs/seg",
    "qkv train segment --images a --masks b --valid c --valid-masks d --out runs/s", NULL};

static const qkv__preset presets[] = {
    {"batch", "32", NULL},
    {"weight-decay", "0.05", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size"},
    {"minutes", NULL, "5 without --steps"},
    {NULL, NULL, NULL},
};

const cli_command cli_train_segment = {
    .manual = {.name = "train segment", .summary = "train a model to tell each pixel's class",
               .usage = "--images D --masks D --out DIR [options]", .examples = examples,
               .text = "Learns from pictures and masks, which are paired by the names of their "
                       "files without what is behind the last dot: photos/a.jpg and masks/a.png. "
                       "Each colour of the masks is a class, in the order of its number: "
                       "levels of grey are named 0 to 255, colours #rrggbb. Judges on held-out "
                       "pictures: mean intersection over union of the classes (miou), by which "
                       "the model is chosen; share of the pixels (accuracy); loss. Without "
                       "--steps or --minutes it takes 5 minutes.",
               .tables = tables, .presets = presets},
    .run = run};
