/* segment.c - `qkv train segment`: pictures and masks become a model that tells the class
 * of every pixel. */
#include "core/commands.h"
#include "eval/eval.h"
#include "use/masks.h"
#include "train/picture_job.h"
#include "model/dense.h"
#include "qkv/segment.h"

#define FIELD(member) .offset = offsetof(cli_picture_options, member)
static const qkv_option rows[] = {
    {.flag = "masks", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(masks),
     .value = "D", .help = "a picture of the same name and size for each of them, whose colours "
                           "or levels of grey are the classes"},
    {.flag = "valid-masks", .type = QKV_OPT_STRING, FIELD(valid_masks), .value = "D",
     .help = "those of --valid"},
};
static const qkv_option_table table = {"Masks", rows, sizeof rows / sizeof *rows};

enum { CHANNELS = 3 };

typedef struct {
    cli_picture_job p;
    qkv_segment_options o;
    qkv_dense_config config;
    qkv_model *old; /* what the one to be made begins with, or NULL */
} job;

static qkv_status make_model(job *j, const qkv_mask_palette *palette)
{
    cli *c = j->p.base.c;
    qkv_model **m = &j->p.base.model;
    size_t side = j->config.trunk.image;
    qkv_status status = cli_picture_given(c, "num_channels", &j->config.trunk.channels, CHANNELS);
    if (!status)
        status = cli_picture_given(c, "num_labels", &j->config.outputs, palette->count);
    if (!status)
        status = qkv_model_create(m, c->ctx, &qkv_segmenter_type, &j->config);
    if (!status)
        status = qkv_model_init(*m, c->common.seed);
    if (!status)
        status = cli_masks_label(*m, palette);
    const qkv_picture_format f = {.height = side, .width = side, .channels = CHANNELS,
                                  .resample = 2, .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    if (status)
        return status;
    qkv_model_set_pictures(*m, j->old && qkv_model_pictures(j->old) ? qkv_model_pictures(j->old)
                                                                    : &f);
    if (j->old)
        qkv_model_copy(*m, j->old);
    qkv_model_destroy(j->old);
    j->old = NULL;
    return QKV_OK;
}

/* A segmenter, or one to begin with: what cuts pictures into patches, under a new head. */
static qkv_status load_model(job *j, qkv_mask_palette *palette)
{
    cli_job *base = &j->p.base;
    qkv_status status = cli_job_load(base, &j->old);
    if (status)
        return status;
    const qkv_patches_config *trunk = cli_picture_trunk_of(j->old);
    if (qkv_model_type_of(j->old) == &qkv_segmenter_type) {
        base->model = j->old;
        j->old = NULL;
        j->config = *(const qkv_dense_config *)qkv_model_config(base->model);
        return cli_masks_of_model(palette, base->model);
    }
    if (!trunk || trunk->channels != CHANNELS || qkv_model_type_of(j->old) == &qkv_cct_type)
        return qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "--init: a qkv_segmenter, vit_mae or vit "
                         "model of pictures in colour expected, %s holds a %s", base->o.init,
                         qkv_model_type_name(qkv_model_type_of(j->old)));
    j->config.trunk = *trunk;
    return QKV_OK;
}

/* The classes of a model to be made. */
static qkv_status find_classes(const job *j, qkv_mask_palette *palette)
{
    qkv_context *ctx = j->p.base.c->ctx;
    qkv_status status = cli_masks_palette(palette, ctx, j->p.s.masks);
    if (!status && palette->count < 2)
        status = qkv__fail(ctx, QKV_E_FORMAT, "%s: masks of at least 2 colours expected, found "
                           "%zu", j->p.s.masks, palette->count);
    return status;
}

