/* fill_series.c - learning to fill in what is missing of a series: known values are hidden and
 * predicted; evaluated beside linear interpolation and the last value. */
#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "task/common.h"
#include "task/gaps.h"

enum { EVAL_WINDOWS = 32, STRIDES = 4 }; /* at once; windows that overlap each row */
static const uint64_t EVAL_SEED = 0x66696C6Cu; /* the same gaps in every evaluation */

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_series_config *c;
    qkv_series train, valid;
    uint64_t seed;
} filling;

/* Windows with gaps, what was hidden, and how many of each. */
typedef struct {
    const qkv_real *full[EVAL_WINDOWS]; /* of evaluations */
    const qkv_real **data;
    qkv_real *rows; /* (count, rows, columns) */
    size_t count, *hidden;
} gapped;

/* ---- training -------------------------------------------------------------------------------- */

/* weight (rows, columns): 1 / sqrt(hidden) where a known value was hidden, else 0; target: that
 * value, in the training rows' standard deviations, else 0. */
static void put_hidden(const qkv_model *m, const qkv_real *full, const qkv_real *seen,
                       size_t hidden, qkv_real *target, qkv_real *weight)
{
    const qkv_series_config *c = qkv_model_config(m);
    const qkv_real *mean = qkv_series_mean(m), *std = qkv_series_std(m);
    for (size_t i = 0; i < c->rows * c->columns; i++) {
        bool asked = isfinite(full[i]) && !isfinite(seen[i]);
        weight[i] = asked ? (qkv_real)(1 / sqrt((double)hidden)) : 0;
        target[i] = asked ? (full[i] - mean[i % c->columns]) / std[i % c->columns] : 0;
    }
}

/* Memory for `count` windows; NULL data: out of memory. */
static gapped make_gapped(qkv_context *ctx, const qkv_series_config *c, size_t count)
{
    gapped g = {.count = count, .data = qkv_malloc(ctx, (count + 1) * sizeof *g.data),
                .rows = qkv_calloc(ctx, count, c->rows * c->columns * sizeof *g.rows),
                .hidden = qkv_calloc(ctx, count, sizeof *g.hidden)};
    for (size_t i = 0; i < count && g.data && g.rows; i++)
        g.data[i] = g.rows + i * c->rows * c->columns;
    return g;
}

static bool is_made(const gapped *g) { return g->data && g->rows && g->hidden; }

static void free_gapped(gapped *g, qkv_context *ctx)
{
    qkv_free(ctx, g->data);
    qkv_free(ctx, g->rows);
    qkv_free(ctx, g->hidden);
}

static qkv_tensor *fill_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    filling *f = self;
    const qkv_series_config *c = f->c;
    size_t B = part->count, size = c->rows * c->columns, shape[] = {B * c->rows, c->columns};
    uint64_t windows = f->train.rows - c->rows + 1;
    gapped g = make_gapped(f->ctx, c, B);
    qkv_tensor *target = is_made(&g) ? qkv_tensor_from(t, NULL, 2, shape) : NULL;
    qkv_tensor *weight = target ? qkv_tensor_from(t, NULL, 2, shape) : NULL, *y = NULL;
    for (size_t i = 0; i < B && weight; i++) {
        uint64_t sample = qkv__first_sample(part) + i;
        size_t at = (size_t)qkv__epoch_place(f->seed, "gaps", sample, windows);
        const qkv_real *full = f->train.data + at * c->columns;
        g.hidden[i] = qkv__gaps_hide(c, f->seed, sample, full, c->rows, g.rows + i * size);
        put_hidden(f->model, full, g.rows + i * size, g.hidden[i],
                   qkv_tensor_fill(target) + i * size, qkv_tensor_fill(weight) + i * size);
    }
    if (weight)
        y = qkv_series_fill(f->model, t, &(qkv_series_batch){.data = g.data, .count = B});
    free_gapped(&g, f->ctx);
    if (!y)
        return NULL;
    qkv_tensor *e = qkv_mul(t, qkv_sub(t, y, target), weight);
    return qkv__share_of_batch(t, qkv_scale(t, qkv_sum(t, qkv_mul(t, e, e)), 1 / (double)B), part);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

/* Sums over hidden values, and how many they are; those named loss in standard deviations. */
typedef struct {
    double loss, mse, mae, line, last, line_loss, last_loss, values;
} fill_sums;
enum { FILL_SUMS = sizeof(fill_sums) / sizeof(double) };

