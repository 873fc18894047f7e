/* imagine.c - `qkv train imagine`: images' codes become a prior that imagines more. */
#include "job/image_job.h"
#include "job/sample.h"
#include "pipeline/prior.h"
#include "io/file.h"
#include "model/tables.h"
#include "qkv/gpt.h"
#include "qkv/augment.h"
#include "image/augment_steps.h"

typedef struct {
    const char *vqgan, *condition;
    bool classes;
    size_t views;
    double keep;
    qkv_augment_options augment;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "vqgan", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(vqgan),
     .value = "DIR", .help = "model of train vqgan, whose codes are learnt"},
    {.flag = "classes", .type = QKV_OPT_BOOL, FIELD(classes),
     .help = "each image hangs on its class: the folder it lies in, an idx file's number"},
    {.flag = "condition-vqgan", .type = QKV_OPT_STRING, FIELD(condition), .value = "DIR",
     .help = "it hangs on the codes that this other model has for it"},
    {.flag = "views", .type = QKV_OPT_SIZE, .min = 1, .max = 1e4, FIELD(views), .initial = "2",
     .help = "codings of each image: as it is, then changed as below"},
    {.flag = "pkeep", .key = "pkeep", .type = QKV_OPT_REAL, .flags = QKV_OPT_ABOVE, .max = 1,
     FIELD(keep),
     .initial = "1", .help = "share of the codes read as they are; others become any"},
};
static const qkv_option_table table = {"Codes", rows, sizeof rows / sizeof *rows, 0};
#undef FIELD

typedef struct {
    qkv__image_job p;
    settings s;
    qkv_gpt_config config; /* of the model to be made */
    qkv__prior codecs;
    qkv__grid_set train, valid;
} job;

/* ---- the model ----------------------------------------------------------------------------- */

/* The preset, with what was given in its place; then what images and codecs say. */
static qkv_status imagine_choose_model(job *j)
{
    qkv_status status = qkv__run_preset(&j->p.base, qkv_prior_type(), j->p.s.model,
                                        &qkv__prior_config, &j->config);
    const qkv_model *codecs[] = {j->codecs.vqgan, j->codecs.condition};
    size_t vocab = j->p.labelled ? qkv_pixels_classes(j->p.all.images) : 0;
    for (size_t i = 0; i < 2 && codecs[i]; i++) {
        size_t codes = qkv__codec_config(codecs[i])->codes;
        vocab = codes > vocab ? codes : vocab;
    }
    j->config.vocab = vocab;
    j->config.rows = j->codecs.rows;
    j->config.columns = j->codecs.columns;
    j->config.before = j->codecs.before;
    j->config.positions = j->codecs.before + j->codecs.rows * j->codecs.columns - 1;
    return status;
}

static qkv_status imagine_make_model(job *j)
{
    qkv__run *base = &j->p.base;
    qkv_status status = imagine_choose_model(j);
    if (!status)
        status = qkv__run_create(base, qkv_prior_type(), &j->config);
    return status || !j->p.labelled ? status : qkv__image_label(&j->p);
}

static qkv_status imagine_load_model(job *j)
{
    qkv__run *base = &j->p.base;
    qkv_context *ctx = base->ctx;
    qkv_status status = qkv__run_load_able(base, QKV_CAN_SAMPLE_CODES,
                                           qkv_model_type_name(qkv_prior_type()));
    if (status)
        return status;
    if (j->p.labelled && !qkv_model_label_count(base->model))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--classes: %s knows none", base->o.init);
    if (!j->p.labelled && qkv_model_label_count(base->model))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--classes expected: what %s makes hangs on them",
                        base->o.init);
    j->codecs.prior = base->model;
    return qkv__prior_fits(&j->codecs, base->o.init);
}

static qkv_status imagine_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_context *ctx = base->ctx;
    j->p.labelled = j->s.classes;
    qkv_status status = QKV_OK;
    if (j->s.classes && j->s.condition)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "--classes and --condition-vqgan: one of them "
                        "expected, found both");
    status = qkv__prior_codecs(&j->codecs, ctx, j->s.vqgan, j->s.condition, j->p.s.size,
                               j->p.s.size);
    if (!status)
        status = qkv__image_read(&j->p, j->codecs.columns * j->codecs.factor, j->codecs.colors,
                                  NULL);
    if (!status)
        status = base->o.init ? imagine_load_model(j) : imagine_make_model(j);
    return status;
}

/* ---- codes --------------------------------------------------------------------------------- */

