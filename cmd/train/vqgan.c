/* vqgan.c - `qkv train vqgan`: pictures become a model that codes them. */
#include "use/coder.h"
#include "core/commands.h"
#include "eval/eval.h"
#include "train/picture_job.h"
#include "io/file.h"
#include "model/vqgan.h"
#include "qkv/codes.h"
#include "qkv/looks.h"

enum { COLORS = 3, LOOKS_BATCH = 64, LOOKS_STEPS = 1500 };
static const double LOOKS_SHARE = 0.1, LOOKS_RATE = 1e-3, LOOKS_DECAY = 0.05;

enum { OWN, TAMING };
static const char *const recipe_names[] = {"own", "taming", NULL};
static const double TAMING_RATE = 4.5e-6; /* times the batch */
enum { TAMING_SIDE = 256 };

typedef struct {
    cli_picture_job p;
    qkv_codes_options o;
    int recipe;
    const char *lpips;  /* a directory, or NULL */
    size_t looks_steps; /* 0: as the run's length says */
    qkv_vqgan_config given, config; /* as --set says; of the model to be made */
    qkv_model *looks;
} job;

#define FIELD(member) .offset = offsetof(job, member)
static const qkv_option recipe_rows[] = {
    {.flag = "recipe", .type = QKV_OPT_ENUM, FIELD(recipe), .names = recipe_names,
     .initial = "own",
     .help = "settings that hold where no option says otherwise; taming: its authors', see below"},
};
static const qkv_option_table recipe_table = {"Recipe", recipe_rows, 1};
static const qkv_option rows[] = {
    {.flag = "lpips", .type = QKV_OPT_STRING, FIELD(lpips), .value = "DIR",
     .help = "network that says how unlike pictures look; else one learns it first"},
    {.flag = "looks-steps", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(looks_steps),
     .initial = "0", .value = "N",
     .help = "updates that it learns for; 0: a tenth of the minutes, or 1500"},
};
static const qkv_option_table table = {"Looks", rows, sizeof rows / sizeof *rows};
#undef FIELD

/* The preset, with what was given in its place. */
static qkv_status choose_model(job *j)
{
    const cli *c = j->p.base.c;
    qkv_option_defaults(&qkv__vqgan_config, &j->config);
    qkv_status status = cli_picture_side(&j->p, &j->config.image);
    if (status)
        return status;
    if (!qkv_vqgan_preset(j->p.s.model, &j->config))
        return qkv__fail(c->ctx, QKV_E_ARGUMENT, "--model: no preset \"%.40s\"", j->p.s.model);
    cli_take_given(c, &qkv__vqgan_config, &j->given, &j->config);
    return QKV_OK;
}

/* The codes that there are, as if each had been met: training begins with those that none was. */
static void keep_codes(qkv_model *m)
{
    qkv_param *usage = qkv_vqgan_usage(m);
    for (size_t i = 0; i < qkv_param_count(usage); i++)
        qkv_param_data(usage)[i] = 1;
    qkv_param_touch(usage);
}

static qkv_status load_model(job *j)
{
    cli_job *base = &j->p.base;
    qkv_status status = cli_job_load(base, &base->model);
    if (!status && !eval_takes_codes(base->model))
        return qkv__fail(base->c->ctx, QKV_E_ARGUMENT, "--init: a %s model expected, %s holds a "
                         "%s", qkv_model_type_name(&qkv_vqgan_type), base->o.init,
                         qkv_model_type_name(qkv_model_type_of(base->model)));
    if (status)
        return status;
    j->config = *cli_coder_config(base->model);
    keep_codes(base->model);
    return QKV_OK;
}

static qkv_status read_data(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    qkv_status status = base->o.init ? load_model(j) : choose_model(j);
    if (!status && j->config.colors != COLORS && j->config.colors != 1)
        status = qkv__fail(c->ctx, QKV_E_ARGUMENT, "in_channels: 1 or 3 expected, found %zu",
                           j->config.colors);
    if (!status && j->config.colors == 1 && j->o.perceptual > 0)
        status = qkv__fail(c->ctx, QKV_E_ARGUMENT, "--perceptual: 0 expected for pictures of 1 "
                           "channel, which no such network looks at, found %g", j->o.perceptual);
    if (!status && j->o.adversarial > 0 && !j->config.judge_layers)
        status = qkv__fail(c->ctx, QKV_E_ARGUMENT, "--adversarial: 0 expected for a model with no "
                           "discriminator (disc_num_layers 0), found %g", j->o.adversarial);
    if (!status)
        status = cli_picture_read(&j->p, j->config.image, j->config.colors, NULL);
    if (!status && !base->o.init)
        status = qkv_model_create(&base->model, c->ctx, &qkv_vqgan_type, &j->config);
    if (!status && !base->o.init)
        status = qkv_model_init(base->model, c->common.seed);
    if (status)
        return status;
    qkv_picture_format f = cli_pictures_square(j->config.image, j->config.colors);
    for (size_t i = 0; i < COLORS; i++)
        f.mean[i] = f.std[i] = 0.5;
    qkv_model_set_pictures(base->model, &f);
    return QKV_OK;
}

