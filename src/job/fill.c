/* fill.c - `qkv train fill`: rows of numbers become a filler of gaps in such rows. */
#include <math.h>

#include "job/name_list.h"
#include "job/run.h"
#include "job/sample.h"
#include "model/tables.h"
#include "pipeline/series.h"
#include "qkv/infer.h"
#include "text/texts.h"

static const double FILL_RATE = 3e-3; /* when none is given */

typedef struct {
    const char *data, *valid, *valid_last, *columns;
} settings;

#define FIELD(member) .offset = offsetof(settings, member)
static const qkv_option rows[] = {
    {.flag = "data", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, FIELD(data),
     .value = "CSV", .help = "rows of numbers, in which some may be missing, the oldest first"},
    {.flag = "columns", .type = QKV_OPT_STRING, FIELD(columns), .value = "A,B",
     .help = "columns to read, by name or number; else all"},
    {.flag = "valid", .type = QKV_OPT_STRING, FIELD(valid), .value = "CSV",
     .help = "rows to evaluate on"},
    {.flag = "valid-last", .type = QKV_OPT_STRING, FIELD(valid_last), .value = "N[%]",
     .initial = "10%", .help = "else: rows or share held out at the end of the data"},
};
static const qkv_option_table table = {"Series with gaps", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__run base;
    settings s;
    qkv_series_config config;
    qkv_array data, valid_file;
    qkv_series train, valid; /* parts of data and valid_file */
} job;

/* ---- the run --------------------------------------------------------------------------------- */

/* Columns without names in the file are called what --columns calls them. */
static qkv_status job_fill_make_model(job *j, const qkv__name_list *wanted)
{
    j->config.columns = j->train.columns;
    qkv_status status = qkv__run_create(&j->base, qkv_series_filler_type(), &j->config);
    if (!status)
        status = qkv_series_fit_scale(j->base.model, &j->train);
    const char *const *names = j->data.names ? (const char *const *)j->data.names
                               : wanted->count ? wanted->items : NULL;
    if (!status && names)
        status = qkv_model_set_labels(j->base.model, names, j->config.columns);
    if (!status && j->s.valid)
        status = qkv__series_load_gaps(&j->valid_file, j->base.model, j->s.valid);
    if (!status && j->s.valid)
        j->valid = qkv__series(&j->valid_file);
    return status;
}

static qkv_status fill_hold_out(job *j)
{
    size_t tail = 0;
    qkv_status status = j->s.valid ? QKV_OK : qkv__held_out(j->base.ctx, j->s.valid_last,
                                                            j->train.rows, "rows", &tail);
    if (status || !tail)
        return status;
    if (tail < j->config.rows)
        return qkv_fail(j->base.ctx, QKV_E_ARGUMENT, "--valid-last: %zu of %zu rows of %s are "
                        "fewer than the %zu that are read at once (--context)", tail,
                        j->train.rows, j->s.data, j->config.rows);
    j->train.rows -= tail;
    j->valid = (qkv_series){j->train.data + j->train.rows * j->train.columns, tail,
                            j->train.columns};
    return QKV_OK;
}

static qkv_status fill_read_new(job *j)
{
    qkv__name_list wanted;
    qkv_context *ctx = j->base.ctx;
    qkv_status status = qkv__names_cut(&wanted, ctx, j->s.columns, 0);
    if (!status)
        status = qkv_csv_load_gaps(&j->data, ctx, j->s.data, wanted.items, wanted.count);
    j->train = qkv__series(&j->data);
    if (!status)
        status = fill_hold_out(j);
    if (!status)
        status = job_fill_make_model(j, &wanted);
    qkv__names_drop(&wanted, ctx);
    return status;
}

/* --init: its columns, of this file. */
static qkv_status fill_read_data(qkv__run *base)
{
    job *j = (job *)base;
    if (!base->o.init)
        return fill_read_new(j);
    qkv_status status = qkv__run_load(base, &base->model);
    if (!status && !qkv_model_can(base->model, QKV_CAN_FILL_SERIES))
        status = qkv_fail(base->ctx, QKV_E_ARGUMENT, "%s: a %s model does not fill gaps",
                          base->o.init, qkv_model_type_name(qkv_model_type_of(base->model)));
    if (!status)
        status = qkv__series_load_gaps(&j->data, base->model, j->s.data);
    if (status)
        return status;
    j->config = *(const qkv_series_config *)qkv_model_config(base->model);
    j->train = qkv__series(&j->data);
    status = fill_hold_out(j);
    if (!status && j->s.valid)
        status = qkv__series_load_gaps(&j->valid_file, base->model, j->s.valid);
    if (!status && j->s.valid)
        j->valid = qkv__series(&j->valid_file);
    return status;
}