/* Each column filled with the value before, or the first. */
static void fill_with_last(qkv_real *column, size_t rows, size_t stride, qkv_real otherwise)
{
    qkv_real value = otherwise;
    for (size_t i = rows; i-- > 0;)
        value = isfinite(column[i * stride]) ? column[i * stride] : value;
    for (size_t i = 0; i < rows; i++) {
        value = isfinite(column[i * stride]) ? column[i * stride] : value;
        column[i * stride] = value;
    }
}

/* y (rows, columns) is what the model made of `seen`, of which line and last are copies. */
static void add_fill_errors(fill_sums *s, const qkv_model *m, const qkv_real *full,
                            const qkv_real *seen, const qkv_real *y, qkv_real *line,
                            qkv_real *last)
{
    const qkv_series_config *c = qkv_model_config(m);
    const qkv_real *mean = qkv_series_mean(m), *std = qkv_series_std(m);
    size_t C = c->columns;
    for (size_t j = 0; j < C; j++) {
        qkv_series_interpolate(line + j, c->rows, C, mean[j]);
        fill_with_last(last + j, c->rows, C, mean[j]);
    }
    for (size_t i = 0; i < c->rows * C; i++) {
        if (!isfinite(full[i]) || isfinite(seen[i]))
            continue;
        double scale = (double)std[i % C], truth = (double)full[i];
        double e = (double)y[i] * scale + (double)mean[i % C] - truth;
        double by_line = (double)line[i] - truth, by_last = (double)last[i] - truth;
        s->mse += e * e;
        s->mae += fabs(e);
        s->line += by_line * by_line;
        s->last += by_last * by_last;
        s->loss += e * e / (scale * scale);
        s->line_loss += by_line * by_line / (scale * scale);
        s->last_loss += by_last * by_last / (scale * scale);
        s->values++;
    }
}

/* Windows 0 .. of `all`, each a quarter of its rows behind the one before: `count` of them, evenly
 * over all. */
typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_series *series;
    size_t count, all;
    gapped g;
    qkv_real *line, *last; /* (rows, columns) */
} fill_scorer;

static qkv_status evaluate_gapped(fill_scorer *j, size_t count, fill_sums *sums)
{
    const qkv_series_config *c = qkv_model_config(j->model);
    const gapped *g = &j->g;
    size_t size = c->rows * c->columns;
    qkv__begin_inference(j->tape);
    const qkv_series_batch in = {.data = g->data, .count = count};
    const qkv_real *y = qkv_data(j->tape, qkv_series_fill(j->model, j->tape, &in));
    for (size_t i = 0; i < count && y; i++) {
        for (size_t k = 0; k < size; k++)
            j->line[k] = j->last[k] = g->data[i][k];
        add_fill_errors(sums, j->model, g->full[i], g->data[i], y + i * size, j->line, j->last);
    }
    return qkv_tape_status(j->tape);
}

static qkv_status fill_part(void *user, size_t part, double *out)
{
    fill_scorer *j = user;
    const qkv_series_config *c = qkv_model_config(j->model);
    size_t step = c->rows / STRIDES ? c->rows / STRIDES : 1, from = part * EVAL_WINDOWS;
    size_t n = j->count - from < EVAL_WINDOWS ? j->count - from : EVAL_WINDOWS;
    fill_sums sums = {0};
    for (size_t i = 0; i < n; i++) {
        size_t at = qkv__evenly(from + i, j->count, j->all);
        j->g.full[i] = j->series->data + at * step * c->columns;
        (void)qkv__gaps_hide(c, EVAL_SEED, at, j->g.full[i], c->rows,
                             j->g.rows + i * c->rows * c->columns);
    }
    qkv_status status = evaluate_gapped(j, n, &sums);
    memcpy(out, &sums, sizeof sums);
    return status;
}

