/* reconstruct.c - `qkv train reconstruct`: pictures become a masked autoencoder, which
 * fills in what it does not see. */
#include "core/commands.h"
#include "eval/eval.h"
#include "train/picture_job.h"
#include "model/mae.h"
#include "qkv/reconstruct.h"

typedef struct {
    cli_picture_job p;
    qkv_augment_options augment;
    qkv_mae_config config;
} job;

static qkv_status choose_model(job *j)
{
    const qkv_options *o = j->p.base.c->options;
    qkv_mae_config sizes = j->config;
    bool known = qkv_mae_preset(j->p.s.model, &sizes);
    if (!qkv_options_given(o, "decoder_hidden_size"))
        j->config.decoder_width = sizes.decoder_width;
    if (!qkv_options_given(o, "decoder_num_hidden_layers"))
        j->config.decoder_layers = sizes.decoder_layers;
    if (!qkv_options_given(o, "decoder_num_attention_heads"))
        j->config.decoder_heads = sizes.decoder_heads;
    return cli_picture_trunk(&j->p, known ? &sizes.trunk : NULL, &j->config.trunk);
}

static qkv_status load_model(job *j)
{
    cli_job *base = &j->p.base;
    qkv_status status = cli_job_load(base, &base->model);
    if (!status && !eval_takes_reconstruct(base->model))
        return qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "--init: a vit_mae model expected, %s "
                         "holds a %s", base->o.init,
                         qkv_model_type_name(qkv_model_type_of(base->model)));
    if (!status)
        j->config = *(const qkv_mae_config *)qkv_model_config(base->model);
    return status;
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_status status = base->o.init ? load_model(j) : choose_model(j);
    size_t side = j->config.trunk.image, channels = j->config.trunk.channels;
    if (!status && channels != 1 && channels != 3)
        status = qkv__fail(c->ctx, QKV_E_ARGUMENT, "num_channels: 1 or 3 expected, found %zu",
                           channels);
    if (!status)
        status = cli_picture_read(&j->p, side, channels, NULL);
    if (!status && !base->o.init)
        status = qkv_model_create(&base->model, c->ctx, &qkv_mae_type, &j->config);
    if (!status && !base->o.init)
        status = qkv_model_init(base->model, c->common.seed);
    if (!status && !qkv_model_pictures(base->model)) {
        qkv_picture_format f = cli_pictures_square(side, channels);
        cli_picture_measure(&j->p, &f);
        qkv_model_set_pictures(base->model, &f);
    }
    return status;
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_status status = qkv_task_reconstruct(&base->task, base->model, j->p.train.images,
                                             j->p.valid.images, &j->augment, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, base->o.out);
    const qkv_mae_config *config = qkv_model_config(base->model);
    const qkv_patches_config *t = &config->trunk;
    cli_job_rate(base, t->width, cli_training_rate(t->width));
    cli_picture_tell(&j->p, "pictures of %zu x %zu in patches of %zu, %g %% of them hidden",
                     t->image, t->image, t->patch, 100 * config->mask_ratio);
    return QKV_OK;
}

static const qkv_option_table *const lesson[] = {&qkv_augment_table, NULL};
static const char *const fixed[] = {"model", "size", NULL};
static const cli_job_type job_type = {
    .name = "reconstruct", .takes = eval_takes_reconstruct, .read = read_data,
    .write = cli_picture_write, .open = cli_picture_open, .begin = begin,
    .close = cli_picture_close, .fixed = fixed,
    .lesson = lesson};

static int run(cli *c, int argc, char **argv)
{
    job j = {.p.base.c = c};
    cli_bind(c, &cli_picture_table, &j.p.s);
    cli_bind(c, &qkv_augment_table, &j.augment);
    cli_job_bind(&j.p.base);
    cli_bind(c, &qkv__mae_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.p.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &cli_picture_table, &qkv_augment_table, &cli_job_table, &qkv_train_table,
    &qkv_optimizer_table, &qkv_schedule_table, &qkv__mae_config, NULL};
static const char *const examples[] = {
    "qkv train reconstruct --images photos --minutes 15 --out runs/mae",
    "qkv train reconstruct --images emoji --split name --out runs/emoji",
    "qkv train reconstruct --images photos --set norm_pix_loss=true --out runs/n",
    "qkv train classify --data labelled --init runs/mae --out runs/classes", NULL};

static const qkv_preset presets[] = {
    CLI_PICTURE_SIZE,
    CLI_PICTURE_MODEL,
    {"batch", "64", NULL},
    {"weight-decay", "0.05", NULL},
    {"beta2", "0.95", NULL},
    {"crop-scale", "0.5", NULL},
    {"flip", "true", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size"},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};

const cli_command cli_train_reconstruct = {
    .manual = {.name = "train reconstruct", .summary = "train a model to fill in pictures",
               .usage = "--images D --out DIR [options]", .examples = examples,
               .text = "A masked autoencoder: three quarters of each picture's patches are hidden, "
                       "other ones each time it comes along; an encoder reads the rest, a smaller "
                       "decoder fills in what is missing. Judges on held-out pictures by the "
                       "squared error of what was hidden, in dB (psnr). qkv reconstruct shows "
                       "what it has learnt, and train classify --init begins with its encoder. "
                       "Without --steps or --minutes it takes 5 minutes.",
               .tables = tables, .presets = presets},
    .run = run};
