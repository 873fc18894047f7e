/* vqgan.c - `qkv train vqgan`: images become a model that codes them. */
#include "pipeline/codec.h"
#include <string.h>

#include "job/image_job.h"
#include "job/sample.h"
#include "io/file.h"
#include "model/tables.h"
#include "qkv/vqgan.h"
#include "qkv/codes.h"
#include "qkv/perceptual_task.h"
#include "image/augment_steps.h"
#include "task/tables.h"

enum { COLORS = 3, PERCEPTUAL_BATCH = 64, PERCEPTUAL_STEPS = 1500 };
static const double PERCEPTUAL_SHARE = 0.1, PERCEPTUAL_RATE = 1e-3, PERCEPTUAL_DECAY = 0.05;

enum { OWN, TAMING };
static const char *const recipe_names[] = {"own", "taming", NULL};
static const double TAMING_RATE = 4.5e-6; /* times the batch */
enum { TAMING_SIDE = 256 };

typedef struct {
    qkv__image_job p;
    qkv_codes_options o;
    int recipe;
    const char *lpips;  /* a directory, or NULL */
    size_t perceptual_steps; /* 0: as the run's length says */
    qkv_vqgan_config config; /* of the model to be made */
    qkv_model *network;
} job;

#define FIELD(member) .offset = offsetof(job, member)
static const qkv_option recipe_rows[] = {
    {.flag = "recipe", .type = QKV_OPT_ENUM, FIELD(recipe), .names = recipe_names,
     .initial = "own",
     .help = "settings that hold where no option says otherwise; taming: its authors', see below"},
};
static const qkv_option_table recipe_table = {"Recipe", recipe_rows, 1, 0};
static const qkv_option rows[] = {
    {.flag = "lpips", .type = QKV_OPT_STRING, FIELD(lpips), .value = "DIR",
     .help = "perceptual network (LPIPS) in the loss; none: one is trained first"},
    {.flag = "perceptual-steps", .type = QKV_OPT_SIZE, .max = 1e9, FIELD(perceptual_steps),
     .initial = "0", .value = "N",
     .help = "updates that it learns for; 0: a tenth of the minutes, or 1500"},
};
static const qkv_option_table table = {"Perceptual network", rows, sizeof rows / sizeof *rows, 0};
#undef FIELD

/* The preset, with what was given in its place. */
static qkv_status vqgan_choose_model(job *j)
{
    qkv_status status = qkv__image_side(&j->p, "resolution", &j->config.image);
    return status ? status : qkv__run_preset(&j->p.base, qkv_vqgan_type(), j->p.s.model,
                                             &qkv__vqgan_config, &j->config);
}

/* The codes that there are, as if each had been met: training begins with those that none was. */
static void keep_codes(qkv_model *m)
{
    qkv_param *usage = qkv_vqgan_usage(m);
    for (size_t i = 0; i < qkv_param_count(usage); i++)
        qkv_param_data(usage)[i] = 1;
    qkv_param_touch(usage);
}

static qkv_status vqgan_load_model(job *j)
{
    qkv__run *base = &j->p.base;
    qkv_status status = qkv__run_load_able(base, QKV_CAN_ENCODE_IMAGES,
                                           qkv_model_type_name(qkv_vqgan_type()));
    if (status)
        return status;
    j->config = *qkv__codec_config(base->model);
    keep_codes(base->model);
    return QKV_OK;
}

static qkv_status vqgan_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    qkv_status status = base->o.init ? vqgan_load_model(j) : vqgan_choose_model(j);
    if (!status && j->config.colors != COLORS && j->config.colors != 1)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "in_channels: 1 or 3 expected, found %zu",
                          j->config.colors);
    if (!status && j->config.colors == 1 && j->o.perceptual > 0)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--perceptual: 0 expected for images of 1 "
                          "channel, which no such network looks at, found %g", j->o.perceptual);
    if (!status && j->o.adversarial > 0 && !j->config.disc_layers)
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--adversarial: 0 expected for a model with no "
                          "discriminator (disc_num_layers 0), found %g", j->o.adversarial);
    if (!status && base->t.optimizer.kind == QKV_OPTIMIZER_MUON) /* known before anything learns */
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--optimizer: muon updates the matrices of "
                          "transformer blocks, and a VQGAN has none");
    if (!status)
        status = qkv__image_read(&j->p, j->config.image, j->config.colors, NULL);
    if (!status && !base->o.init)
        status = qkv__run_create(base, qkv_vqgan_type(), &j->config);
    if (status)
        return status;
    qkv_image_format f = qkv__images_square(j->config.image, j->config.colors);
    for (size_t i = 0; i < COLORS; i++)
        f.mean[i] = f.std[i] = 0.5;
    qkv_model_set_image_format(base->model, &f);
    return QKV_OK;
}