/* ---- what pictures look like --------------------------------------------------------------- */

/* How long a network of our own learns, and how. */
static cli_training lesson_of(const job *j)
{
    const qkv_train_options *o = &j->p.base.t.loop;
    cli_training t;
    cli_training_defaults(&t);
    t.loop.batch = LOOKS_BATCH;
    t.loop.ema = 0;
    t.loop.steps = j->looks_steps;
    if (!t.loop.steps && o->minutes > 0)
        t.loop.minutes = (qkv__now() - j->p.base.c->began) / 60 + LOOKS_SHARE * o->minutes;
    else if (!t.loop.steps)
        t.loop.steps = LOOKS_STEPS;
    t.schedule.lr = LOOKS_RATE;
    t.optimizer.weight_decay = LOOKS_DECAY;
    return t;
}

/* Learns it in OUT/train/looks, or finds it there. */
static qkv_status learn_looks(job *j)
{
    cli_job *base = &j->p.base;
    cli *c = base->c;
    const qkv_pixels *pictures = j->p.train.images;
    size_t classes = qkv_pixels_classes(pictures);
    const qkv_perceptual_config config = qkv_looks_config(j->config.image, classes);
    const cli_training t = lesson_of(j);
    qkv_task task = {0};
    char *dir = cli_job_path(base, "train/looks");
    qkv_status status = dir ? qkv__dir_create(c->ctx, dir) : QKV_E_MEMORY;
    if (!status)
        status = qkv_model_create(&j->looks, c->ctx, &qkv_perceptual_type, &config);
    if (!status)
        status = qkv_model_init(j->looks, c->common.seed);
    if (!status)
        status = qkv_task_looks(&task, j->looks, pictures, &j->o.augment, c->common.seed);
    if (!status)
        status = cli_training_lesson(c, &t, &task, dir, "learning looks");
    qkv_task_destroy(&task);
    qkv__free(c->ctx, dir);
    return status;
}

static qkv_status load_looks(job *j)
{
    qkv_context *ctx = j->p.base.c->ctx;
    qkv_status status = qkv_hub_load(&j->looks, ctx, j->lpips);
    if (!status && qkv_model_type_of(j->looks) != &qkv_perceptual_type)
        status = qkv__fail(ctx, QKV_E_ARGUMENT, "--lpips: a %s expected, %s holds a %s",
                           qkv_model_type_name(&qkv_perceptual_type), j->lpips,
                           qkv_model_type_name(qkv_model_type_of(j->looks)));
    return status;
}

/* Opens the network that was named, or learns one; it stays as it is from then on. */
static qkv_status find_looks(job *j)
{
    cli *c = j->p.base.c;
    if (j->o.perceptual == 0)
        return QKV_OK;
    qkv_status status = j->lpips ? load_looks(j) : learn_looks(j);
    if (!status)
        qkv_params_freeze(qkv_model_params(j->looks), true);
    bool classes = qkv_pixels_classes(j->p.train.images) > 1;
    const char *own = classes ? "a network that learnt their classes"
                              : "a network that learnt their colours";
    if (!status)
        cli_note(c, "how unlike pictures look says %s", j->lpips ? j->lpips : own);
    return status;
}

static qkv_status begin(cli_job *base)
{
    job *j = (job *)base;
    cli *c = base->c;
    const qkv_vqgan_config *config = cli_coder_config(base->model);
    j->config = *config;
    size_t side = config->image / qkv_vqgan_factor(base->model);
    qkv_status status = find_looks(j);
    if (status)
        return status;
    if (qkv_task_codes(&base->task, base->model, j->looks, j->p.train.images, j->p.valid.images,
                       &j->o, c->common.seed))
        return qkv__fail_prefix(c->ctx, base->o.out);
    cli_job_rate(base, config->channels, base->t.schedule.lr);
    cli_picture_tell(&j->p, "pictures of %zu x %zu as %zu x %zu of %zu codes", config->image,
                     config->image, side, side, config->codes);
    return QKV_OK;
}

static void close_job(cli_job *base)
{
    qkv_model_destroy(((job *)base)->looks);
    cli_picture_close(base);
}

static const qkv_option_table *const lesson[] = {&qkv_codes_table, &qkv_augment_table, NULL};
static const char *const fixed[] = {"model", "size", NULL};
static const cli_job_type job_type = {
    .name = "vqgan", .takes = eval_takes_codes, .read = read_data, .write = cli_picture_write,
    .open = cli_picture_open, .begin = begin, .close = close_job, .fixed = fixed,
    .lesson = lesson};