static qkv_status evaluate_fill(fill_scorer *j, fill_sums *sums)
{
    qkv_context *ctx = qkv_model_context(j->model);
    const qkv_series_config *c = qkv_model_config(j->model);
    size_t size = c->rows * c->columns, parts = (j->count + EVAL_WINDOWS - 1) / EVAL_WINDOWS;
    double all[FILL_SUMS] = {0};
    j->g = make_gapped(ctx, c, EVAL_WINDOWS);
    j->line = qkv_calloc(ctx, 2 * size, sizeof *j->line);
    j->last = j->line + size;
    qkv_status status = j->line && is_made(&j->g) ? QKV_OK : QKV_E_MEMORY;
    if (!status)
        status = qkv__dist_map_sum(ctx, parts, FILL_SUMS, fill_part, j, all);
    memcpy(sums, all, sizeof all);
    qkv_tape_reset(j->tape);
    qkv_free(ctx, j->line);
    free_gapped(&j->g, ctx);
    return status;
}

static qkv_status check_fill_series(const qkv_model *m, const qkv_series *s, const char *what)
{
    const qkv_series_config *c = qkv_model_config(m);
    qkv_context *ctx = qkv_model_context(m);
    if (s->columns != c->columns)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s series has %zu columns, the model %zu", what,
                        s->columns, c->columns);
    if (s->rows < c->rows)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s series has %zu rows; the model reads %zu at "
                        "once", what, s->rows, c->rows);
    return QKV_OK;
}

qkv_status qkv_fill_evaluate(qkv_model *m, qkv_tape *t, const qkv_series *series, size_t limit,
                             qkv_fill_score *out)
{
    *out = (qkv_fill_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_FILL_SERIES))
        return QKV_E_ARGUMENT;
    qkv_status status = check_fill_series(m, series, "held-out");
    if (status)
        return status;
    const qkv_series_config *c = qkv_model_config(m);
    size_t step = c->rows / STRIDES ? c->rows / STRIDES : 1;
    size_t all = (series->rows - c->rows) / step + 1, count = limit / c->rows;
    fill_sums s = {0};
    count = limit ? qkv__limited(count ? count : 1, all) : all;
    fill_scorer j = {.model = m, .tape = t, .series = series, .count = count, .all = all};
    status = evaluate_fill(&j, &s);
    double n = s.values > 0 ? s.values : 1;
    double naive = fmin(s.line_loss, s.last_loss);
    *out = (qkv_fill_score){.loss = s.loss / n, .mse = s.mse / n, .mae = s.mae / n,
                            .interpolation = s.line / n, .last = s.last / n,
                            .ratio = naive > 0 ? s.loss / naive : 1,
                            .values = (size_t)s.values,
                            .rows = count * c->rows, .all = all * c->rows};
    return status;
}

static qkv_status fill_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    filling *f = self;
    qkv_fill_score s;
    qkv_status status = qkv_fill_evaluate(f->model, t, &f->valid, limit, &s);
    *out = (qkv_metrics){.item = {{"loss", s.loss}, {"mse", s.mse}, {"mae", s.mae},
                                  {"interpolation", s.interpolation}, {"last", s.last},
                                  {"ratio", s.ratio}},
                         .count = 6, .scored = s.rows, .units = s.all};
    return status;
}

/* ---- the task -------------------------------------------------------------------------------- */

static size_t fill_units(void *self) { return ((filling *)self)->c->rows; }

static double task_fill_flops(void *self)
{
    return qkv_model_flops(((filling *)self)->model, &(qkv_workload){.samples = 1});
}

static void fill_destroy(void *self)
{
    filling *f = self;
    qkv_free(f->ctx, f);
}

static const qkv_task_type fill_type = {.name = "fill", .unit = "rows", .phases = 1,
                                        .loss = fill_loss, .evaluate = fill_evaluate,
                                        .units = fill_units, .flops = task_fill_flops,
                                        .destroy = fill_destroy};

qkv_status qkv_task_fill(qkv_task *out, qkv_model *model, const qkv_series *train,
                         const qkv_series *valid, uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_FILL_SERIES))
        return QKV_E_ARGUMENT;
    bool held_out = valid && valid->data;
    qkv_status status = check_fill_series(model, train, "training");
    if (!status && held_out)
        status = check_fill_series(model, valid, "held-out");
    qkv_context *ctx = qkv_model_context(model);
    filling *f = qkv__task_alloc(ctx, sizeof *f, &status);
    if (!f)
        return status;
    *f = (filling){.ctx = ctx, .model = model, .c = qkv_model_config(model), .train = *train,
                   .seed = seed};
    if (held_out)
        f->valid = *valid;
    return qkv__task_finish(out, status, (qkv_task){&fill_type, f, model, seed, held_out});
}