/* ---- what images look like --------------------------------------------------------------- */

/* How long a network of our own learns, and how. */
static qkv_training chapter_of(const job *j)
{
    const qkv_train_options *o = &j->p.base.t.loop;
    qkv_training t = qkv_training_defaults();
    t.loop.dtype = o->dtype;
    t.loop.shards = o->shards;
    t.loop.batch = o->shards > PERCEPTUAL_BATCH ? o->shards : PERCEPTUAL_BATCH;
    t.loop.ema = 0;
    t.loop.steps = j->perceptual_steps;
    if (!t.loop.steps && o->minutes > 0)
        t.loop.minutes = (qkv_now() - j->p.base.began) / 60 + PERCEPTUAL_SHARE * o->minutes;
    else if (!t.loop.steps)
        t.loop.steps = PERCEPTUAL_STEPS;
    t.schedule.lr = PERCEPTUAL_RATE;
    t.optimizer.weight_decay = PERCEPTUAL_DECAY;
    return t;
}

/* Learns it in OUT/train/perceptual, or finds it there. */
static qkv_status learn_perceptual(job *j)
{
    qkv__run *base = &j->p.base;
    qkv_context *ctx = base->ctx;
    const qkv_pixels *images = j->p.train.images;
    size_t classes = qkv_pixels_classes(images);
    const qkv_perceptual_config config = qkv_perceptual_task_config(j->config.image, classes);
    const qkv_training t = chapter_of(j);
    qkv_task task = {0};
    const qkv_path dir = qkv__run_path(base, "train/perceptual");
    qkv_status status = qkv_dir_create(ctx, dir.text);
    if (!status)
        status = qkv_model_create(&j->network, ctx, qkv_perceptual_type(), &config);
    if (!status)
        status = qkv_model_init(j->network, base->o.seed);
    if (!status)
        status = qkv_task_perceptual(&task, j->network, images, &j->o.augment, base->o.seed);
    if (!status)
        status = qkv__run_task_settings(base, &t, &task, dir.text, "the perceptual network");
    qkv_task_destroy(&task);
    return status;
}

static qkv_status load_perceptual(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    qkv_status status = qkv_hub_load(&j->network, ctx, j->lpips);
    if (!status && qkv_model_type_of(j->network) != qkv_perceptual_type())
        status = qkv_fail(ctx, QKV_E_ARGUMENT, "--lpips: a %s expected, %s holds a %s",
                          qkv_model_type_name(qkv_perceptual_type()), j->lpips,
                          qkv_model_type_name(qkv_model_type_of(j->network)));
    return status;
}

/* Opens the network that was named, or learns one; it stays as it is from then on. */
static qkv_status find_perceptual(job *j)
{
    qkv_context *ctx = j->p.base.ctx;
    if (j->o.perceptual == 0)
        return QKV_OK;
    qkv_status status = j->lpips ? load_perceptual(j) : learn_perceptual(j);
    if (!status)
        qkv_params_freeze(qkv_model_params(j->network), true);
    bool classes = qkv_pixels_classes(j->p.train.images) > 1;
    const char *own = classes ? "a network that learnt their classes"
                              : "a network that learnt their colours";
    if (!status)
        qkv__note(ctx, "perceptual network: %s", j->lpips ? j->lpips : own);
    return status;
}

static qkv_status vqgan_begin(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    const qkv_vqgan_config *config = qkv__codec_config(base->model);
    j->config = *config;
    size_t side = config->image / qkv_vqgan_factor(base->model);
    qkv_status status = find_perceptual(j);
    if (status)
        return status;
    if (qkv_task_codes(&base->task, base->model, j->network, j->p.train.images, j->p.valid.images,
                       &j->o, base->o.seed))
        return qkv_fail_prefix(ctx, base->o.out);
    qkv__run_rate(base, config->channels, base->t.schedule.lr);
    qkv__image_tell(&j->p, "images of %zu x %zu as %zu x %zu of %zu codes", config->image,
                     config->image, side, side, config->codes);
    return QKV_OK;
}