static qkv_status choose_model(job *j)
{
    qkv_vit_config sizes = {0};
    bool known = qkv_vit_preset(&qkv_vit_type, j->p.s.model, &sizes);
    return cli_picture_trunk(&j->p, known ? &sizes.trunk : NULL, &j->config.trunk);
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_mask_palette palette = {0};
    if (!j->p.s.valid != !j->p.s.valid_masks)
        return qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "--valid and --valid-masks: both expected, "
                         "found one of them");
    qkv_status status = base->o.init ? load_model(j, &palette) : choose_model(j);
    if (!status && !base->model)
        status = find_classes(j, &palette);
    if (!status)
        status = cli_picture_read(&j->p, j->config.trunk.image, CHANNELS, &palette);
    return status || base->model ? status : make_model(j, &palette);
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    const qkv_segment_data train = {j->p.train.images, j->p.train.classes};
    const qkv_segment_data valid = {j->p.valid.images, j->p.valid.classes};
    qkv_status status = qkv_task_segment(&base->task, base->model, &train,
                                         valid.images ? &valid : NULL, &j->o, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, base->o.out);
    const qkv_dense_config *config = qkv_model_config(base->model);
    const qkv_patches_config *t = &config->trunk;
    cli_job_rate(base, t->width, cli_training_rate(t->width));
    cli_picture_tell(&j->p, "%zu classes, pictures of %zu x %zu in patches of %zu",
                     config->outputs, t->image, t->image, t->patch);
    return QKV_OK;
}

static void close_job(cli_job *base)
{
    qkv_model_destroy(((job *)base)->old);
    cli_picture_close(base);
}

static const qkv_option_table *const lesson[] = {&qkv_segment_table, &qkv_augment_table, NULL};
static const char *const fixed[] = {"model", "size", NULL};
static const cli_job_type job_type = {
    .name = "segment", .takes = eval_takes_segment, .read = read_data, .write = cli_picture_write,
    .open = cli_picture_open, .begin = begin, .close = close_job, .fixed = fixed,
    .lesson = lesson};

static int run(cli *c, int argc, char **argv)
{
    job j = {.p.base.c = c};
    cli_bind(c, &cli_picture_table, &j.p.s);
    cli_bind(c, &table, &j.p.s);
    cli_bind(c, &qkv_segment_table, &j.o);
    cli_bind(c, &qkv_augment_table, &j.o.augment);
    cli_job_bind(&j.p.base);
    cli_bind(c, &qkv__segmenter_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.p.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &cli_picture_table, &table, &qkv_segment_table, &qkv_augment_table, &cli_job_table,
    &qkv_train_table, &qkv_optimizer_table, &qkv_schedule_table, &qkv__segmenter_config, NULL};
static const char *const examples[] = {
    "qkv train segment --images photos --masks masks --minutes 15 --out runs/seg",
    "qkv train segment --images a --masks b --size 64 --model mini --out runs/seg",
    "qkv train segment --images a --masks b --valid c --valid-masks d --out runs/s", NULL};

static const qkv_preset presets[] = {
    CLI_PICTURE_SIZE,
    CLI_PICTURE_MODEL,
    {"batch", "32", NULL},
    {"weight-decay", "0.05", NULL},
    {"num_conv_layers", "2", NULL},
    {"crop-pad", "4", NULL},
    {"flip", "true", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size"},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};

const cli_command cli_train_segment = {
    .manual = {.name = "train segment", .summary = "train a model to tell each pixel's class",
               .usage = "--images D --masks D --out DIR [options]", .examples = examples,
               .text = "Learns from pictures and masks, which are paired by the names of their "
                       "files without what is behind the last dot: photos/a.jpg and masks/a.png. "
                       "Each colour of the masks is a class, in the order of its number: "
                       "levels of grey are named 0 to 255, colours #rrggbb. --init goes on from "
                       "such a model, or begins with one that learnt to reconstruct or to tell "
                       "classes (vit_mae, vit). Judges on held-out pictures: mean intersection "
                       "over union of the classes (miou), by which the model is chosen; share of "
                       "the pixels (accuracy); loss. Without --steps or --minutes it takes 5 "
                       "minutes.",
               .tables = tables, .presets = presets},
    .run = run};