static qkv_status fill_save(const qkv__run *base, const char *name, const qkv_series *s)
{
    const size_t shape[] = {s->rows, s->columns};
    return qkv_npy_save(base->ctx, qkv__run_path(base, name).text, 2, shape, s->data,
                        QKV_STORE_F32);
}

static qkv_status fill_write_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status = fill_save(base, QKV__TRAIN_ARRAY, &j->train);
    return status || !j->valid.data ? status : fill_save(base, QKV__VALID_ARRAY, &j->valid);
}

static qkv_status fill_open_data(qkv__run *base)
{
    job *j = (job *)base;
    const char *out = base->o.out;
    qkv_status status = qkv__series_open(&j->data, base->ctx, out, QKV__TRAIN_ARRAY, true);
    if (!status)
        status = qkv__series_open(&j->valid_file, base->ctx, out, QKV__VALID_ARRAY, false);
    j->train = qkv__series(&j->data);
    j->valid = qkv__series(&j->valid_file);
    return status;
}

static qkv_status fill_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_series_config *c = qkv_model_config(base->model);
    qkv_status status = qkv_task_fill(&base->task, base->model, &j->train, &j->valid,
                                      base->o.seed);
    if (status)
        return qkv_fail_prefix(base->ctx, j->s.valid && j->train.rows >= c->rows ? j->s.valid
                                                                                 : j->s.data);
    qkv__run_rate(base, c->width, FILL_RATE);
    qkv__note(base->ctx, "%s, %zu parameters; %zu rows of %zu to learn from, %zu held out",
              qkv_model_type_name(qkv_model_type_of(base->model)),
              qkv_params_elements(qkv_model_params(base->model)), j->train.rows, c->columns,
              j->valid.rows);
    return QKV_OK;
}

static void fill_close_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_array_free(&j->data);
    qkv_array_free(&j->valid_file);
}

/* A gap in the middle of the last window that is held out: as filled in, and as it was. */
static qkv_status fill_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    const job *j = user;
    qkv_context *ctx = j->base.ctx;
    const qkv_series_config *c = qkv_model_config(j->base.model);
    const qkv_series *s = j->valid.data ? &j->valid : &j->train;
    size_t C = c->columns, gap = c->mask_span < c->rows / 2 ? c->mask_span : c->rows / 2;
    size_t first = (c->rows - gap) / 2;
    const qkv_real *truth = s->data + (s->rows - c->rows) * C;
    qkv_real *seen = qkv_calloc(ctx, c->rows, 2 * C * sizeof *seen);
    qkv_real *filled = seen ? seen + c->rows * C : NULL;
    qkv_str text;
    (void)t;
    qkv_str_init(&text, ctx);
    qkv_str_puts(&text, "row  filled  truth\n");
    for (size_t i = 0; i < c->rows * C && seen; i++)
        seen[i] = i / C >= first && i / C < first + gap ? (qkv_real)NAN : truth[i];
    const qkv_series gapped = {seen, c->rows, C};
    qkv_status status = seen ? qkv_fill_series(j->base.model, &gapped, filled) : QKV_E_MEMORY;
    for (size_t i = first; i < first + gap && !status; i++)
        qkv_str_printf(&text, "%zu  %.6g  %.6g\n", i + 1, (double)filled[i * C],
                       (double)truth[i * C]);
    if (!status)
        status = text.failed ? QKV_E_MEMORY : qkv_samples_text(out, "gap", text.data, text.len);
    qkv_str_free(&text);
    qkv_free(ctx, seen);
    return status;
}

static const char *const fixed[] = {"context", "patch", "mask", "mask-span", "columns", NULL};
static const qkv_preset presets[] = {
    {"batch", "64", NULL},
    {"ema", "0.995", NULL},
    {"weight-decay", "0.1", NULL},
    {"beta2", "0.99", NULL},
    QKV__WARMUP_PRESET,
    {"lr", "3e-3", NULL},
    QKV__COMMON_PRESETS,
    {NULL, NULL, NULL},
};

static const qkv__job_table tables[] = {{&table, offsetof(job, s)}, QKV__RUN_TABLES, {NULL, 0}};

const qkv__job_kind qkv__job_fill = {
    .name = "fill", .size = sizeof(job), .tables = tables, .presets = presets,
    .type = qkv_series_filler_type, .config = offsetof(job, config),
    .read = fill_read_data, .write = fill_write_data, .open = fill_open_data,
    .begin = fill_begin, .close = fill_close_data, .fixed = fixed, .sample = fill_sample};
