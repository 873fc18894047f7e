/* colorize.c - `qkv train colorize`: colour pictures become a model that colours grey
 * ones. */
#include "core/commands.h"
#include "eval/eval.h"
#include "train/picture_job.h"
#include "model/dense.h"
#include "qkv/colorize.h"

enum { CHANNELS = 3 };

typedef struct {
    cli_picture_job p;
    qkv_colorize_options o;
    qkv_dense_config config;
} job;

static qkv_status make_model(job *j)
{
    cli *c = j->p.base.c;
    const qkv_held_out *s = &j->p.split;
    double mean[2];
    qkv_status status =
        qkv_colorize_mean(c->ctx, j->p.all.images, s->train, s->train_count, mean);
    if (status)
        return status;
    if (!qkv_options_given(c->options, "mean_a"))
        j->config.mean_a = mean[0];
    if (!qkv_options_given(c->options, "mean_b"))
        j->config.mean_b = mean[1];
    if (!qkv_options_given(c->options, "num_channels"))
        j->config.trunk.channels = QKV_COLORIZER_INPUTS;
    status = qkv_model_create(&j->p.base.model, c->ctx, &qkv_colorizer_type, &j->config);
    return status ? status : qkv_model_init(j->p.base.model, c->common.seed);
}

static qkv_status load_model(job *j)
{
    cli_job *base = &j->p.base;
    qkv_status status = cli_job_load(base, &base->model);
    if (!status && qkv_model_type_of(base->model) != &qkv_colorizer_type)
        return qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "%s: a %s model does not colour pictures",
                         base->o.init, qkv_model_type_name(qkv_model_type_of(base->model)));
    if (!status)
        j->config = *(const qkv_dense_config *)qkv_model_config(base->model);
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
    qkv_status status = base->o.init ? load_model(j) : choose_model(j);
    if (!status)
        status = cli_picture_read(&j->p, j->config.trunk.image, CHANNELS, NULL);
    return status || base->o.init ? status : make_model(j);
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_status status = qkv_task_colorize(&base->task, base->model, j->p.train.images,
                                          j->p.valid.images, &j->o, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, base->o.out);
    const qkv_dense_config *config = qkv_model_config(base->model);
    const qkv_patches_config *t = &config->trunk;
    cli_job_rate(base, t->width, cli_training_rate(t->width));
    cli_picture_tell(&j->p, "pictures of %zu x %zu in patches of %zu, hints of %zu", t->image,
                     t->image, t->patch, config->cell);
    return QKV_OK;
}

static const qkv_option_table *const lesson[] = {&qkv_colorize_table, &qkv_augment_table, NULL};
static const char *const fixed[] = {"model", "size", NULL};
static const cli_job_type job_type = {
    .name = "colorize", .takes = eval_takes_colorize, .read = read_data, .write = cli_picture_write,
    .open = cli_picture_open, .begin = begin, .close = cli_picture_close, .fixed = fixed,
    .lesson = lesson};

static int run(cli *c, int argc, char **argv)
{
    job j = {.p.base.c = c};
    cli_bind(c, &cli_picture_table, &j.p.s);
    cli_bind(c, &qkv_colorize_table, &j.o);
    cli_bind(c, &qkv_augment_table, &j.o.augment);
    cli_job_bind(&j.p.base);
    cli_bind(c, &qkv__colorizer_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.p.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &cli_picture_table, &qkv_colorize_table, &qkv_augment_table, &cli_job_table,
    &qkv_train_table, &qkv_optimizer_table, &qkv_schedule_table, &qkv__colorizer_config, NULL};
static const char *const examples[] = {
    "qkv train colorize --images photos --minutes 15 --out runs/color",
    "qkv train colorize --images emoji --split name --size 64 --out runs/emoji",
    "qkv train colorize --images photos --minutes 15 --out runs/color --resume", NULL};

static const qkv_preset presets[] = {
    CLI_PICTURE_SIZE,
    CLI_PICTURE_MODEL,
    {"batch", "64", NULL},
    {"weight-decay", "0.05", NULL},
    {"flip", "true", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size"},
    {"num_channels", "4", NULL},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};

const cli_command cli_train_colorize = {
    .manual = {.name = "train colorize", .summary = "train a model to colour grey pictures",
               .usage = "--images D --out DIR [options]", .examples = examples,
               .text = "Learns to tell each pixel's colour (a and b of Lab) from lightness and "
                       "from hints: cells of the picture, a 16th of its side, whose colour is "
                       "known. Training gives a random number of them, often none. Judges on "
                       "held-out pictures, by the squared error of a and b in dB below 255^2: "
                       "without hints (psnr) and with 10 random ones (psnr_hints), by whose "
                       "mean (psnr_both) the model is chosen; beside them the mean colour of the "
                       "training pictures and the nearest hint's. Without --steps or --minutes it "
                       "takes 5 minutes.",
               .tables = tables, .presets = presets},
    .run = run};