/* Codes images of those numbers (NULL: the first count) into OUT/name. */
static qkv_status code_set(job *j, const qkv_pixels *from, const size_t *numbers, size_t count,
                           size_t views, const char *where, const char *name)
{
    qkv__run *base = &j->p.base;
    qkv_context *ctx = base->ctx;
    qkv_pixels *pixels = NULL;
    size_t length = j->codecs.before + j->codecs.rows * j->codecs.columns;
    const qkv__coding o = {.views = views, .augment = j->s.augment, .classes = j->p.labelled,
                          .seed = base->o.seed};
    int32_t *tokens = NULL;
    qkv_status status = qkv__pixels_copy(&pixels, ctx, NULL, from, numbers, count,
                                         j->p.labelled ? base->model : NULL, where);
    if (!status && !(tokens = qkv_calloc(ctx, count, views * length * sizeof *tokens)))
        status = QKV_E_MEMORY;
    if (!status)
        status = qkv__prior_code(&j->codecs, pixels, &o, tokens);
    if (!status)
        status = qkv__codes_save(ctx, qkv__run_path(base, name).text, tokens, count * views,
                                 length);
    qkv_free(ctx, tokens);
    qkv_pixels_close(pixels);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------- */

static qkv_status open_code_grids(job *j, const char *name, bool required, qkv__grid_set *out)
{
    qkv__run *base = &j->p.base;
    const qkv_path path = qkv__run_path(base, name);
    if (!required && !qkv_file_exists(path.text))
        return QKV_OK;
    return qkv__grid_set_load(out, base->ctx, path.text, base->model);
}

static qkv_status imagine_open_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = open_code_grids(j, QKV__TRAIN_ARRAY, true, &j->train);
    return status ? status : open_code_grids(j, QKV__VALID_ARRAY, false, &j->valid);
}

static qkv_status save_codec(const job *j, qkv_model *m, const char *name)
{
    return m ? qkv_hub_save(m, qkv__run_path(&j->p.base, name).text, NULL) : QKV_OK;
}

static qkv_status imagine_write_data(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_held_out *s = &j->p.split;
    const qkv__image_set *all = &j->p.all, *held = &j->p.held;
    const char *images = j->p.s.images;
    qkv_status status = save_codec(j, j->codecs.vqgan, QKV__PRIOR_VQGAN);
    if (!status)
        status = save_codec(j, j->codecs.condition, QKV__PRIOR_CONDITION);
    if (!status)
        status = code_set(j, all->images, s->train, s->train_count, j->s.views, images,
                          QKV__TRAIN_ARRAY);
    if (!status && s->valid_count)
        status = code_set(j, all->images, s->valid, s->valid_count, 1, images, QKV__VALID_ARRAY);
    if (!status && held->images)
        status = code_set(j, held->images, NULL, qkv_pixels_count(held->images), 1, j->p.s.valid,
                          QKV__VALID_ARRAY);
    return status ? status : imagine_open_data(base);
}

static const char *basis(const job *j)
{
    if (qkv_model_label_count(j->p.base.model))
        return "their classes";
    const qkv_gpt_config *c = qkv_model_config(j->p.base.model);
    return c->before > 1 ? "other codes" : "nothing";
}

static qkv_status imagine_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_gpt_config *c = qkv_model_config(base->model);
    const qkv_code_grids *train = &j->train.g, *valid = j->valid.g.count ? &j->valid.g : NULL;
    qkv_status status = qkv_task_prior(&base->task, base->model, train, valid, j->s.keep,
                                       base->o.seed);
    if (status)
        return qkv_fail_prefix(base->ctx, base->o.out);
    qkv__run_rate(base, c->width, qkv_training_rate(c->width));
    qkv__note(base->ctx,
              "%s, %zu parameters, %zu x %zu of %zu codes, which hang on %s; %zu grids to "
              "learn from, %zu held out",
              qkv_model_type_name(qkv_prior_type()),
              qkv_params_elements(qkv_model_params(base->model)), c->rows, c->columns, c->vocab,
              basis(j), train->count, valid ? valid->count : 0);
    return QKV_OK;
}

static void imagine_close_job(qkv__run *base)
{
    job *j = (job *)base;
    qkv__prior_close(&j->codecs);
    qkv__grid_set_free(&j->train);
    qkv__grid_set_free(&j->valid);
    qkv__image_close(base);
}

/* A run that goes on has not needed the VQGAN so far. */
static qkv_status imagine_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    job *j = user;
    qkv__run *base = &j->p.base;
    (void)t;
    qkv_status status = j->codecs.vqgan ? QKV_OK
                                        : qkv__prior_open(&j->codecs, base->model, base->o.out);
    return status ? status : qkv__sample_imagined(&j->codecs, base, &j->train.g, out);
}

static const qkv_option_table *const task_tables[] = {&table, NULL};
static const char *const decided[] = {"vocab_size", "block_size", NULL};
static const char *const fixed[] = {"model", NULL};
static const qkv_preset presets[] = {
    {"model", "small", NULL},
    {"size", "0", "the VQGAN's own"},
    {"weight-decay", "0.3", NULL},
    {"beta2", "0.95", NULL},
    {"batch", "32", NULL},
    QKV__WARMUP_PRESET,
    {"lr", NULL, "0.384 / channels"},
    {"flip", "true", NULL},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {
    {&qkv__image_table, offsetof(job, p.s)},
    {&table, offsetof(job, s)},
    {&qkv__augment_table, offsetof(job, s.augment)},
    QKV__RUN_TABLES,
    {&qkv__prior_config, offsetof(job, config)},
    {NULL, 0}};

const qkv__job_kind qkv__job_imagine = {
    .name = "imagine", .size = sizeof(job), .tables = tables, .presets = presets,
    .can = QKV_CAN_SAMPLE_CODES, .read = imagine_read_data, .write = imagine_write_data,
    .open = imagine_open_data, .begin = imagine_begin, .close = imagine_close_job, .fixed = fixed,
    .sample = imagine_sample,
    .task_tables = task_tables, .decided = decided,
    .sizes = {qkv_prior_type}};