/* What of the authors' settings depends on others: their model, a rate that goes with the batch. */
static void complete_recipe(job *j)
{
    const qkv_options *o = j->p.base.c->options;
    cli_training *t = &j->p.base.t;
    if (!qkv_options_given(o, "lr"))
        t->schedule.lr = TAMING_RATE * (double)t->loop.batch;
    if (qkv_options_given(o, "model") || j->p.base.o.init)
        return;
    j->p.s.model = "f16";
    if (!qkv_options_given(o, "size"))
        j->p.s.size = TAMING_SIDE;
}

static int run(cli *c, int argc, char **argv)
{
    job j = {.p.base.c = c};
    cli_bind(c, &recipe_table, &j);
    cli_bind(c, &cli_picture_table, &j.p.s);
    cli_bind(c, &qkv_codes_table, &j.o);
    cli_bind(c, &table, &j);
    cli_bind(c, &qkv_augment_table, &j.o.augment);
    cli_job_bind(&j.p.base);
    cli_bind(c, &qkv__vqgan_config, &j.given);
    if (cli_parse(c, argc, argv, 0, 0))
        return CLI_USAGE;
    if (j.recipe == TAMING)
        complete_recipe(&j);
    return cli_job_run(&j.p.base, &job_type);
}

static const qkv_option_table *const tables[] = {
    &recipe_table, &cli_picture_table, &qkv_codes_table, &table, &qkv_augment_table,
    &cli_job_table, &qkv_train_table, &qkv_optimizer_table, &qkv_schedule_table,
    &qkv__vqgan_config, NULL};
static const char *const examples[] = {
    "qkv train vqgan --images photos --minutes 60 --out runs/codes",
    "qkv train vqgan --images emoji --model mini --split name --out runs/emoji",
    "qkv train vqgan --images photos --recipe taming --lpips runs/lpips --out f16", NULL};

static const qkv_preset presets[] = {
    CLI_PICTURE_SIZE,
    {"model", "micro", "micro; others: nano mini f8 f16"},
    {"optimizer", "adam", NULL},
    {"beta1", "0.9", NULL},
    {"beta2", "0.95", NULL},
    {"weight-decay", "0", NULL},
    {"batch", "8", NULL},
    {"lr", "1e-3", NULL},
    {"warmup", "100", "100, or a tenth of the steps if they are fewer than 1000"},
    {"adversarial", "0.5", NULL},
    {"judge-start", "2000", NULL},
    {"judge-ramp", "2000", NULL},
    {"flip", "true", NULL},
    {"minutes", NULL, "5 without --steps"},
    {"bf16", "true", NULL},
    {NULL, NULL, NULL},
};

/* configs/custom_vqgan.yaml of taming-transformers, and what its code does by itself. Steps are
 * counted alike: one a batch, the first is 0. */
static const qkv_preset taming[] = {
    {"model", NULL, "f16 and --size 256 unless one is named"},
    {"batch", "5", NULL},
    {"lr", NULL, "4.5e-6 times the batch"},
    {"schedule", "constant", NULL},
    {"warmup", "0", NULL},
    {"optimizer", "adam", NULL},
    {"beta1", "0.5", NULL},
    {"beta2", "0.9", NULL},
    {"eps", "1e-8", NULL},
    {"weight-decay", "0", NULL},
    {"clip", "0", NULL},
    {"ema", "0", NULL},
    {"flip", "false", NULL},
    {"bf16", "false", NULL},
    {"codebook-weight", "1", NULL},
    {"commitment", "0.25", NULL},
    {"legacy", "true", NULL},
    {"code-decay", "0", NULL},
    {"revive", "false", NULL},
    {"perceptual", "1", NULL},
    {"adversarial", "0.8", NULL},
    {"judge-start", "10000", NULL},
    {"judge-ramp", "0", NULL},
    {"judge-loss", "hinge", NULL},
    {"second-forward", "true", NULL},
    {NULL, NULL, NULL},
};
static const qkv_preset *const recipes[] = {[OWN] = NULL, [TAMING] = taming};

const cli_command cli_train_vqgan = {
    .manual = {.name = "train vqgan", .summary = "learn codes for pictures",
               .usage = "--images D --out DIR [options]", .examples = examples,
               .text = "An encoder makes a small grid of vectors of a picture; each becomes the "
                       "nearest of a table of codes; a decoder makes a picture of the codes "
                       "again. A discriminator, which learns to tell decoded patches from real "
                       "ones, makes it sharp. Judges on held-out pictures; the model that is least "
                       "unlike them is kept, but once the discriminator takes part the "
                       "newest is. qkv encode and qkv decode go between pictures and codes.",
               .tables = tables, .presets = presets, .recipes = recipes},
    .run = run};
