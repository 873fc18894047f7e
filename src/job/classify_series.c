/* classify_series.c - labelled series become an encoder that labels others. */
#include "io/file.h"
#include "job/classify.h"
#include "model/tables.h"
#include "pipeline/series_set.h"
#include "qkv/task.h"
#include "text/texts.h"

static const double SERIES_RATE = 1e-3; /* when none is given */

typedef struct {
    size_t channels;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "channels", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(channels),
     .initial = "1", .help = "values of a step; a line has them step after step"},
};
static const qkv_option_table table = {"Series", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    qkv__classify_options c;
    settings s;
    qkv_series_config config;
    qkv__series_file data, valid_file;
    qkv_series_set train, valid; /* parts of data, valid_file; valid.count 0: none */
} job;

static qkv_series_set part_of(const qkv_series_set *s, size_t from, size_t count)
{
    return (qkv_series_set){s->data, s->start + from, s->labels + from, count, s->columns};
}

static size_t longest_series(const qkv_series_set *s)
{
    size_t most = 1;
    for (size_t i = 0; i < s->count; i++)
        most = s->start[i + 1] - s->start[i] > most ? s->start[i + 1] - s->start[i] : most;
    return most;
}

/* The model's, or what --context says, or the longest series. */
static qkv_status series_make_model(job *j)
{
    qkv_series_config *c = &j->config;
    c->columns = j->s.channels;
    c->classes = j->data.classes;
    if (c->classes < 2)
        return qkv_fail(j->base.ctx, QKV_E_FORMAT, "%s: at least 2 labels expected to learn from, "
                        "found %zu", j->c.data, c->classes);
    if (!qkv__run_given(&j->base, "context"))
        c->rows = (longest_series(&j->data.set) + c->patch - 1) / c->patch * c->patch;
    qkv_status status = qkv__run_create(&j->base, qkv_series_classifier_type(), c);
    const qkv_series all = {j->data.data, j->train.start[j->train.count], c->columns};
    if (!status)
        status = qkv_series_fit_scale(j->base.model, &all);
    return status ? status : qkv_model_set_labels(j->base.model,
                                                  (const char *const *)j->data.names,
                                                  j->data.classes);
}

static qkv_status classify_series_read(qkv__run *base)
{
    job *j = (job *)base;
    size_t tail = 0, most = qkv__run_given(base, "context") ? j->config.rows : SIZE_MAX >> 20;
    if (base->o.init)
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "--init: classifiers of series begin anew");
    if (qkv__run_given(base, "model"))
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "--model: classifiers of series have no "
                        "presets; --set d_model=.. and others set their size");
    qkv_status status = qkv__series_file_load(&j->data, base->ctx, j->c.data, true,
                                              j->s.channels, most, NULL, 0);
    if (!status && !j->c.valid)
        status = qkv__held_out(base->ctx, j->c.valid_last, j->data.set.count, "series", &tail);
    if (status)
        return status;
    j->train = part_of(&j->data.set, 0, j->data.set.count - tail);
    j->valid = part_of(&j->data.set, j->train.count, tail);
    status = series_make_model(j);
    const qkv_series_config *c = status ? NULL : qkv_model_config(base->model);
    if (!status && j->c.valid)
        status = qkv__series_file_load(&j->valid_file, base->ctx, j->c.valid, true, c->columns,
                                       c->rows, qkv_model_labels(base->model),
                                       qkv_model_label_count(base->model));
    if (!status && j->c.valid)
        j->valid = j->valid_file.set;
    return status;
}

static qkv_status classify_series_write(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = qkv__series_set_save(base->ctx, qkv__run_path(base, QKV__TRAIN_ARRAY).text,
                                             &j->train, 0, j->train.count);
    if (!status && j->valid.count)
        status = qkv__series_set_save(base->ctx, qkv__run_path(base, QKV__VALID_ARRAY).text,
                                      &j->valid, 0, j->valid.count);
    return status;
}

static qkv_status classify_series_open(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_series_config *c = qkv_model_config(base->model);
    const qkv_path train = qkv__run_path(base, QKV__TRAIN_ARRAY);
    const qkv_path valid = qkv__run_path(base, QKV__VALID_ARRAY);
    qkv_status status = qkv__series_set_open(&j->data, base->ctx, train.text, c->columns,
                                             c->classes);
    if (!status && qkv_file_exists(valid.text))
        status = qkv__series_set_open(&j->valid_file, base->ctx, valid.text, c->columns,
                                      c->classes);
    j->train = j->data.set;
    j->valid = j->valid_file.set;
    return status;
}

static qkv_status classify_series_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_series_config *c = qkv_model_config(base->model);
    qkv_status status = qkv_task_classify_series(&base->task, base->model, &j->train,
                                                 j->valid.count ? &j->valid : NULL,
                                                 j->c.smoothing, base->o.seed);
    if (status)
        return qkv_fail_prefix(base->ctx, j->c.data);
    qkv__run_rate(base, c->width, SERIES_RATE);
    qkv__note(base->ctx, "%s, %zu parameters, %zu classes; %zu series to learn from, %zu held out",
              qkv_model_type_name(qkv_model_type_of(base->model)),
              qkv_params_elements(qkv_model_params(base->model)), c->classes, j->train.count,
              j->valid.count);
    return QKV_OK;
}

static void classify_series_close(qkv__run *base)
{
    job *j = (job *)base;
    qkv__series_file_free(&j->data);
    qkv__series_file_free(&j->valid_file);
}

static const qkv_preset presets[] = {
    {"batch", "64", NULL},
    {"ema", "0.995", NULL},
    {"weight-decay", "0.1", NULL},
    QKV__WARMUP_PRESET,
    {"lr", "1e-3", NULL},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};
static const char *const decided[] = {"input_size", "num_labels", NULL};
static const qkv__job_table tables[] = {
    {&qkv__classify_table, offsetof(job, c)}, {&table, offsetof(job, s)}, QKV__RUN_TABLES,
    {&qkv__series_classifier_config, offsetof(job, config)}, {NULL, 0}};

const qkv__job_kind qkv__classify_series_kind = {
    .name = "classify", .size = sizeof(job), .tables = tables, .presets = presets,
    .decides = qkv__classify_decides, .variant = qkv__job_classify_variant,
    .can = QKV_CAN_CLASSIFY_SERIES, .read = classify_series_read, .write = classify_series_write,
    .open = classify_series_open, .begin = classify_series_begin,
    .close = classify_series_close, .decided = decided, .about = "series"};
