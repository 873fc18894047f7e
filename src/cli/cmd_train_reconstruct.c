/* cmd_train_reconstruct.c - `qkv train reconstruct`: pictures become a masked autoencoder, which
 * fills in what it does not see. */
#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/pixels.h"
#include "model/mae.h"
#include "qkv/reconstruct.h"

static const double FLAT = 1e-3; /* a channel that varies less than this is not stretched */

typedef struct {
    cli_job base;
    cli_pixels_options s;
    qkv_augment_options augment;
    qkv_mae_config config;
    qkv_pixels *all, *held; /* as read */
    qkv_held_out split;
    qkv_pixels *train, *valid; /* in OUT/train */
} job;

/* Normalised by the pictures that are learnt from. */
static void measure_colours(job *j, size_t side)
{
    qkv_picture_format f = {.height = side, .width = side, .crop = true, .resample = 2,
                            .channels = qkv_pixels_channels(j->all)};
    qkv_pixels_stats(j->all, j->split.train, j->split.train_count, f.mean, f.std);
    for (size_t i = 0; i < 3; i++)
        f.std[i] = f.std[i] > FLAT ? f.std[i] : 1;
    qkv_model_set_pictures(j->base.model, &f);
}

static qkv_status make_model(job *j, size_t side)
{
    cli *c = j->base.c;
    const qkv_options *o = c->options;
    qkv_mae_config sizes = j->config;
    qkv_status status = cli_pixels_trunk(c, &j->s, side, &j->config.trunk);
    if (!status && !qkv_mae_preset(j->s.model, &sizes))
        status = qkv__fail(c->ctx, QKV_E_ARGUMENT, "--model: no preset \"%s\"", j->s.model);
    if (status)
        return status;
    if (!qkv_options_given(o, "hidden_size"))
        j->config.trunk.width = sizes.trunk.width;
    if (!qkv_options_given(o, "num_hidden_layers"))
        j->config.trunk.layers = sizes.trunk.layers;
    if (!qkv_options_given(o, "num_attention_heads"))
        j->config.trunk.heads = sizes.trunk.heads;
    if (!qkv_options_given(o, "decoder_hidden_size"))
        j->config.decoder_width = sizes.decoder_width;
    if (!qkv_options_given(o, "decoder_num_hidden_layers"))
        j->config.decoder_layers = sizes.decoder_layers;
    if (!qkv_options_given(o, "decoder_num_attention_heads"))
        j->config.decoder_heads = sizes.decoder_heads;
    status = qkv_model_create(&j->base.model, c->ctx, &qkv_mae_type, &j->config);
    return status ? status : qkv_model_init(j->base.model, c->common.seed);
}

static qkv_status load_model(job *j, size_t *side)
{
    cli_job *base = &j->base;
    qkv_status status = qkv_hub_load(&base->model, base->c->ctx, base->o.init);
    if (!status && !eval_takes_reconstruct(base->model))
        return qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "--init: a vit_mae model expected, %s "
                         "holds a %s", base->o.init,
                         qkv_model_type_name(qkv_model_type_of(base->model)));
    if (status)
        return status;
    const qkv_mae_config *c = qkv_model_config(base->model);
    *side = c->trunk.image;
    j->config.trunk.channels = c->trunk.channels;
    return QKV_OK;
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    size_t side = 0;
    qkv_status status =
        base->o.init ? load_model(j, &side) : cli_pixels_side(&side, base->c, &j->s);
    size_t channels = j->config.trunk.channels;
    if (!status && channels != 1 && channels != 3)
        status = qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "num_channels: 1 or 3 expected, found "
                           "%zu", channels);
    if (!status)
        status = cli_pixels_read(&j->all, base->c, j->s.images, side, channels);
    if (!status)
        status = cli_pixels_split(&j->split, base->c, &j->s, j->all);
    if (!status && j->s.valid)
        status = cli_pixels_read(&j->held, base->c, j->s.valid, side, channels);
    if (!status && !base->o.init)
        status = make_model(j, side);
    if (!status && !qkv_model_pictures(base->model))
        measure_colours(j, side);
    return status;
}

static qkv_status write_data(cli_job *base)
{
    job *j = (job *)base;
    const qkv_held_out *s = &j->split;
    qkv_status status =
        cli_pixels_write(&j->train, base, CLI_PIXELS_TRAIN, j->all, s->train, s->train_count);
    if (!status && s->valid_count)
        status = cli_pixels_write(&j->valid, base, CLI_PIXELS_VALID, j->all, s->valid,
                                  s->valid_count);
    if (!status && j->held)
        status = cli_pixels_write(&j->valid, base, CLI_PIXELS_VALID, j->held, NULL,
                                  qkv_pixels_count(j->held));
    return status;
}

static qkv_status open_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_status status = cli_pixels_open(&j->train, base, CLI_PIXELS_TRAIN, true);
    return status ? status : cli_pixels_open(&j->valid, base, CLI_PIXELS_VALID, false);
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_status status = qkv_task_reconstruct(&base->task, base->model, j->train, j->valid,
                                             &j->augment, c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, base->o.out);
    const qkv_mae_config *config = qkv_model_config(base->model);
    cli_job_rate(base, config->trunk.width, cli_training_rate(config->trunk.width));
    cli_note(c, "%s, %zu parameters, pictures of %zu x %zu in patches of %zu, %g %% of them "
             "hidden; %zu pictures to learn from, %zu held out",
             qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), config->trunk.image,
             config->trunk.image, config->trunk.patch, 100 * config->mask_ratio,
             qkv_pixels_count(j->train), j->valid ? qkv_pixels_count(j->valid) : 0);
    return QKV_OK;
}

static void close_data(cli_job *base)
{
    job *j = (job *)base;
    qkv_pixels_close(j->all);
    qkv_pixels_close(j->held);
    qkv_held_out_free(&j->split);
    qkv_pixels_close(j->train);
    qkv_pixels_close(j->valid);
}

static const char *const fixed[] = {"model", "size", NULL};
static const cli_job_type job_type = {
    .name = "reconstruct", .takes = eval_takes_reconstruct, .read = read_data,
    .write = write_data, .open = open_data, .begin = begin, .close = close_data, .fixed = fixed};

static int run(cli *c, int argc, char **argv)
{
    job j = {.base.c = c};
    cli_bind(c, &cli_pixels_table, &j.s);
    cli_bind(c, &qkv_augment_table, &j.augment);
    cli_job_bind(&j.base);
    cli_bind(c, &qkv__mae_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &cli_pixels_table, &qkv_augment_table, &cli_job_table, &qkv_train_table,
    &qkv_optimizer_table, &qkv_schedule_table, &qkv__mae_config, NULL};
static const char *const examples[] = {
    "qkv train reconstruct --images photos --minutes 15 --out runs/mae",
    "qkv train reconstruct --images emoji --split name --out runs/emoji",
    "qkv train reconstruct --images photos --set norm_pix_loss=true --out runs/n",
    "qkv train classify --data labelled --init runs/mae --out runs/classes", NULL};

static const qkv__preset presets[] = {
    {"batch", "64", NULL},
    {"weight-decay", "0.05", NULL},
    {"beta2", "0.95", NULL},
    {"crop-scale", "0.5", NULL},
    {"flip", "true", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size"},
    {"minutes", NULL, "5 without --steps"},
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
