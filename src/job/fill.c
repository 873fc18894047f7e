/* fill.c - `qkv train fill`: rows of numbers become a filler of gaps in such rows. */
#include <math.h>

#include "job/name_list.h"
#include "job/series_job.h"
#include "qkv/csv.h"
#include "qkv/infer.h"

static const double FILL_RATE = 3e-3; /* when none is given */

static const qkv_option rows[] = {
    QKV__SERIES_DATA_ROWS("rows of numbers, in which some may be missing, the oldest first"),
    QKV__SERIES_VALID_ROWS("rows to evaluate on"),
};
static const qkv_option_table table = {"Series with gaps", rows, sizeof rows / sizeof *rows, 0};

typedef struct {
    qkv__series_job p;
    qkv__series_options s;
    qkv_series_config config;
    qkv__name_list wanted; /* of --columns */
} job;

/* ---- the run --------------------------------------------------------------------------------- */

/* Columns without names in the file are called what --columns calls them. */
static qkv_status job_fill_make_model(job *j)
{
    qkv__run *base = &j->p.base;
    j->config.columns = j->p.train.columns;
    qkv_status status = qkv__run_create(base, qkv_series_filler_type(), &j->config);
    if (!status)
        status = qkv_series_fit_scale(base->model, &j->p.train);
    const char *const *names = j->p.data.names ? (const char *const *)j->p.data.names
                               : j->wanted.count ? j->wanted.items : NULL;
    if (!status && names)
        status = qkv_model_set_labels(base->model, names, j->config.columns);
    return status;
}

/* --init: its columns, of this file. */
static qkv_status fill_read_data(qkv__run *base)
{
    job *j = (job *)base;
    qkv_status status;
    if (base->o.init) {
        status = qkv__run_load_able(base, QKV_CAN_FILL_SERIES, "qkv_series_filler");
        if (!status)
            status = qkv__series_load(&j->p.data, base->model, j->s.data);
        if (!status)
            j->config = *(const qkv_series_config *)qkv_model_config(base->model);
    } else {
        status = qkv__names_cut(&j->wanted, base->ctx, j->s.columns, 0);
        if (!status)
            status = qkv_csv_load_gaps(&j->p.data, base->ctx, j->s.data, j->wanted.items,
                                       j->wanted.count);
    }
    j->p.train = qkv__series(&j->p.data);
    if (!status)
        status = qkv__series_hold_out(&j->p, &j->s, j->config.rows, "the context's");
    if (!status && !base->o.init)
        status = job_fill_make_model(j);
    return status ? status : qkv__series_read_valid(&j->p, &j->s);
}

static qkv_status fill_begin(qkv__run *base)
{
    job *j = (job *)base;
    const qkv_series_config *c = qkv_model_config(base->model);
    qkv_status status = qkv_task_fill(&base->task, base->model, &j->p.train, &j->p.valid,
                                      base->o.seed);
    if (status)
        return qkv_fail_prefix(base->ctx, j->s.valid && j->p.train.rows >= c->rows ? j->s.valid
                                                                                   : j->s.data);
    qkv__run_rate(base, c->width, FILL_RATE);
    qkv__note(base->ctx, "%s, %zu parameters; %zu rows of %zu to learn from, %zu held out",
              qkv_model_type_name(qkv_model_type_of(base->model)),
              qkv_params_elements(qkv_model_params(base->model)), j->p.train.rows, c->columns,
              j->p.valid.rows);
    return QKV_OK;
}

static void fill_close_data(qkv__run *base)
{
    qkv__names_drop(&((job *)base)->wanted, base->ctx);
    qkv__series_job_close(base);
}

/* A gap in the middle of the last window that is held out: as filled in, and as it was. */
static qkv_status fill_sample(void *user, qkv_tape *t, qkv_samples *out)
{
    const job *j = user;
    qkv_context *ctx = j->p.base.ctx;
    const qkv_series_config *c = qkv_model_config(j->p.base.model);
    const qkv_series *s = j->p.valid.data ? &j->p.valid : &j->p.train;
    size_t C = c->columns, gap = c->mask_span < c->rows / 2 ? c->mask_span : c->rows / 2;
    size_t first = (c->rows - gap) / 2;
    const qkv_real *truth = s->data + (s->rows - c->rows) * C;
    qkv_real *seen = qkv_calloc(ctx, c->rows, 2 * C * sizeof *seen);
    qkv_real *filled = seen ? seen + c->rows * C : NULL;
    (void)t;
    for (size_t i = 0; i < c->rows * C && seen; i++)
        seen[i] = i / C >= first && i / C < first + gap ? (qkv_real)NAN : truth[i];
    const qkv_series gapped = {seen, c->rows, C};
    qkv_status status =
        seen ? qkv_fill_series(j->p.base.model, &gapped, filled) : QKV_E_MEMORY;
    if (!status)
        status = qkv__series_sample(ctx, out, "gap", "filled", first + 1, gap, filled + first * C,
                                    C, truth + first * C, C);
    qkv_free(ctx, seen);
    return status;
}

static const char *const fixed[] = {"context", "patch", "mask", "mask-span", "columns", NULL};
static const qkv_preset presets[] = {QKV__SERIES_PRESETS("3e-3"), {NULL, NULL, NULL}};

static const qkv__job_table tables[] = {{&table, offsetof(job, s)}, QKV__RUN_TABLES, {NULL, 0}};

const qkv__job_kind qkv__job_fill = {
    .name = "fill", .size = sizeof(job), .tables = tables, .presets = presets,
    .type = qkv_series_filler_type, .config = offsetof(job, config),
    .read = fill_read_data, .write = qkv__series_job_write, .open = qkv__series_job_open,
    .begin = fill_begin, .close = fill_close_data, .fixed = fixed, .sample = fill_sample};
