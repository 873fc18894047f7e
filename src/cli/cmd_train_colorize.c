/* cmd_train_colorize.c - `qkv train colorize`: colour pictures become a model that colours grey
 * ones. */
#include "cli/commands.h"
#include "cli/eval.h"
#include "cli/pixels.h"
#include "model/dense.h"
#include "qkv/colorize.h"

enum { CHANNELS = 3 };

typedef struct {
    cli_job base;
    cli_pixels_options s;
    qkv_colorize_options o;
    qkv_dense_config config;
    qkv_pixels *all, *held; /* as read */
    qkv_held_out split;
    qkv_pixels *train, *valid; /* in OUT/train */
} job;

static qkv_status make_model(job *j, size_t side)
{
    cli *c = j->base.c;
    qkv_status status = cli_pixels_trunk(c, &j->s, side, &j->config.trunk);
    j->config.trunk.channels = QKV_COLORIZER_INPUTS;
    double mean[2];
    if (!status)
        status = qkv_colorize_mean(c->ctx, j->all, j->split.train, j->split.train_count, mean);
    if (status)
        return status;
    j->config.mean_a = mean[0];
    j->config.mean_b = mean[1];
    status = qkv_model_create(&j->base.model, c->ctx, &qkv_colorizer_type, &j->config);
    return status ? status : qkv_model_init(j->base.model, c->common.seed);
}

static qkv_status load_model(job *j, size_t *side)
{
    cli_job *base = &j->base;
    qkv_status status = qkv_hub_load(&base->model, base->c->ctx, base->o.init);
    if (!status && qkv_model_type_of(base->model) != &qkv_colorizer_type)
        return qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "%s: a %s model does not colour pictures",
                         base->o.init, qkv_model_type_name(qkv_model_type_of(base->model)));
    if (!status)
        *side = ((const qkv_dense_config *)qkv_model_config(base->model))->trunk.image;
    return status;
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    size_t side = 0;
    qkv_status status =
        base->o.init ? load_model(j, &side) : cli_pixels_side(&side, base->c, &j->s);
    if (!status)
        status = cli_pixels_read(&j->all, base->c, j->s.images, side, CHANNELS);
    if (!status)
        status = cli_pixels_split(&j->split, base->c, &j->s, j->all);
    if (!status && j->s.valid)
        status = cli_pixels_read(&j->held, base->c, j->s.valid, side, CHANNELS);
    return status || base->o.init ? status : make_model(j, side);
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
    qkv_status status = qkv_task_colorize(&base->task, base->model, j->train, j->valid, &j->o,
                                          c->common.seed);
    if (status)
        return qkv__fail_prefix(c->ctx, base->o.out);
    const qkv_dense_config *config = qkv_model_config(base->model);
    cli_job_rate(base, config->trunk.width, cli_training_rate(config->trunk.width));
    cli_note(c, "%s, %zu parameters, pictures of %zu x %zu in patches of %zu, hints of %zu; %zu "
             "pictures to learn from, %zu held out",
             qkv_model_type_name(qkv_model_type_of(base->model)),
             qkv_params_elements(qkv_model_params(base->model)), config->trunk.image,
             config->trunk.image, config->trunk.patch, config->cell,
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
    .name = "colorize", .takes = eval_takes_colorize, .read = read_data, .write = write_data,
    .open = open_data, .begin = begin, .close = close_data, .fixed = fixed};

static int run(cli *c, int argc, char **argv)
{
    job j = {.base.c = c};
    cli_bind(c, &cli_pixels_table, &j.s);
    cli_bind(c, &qkv_colorize_table, &j.o);
    cli_job_bind(&j.base);
    cli_bind(c, &qkv__colorizer_config, &j.config);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    return cli_job_run(&j.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &cli_pixels_table, &qkv_colorize_table, &cli_job_table, &qkv_train_table,
    &qkv_optimizer_table, &qkv_schedule_table, &qkv__colorizer_config, NULL};
static const char *const examples[] = {
    "qkv train colorize --images photos --minutes 15 --out runs/color",
    "qkv train colorize --images emoji --split name --size 64 --out runs/emoji",
    "qkv train colorize --images photos --minutes 30 --out runs/color --resume", NULL};

static const qkv__preset presets[] = {
    {"batch", "64", NULL},
    {"weight-decay", "0.05", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"lr", NULL, "0.384 / hidden_size"},
    {"num_channels", "4", NULL},
    {"minutes", NULL, "5 without --steps"},
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