static void vqgan_close_job(qkv__run *base)
{
    qkv_model_destroy(((job *)base)->network);
    qkv__image_close(base);
}

/* The image, and what its codes are decoded to. */
static qkv_status vqgan_sample_rows(const qkv__image_job *p, qkv_tape *t, size_t image,
                              uint8_t *const *painted)
{
    const qkv_pixels *images = qkv__sample_set(p)->images;
    const uint8_t *data = qkv_pixels_data(images, image);
    qkv_model *m = p->base.model;
    size_t height = qkv_pixels_height(images), width = qkv_pixels_width(images);
    size_t factor = qkv_vqgan_factor(m), h = height / factor, w = width / factor;
    int32_t *codes = qkv_calloc(p->base.ctx, h, w * sizeof *codes);
    memcpy(painted[0], data, height * width * qkv_pixels_channels(images));
    qkv_status status = codes ? qkv_images_encode(m, t, data, 1, height, width, codes)
                              : QKV_E_MEMORY;
    if (!status)
        status = qkv_images_decode(m, t, codes, 1, h, w, painted[1]);
    qkv_free(p->base.ctx, codes);
    return status;
}

static qkv_status vqgan_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    static const qkv__sample_images_kind kind = {"decoded", 2, vqgan_sample_rows};
    return qkv__sample_images(user, t, &kind, out);
}

static const qkv_option_table *const task_tables[] = {&qkv__codes_table, &qkv__augment_table, NULL};

/* What of the authors' settings depends on others: their model, a rate that goes with the batch. */
static qkv_status complete_recipe(qkv__run *base)
{
    job *j = (job *)base;
    qkv_training *t = &base->t;
    if (j->recipe != TAMING)
        return QKV_OK;
    if (!qkv__run_given(base, "lr"))
        t->schedule.lr = TAMING_RATE * (double)t->loop.batch;
    if (qkv__run_given(base, "model") || base->o.init)
        return QKV_OK;
    j->p.s.model = "f16";
    if (!qkv__run_given(base, "size"))
        j->p.s.size = TAMING_SIDE;
    return QKV_OK;
}

static const qkv_preset presets[] = {
    QKV__IMAGE_SIZE,
    {"optimizer", "adam", NULL},
    {"beta1", "0.9", NULL},
    {"beta2", "0.95", NULL},
    {"weight-decay", "0", NULL},
    {"batch", "8", NULL},
    {"lr", "1e-3", NULL},
    QKV__WARMUP_PRESET,
    {"adversarial", "0.5", NULL},
    {"disc-start", "2000", NULL},
    {"disc-ramp", "2000", NULL},
    {"flip", "true", NULL},
    QKV__COMMON_PRESETS,
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
    {"dtype", "f32", NULL},
    {"codebook-weight", "1", NULL},
    {"commitment", "0.25", NULL},
    {"legacy", "true", NULL},
    {"code-decay", "0", NULL},
    {"revive", "false", NULL},
    {"perceptual", "1", NULL},
    {"adversarial", "0.8", NULL},
    {"disc-start", "10000", NULL},
    {"disc-ramp", "0", NULL},
    {"disc-loss", "hinge", NULL},
    {"second-forward", "true", NULL},
    {NULL, NULL, NULL},
};
static const qkv_preset *const recipes[] = {[OWN] = NULL, [TAMING] = taming};

static const qkv__job_table tables[] = {
    {&recipe_table, 0},
    {&qkv__image_table, offsetof(job, p.s)},
    {&qkv__codes_table, offsetof(job, o)},
    {&table, 0},
    {&qkv__augment_table, offsetof(job, o.augment)},
    QKV__RUN_TABLES,
    {&qkv__vqgan_config, offsetof(job, config)},
    {NULL, 0}};

const qkv__job_kind qkv__job_vqgan = {
    .name = "vqgan", .size = sizeof(job), .tables = tables, .presets = presets,
    .recipes = recipes, .check = complete_recipe,
    .can = QKV_CAN_ENCODE_IMAGES, .read = vqgan_read_data, .write = qkv__image_write,
    .open = qkv__image_open, .begin = vqgan_begin, .close = vqgan_close_job,
    .sample = vqgan_sample,
    .fixed = qkv__image_fixed, .task_tables = task_tables,
    .sizes = {qkv_vqgan_type}};
