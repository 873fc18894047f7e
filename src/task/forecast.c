/* forecast.c - predicting the rows behind a window of rows, and evaluating that beside the naive
 * forecasts: the last row again, and the row of a season before. */
#include <math.h>
#include <string.h>

#include "dist/map.h"
#include "task/common.h"

enum { EVAL_WINDOWS = 64, SEASONS = 4096, SEASON_ROWS = 65536 };

typedef struct {
    qkv_context *ctx;
    qkv_model *model;
    const qkv_forecast_config *c;
    qkv_series train, valid;
    uint64_t seed;
} forecast;

/* ---- windows -------------------------------------------------------------------------------- */

size_t qkv_forecast_window(const qkv_forecast_config *c, size_t rows, uint64_t seed,
                           uint64_t sample)
{
    uint64_t windows = rows - c->context - c->horizon + 1;
    return (size_t)qkv__epoch_place(seed, "series", sample, windows);
}

/* The targets of `horizon` rows from `row` on, in the training rows' standard deviations: out
 * (horizon, targets). */
static void read_target(const qkv_model *m, const qkv_series *s, size_t row, qkv_real *out)
{
    const qkv_forecast_config *c = qkv_model_config(m);
    const qkv_real *mean = qkv_forecast_mean(m), *std = qkv_forecast_std(m);
    for (size_t i = 0; i < c->horizon; i++)
        for (size_t j = 0; j < c->targets; j++)
            out[i * c->targets + j] =
                (s->data[(row + i) * s->columns + j] - mean[j]) / std[j];
}

static qkv_tensor *forecast_loss(void *self, qkv_tape *t, const qkv_micro_batch *part)
{
    forecast *f = self;
    const qkv_forecast_config *c = f->c;
    size_t B = part->count, shape[] = {B, c->horizon, c->targets};
    const qkv_real **windows = qkv_malloc(f->ctx, (B + 1) * sizeof *windows);
    qkv_tensor *target = windows ? qkv_tensor_from(t, NULL, 3, shape) : NULL;
    for (size_t i = 0; i < B && target; i++) {
        size_t at = qkv_forecast_window(c, f->train.rows, f->seed, qkv__first_sample(part) + i);
        windows[i] = f->train.data + at * c->columns;
        read_target(f->model, &f->train, at + c->context,
                    qkv_tensor_fill(target) + i * c->horizon * c->targets);
    }
    qkv_tensor *y = target ? qkv_forecast_forced(f->model, t, windows, target, B) : NULL;
    qkv_free(f->ctx, windows);
    if (!y)
        return NULL;
    return qkv__share_of_batch(t, qkv_forecast_loss(f->model, t, y, target), part);
}

/* ---- naive forecasts --------------------------------------------------------------------- */

size_t qkv_forecast_lead(const qkv_forecast_config *c)
{
    return c->season > c->context ? c->season : c->context;
}

/* Row h of the horizon is forecast by the row that lies so many rows before it. */
static size_t back(size_t season, size_t h) { return season * (h / season + 1); }

/* Mean squared difference of rows `lag` apart, each target in its own variance. */
static double forecast_difference(const qkv_series *s, const double *variance, size_t targets,
                                  size_t lag)
{
    double sum = 0;
    for (size_t j = 0; j < targets; j++) {
        const qkv_real *x = s->data + j;
        double squares = 0;
        for (size_t i = lag; i < s->rows; i++) {
            double d = (double)x[i * s->columns] - (double)x[(i - lag) * s->columns];
            squares += d * d;
        }
        sum += variance[j] > 0 ? squares / variance[j] : 0;
    }
    return sum / (double)(s->rows - lag);
}

static double variance_of(const qkv_series *s, size_t column)
{
    const qkv_real *x = s->data + column;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < s->rows; i++) {
        double d = (double)x[i * s->columns] - (double)x[0];
        sum += d;
        squares += d * d;
    }
    return squares / (double)s->rows - sum / (double)s->rows * (sum / (double)s->rows);
}

/* Is the difference smaller at this lag than at all within a quarter of it? A slow series differs
 * the less the shorter the lag, which is no season. */
static bool is_valley(const double *differences, size_t lag, size_t lags)
{
    size_t from = lag - lag / 4 - 1, to = lag + lag / 4 + 1;
    for (size_t k = from; k <= to && k <= lags; k++)
        if (differences[k] < differences[lag])
            return false;
    return true;
}

static size_t best_season(const double *differences, size_t most, size_t horizon)
{
    size_t best = 1;
    double least = INFINITY;
    for (size_t season = 2; season <= most; season++) {
        double sum = 0;
        for (size_t h = 0; h < horizon; h++)
            sum += differences[back(season, h)];
        if (sum < least && is_valley(differences, season, most + horizon)) {
            least = sum;
            best = season;
        }
    }
    return best;
}

qkv_status qkv_forecast_find_season(size_t *out, qkv_context *ctx, const qkv_forecast_config *c,
                                    const qkv_series *train)
{
    qkv_series s = *train;
    if (s.rows > SEASON_ROWS) {
        s.data += (s.rows - SEASON_ROWS) * s.columns;
        s.rows = SEASON_ROWS;
    }
    size_t most = s.rows / 3 < SEASONS ? s.rows / 3 : SEASONS, lags = most + c->horizon;
    size_t K = c->targets ? c->targets : c->columns;
    *out = 1;
    if (lags >= s.rows)
        return QKV_OK;
    double *variance = qkv_malloc(ctx, (K + lags + 1) * sizeof *variance);
    if (!variance)
        return QKV_E_MEMORY;
    double *differences = variance + K;
    for (size_t j = 0; j < K; j++)
        variance[j] = variance_of(&s, j);
    for (size_t lag = 1; lag <= lags; lag++)
        differences[lag] = forecast_difference(&s, variance, K, lag);
    *out = best_season(differences, most, c->horizon);
    qkv_free(ctx, variance);
    return QKV_OK;
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* Sums over what was evaluated so far; the last three in standard deviations, as the forecast. */
typedef struct {
    double loss, mse, mae, persistence, seasonal, persistence_loss, seasonal_loss;
} sums;
enum { SUMS = sizeof(sums) / sizeof(double) };

/* The window that starts at `at` was forecast as y (horizon, targets). season 0: not known. */
static void add_errors(sums *sum, const qkv_model *m, const qkv_series *s, size_t at,
                       const qkv_real *y, size_t season)
{
    const qkv_forecast_config *c = qkv_model_config(m);
    const qkv_real *mean = qkv_forecast_mean(m), *std = qkv_forecast_std(m);
    size_t row = at + c->context;
    for (size_t h = 0; h < c->horizon; h++)
        for (size_t j = 0; j < c->targets; j++) {
            const qkv_real *x = s->data + j;
            double scale = (double)std[j], truth = (double)x[(row + h) * s->columns];
            double e = ((double)y[h * c->targets + j] - (truth - (double)mean[j]) / scale);
            double last = (double)x[(row - 1) * s->columns] - truth;
            sum->loss += e * e;
            sum->mse += e * e * scale * scale;
            sum->mae += fabs(e) * scale;
            sum->persistence += last * last;
            sum->persistence_loss += last * last / (scale * scale);
            if (!season)
                continue;
            double before = (double)x[(row + h - back(season, h)) * s->columns] - truth;
            sum->seasonal += before * before;
            sum->seasonal_loss += before * before / (scale * scale);
        }
}

/* Windows start, start + .. of the series: `count` of them, evenly over `total`. */
typedef struct {
    qkv_model *model;
    qkv_tape *tape;
    const qkv_series *series;
    size_t start, count, total, season;
} evaluated;

static qkv_status score_windows(void *user, size_t part, double *out)
{
    const evaluated *w = user;
    const qkv_series *s = w->series;
    const qkv_forecast_config *c = qkv_model_config(w->model);
    const qkv_real *windows[EVAL_WINDOWS];
    size_t at[EVAL_WINDOWS], from = part * EVAL_WINDOWS;
    size_t B = w->count - from < EVAL_WINDOWS ? w->count - from : EVAL_WINDOWS;
    sums sum = {0};
    for (size_t i = 0; i < B; i++) {
        at[i] = w->start + (from + i) * w->total / w->count;
        windows[i] = s->data + at[i] * s->columns;
    }
    qkv__begin_inference(w->tape);
    const qkv_real *y = qkv_data(w->tape, qkv_forecast_forward(w->model, w->tape, windows, B));
    for (size_t i = 0; i < B && y; i++)
        add_errors(&sum, w->model, s, at[i], y + i * c->horizon * c->targets, w->season);
    memcpy(out, &sum, sizeof sum);
    return qkv_tape_status(w->tape);
}

static qkv_status evaluate_windows(evaluated *w, sums *sum)
{
    double all[SUMS] = {0};
    qkv_status status = qkv__dist_map_sum(qkv_model_context(w->model),
                                          (w->count + EVAL_WINDOWS - 1) / EVAL_WINDOWS, SUMS,
                                          score_windows, w, all);
    memcpy(sum, all, sizeof all);
    qkv_tape_reset(w->tape);
    return status;
}

static qkv_status check_series(const qkv_model *m, const qkv_series *s, const char *what)
{
    const qkv_forecast_config *c = qkv_model_config(m);
    qkv_context *ctx = qkv_model_context(m);
    if (s->columns != c->columns)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s series has %zu columns, the model %zu", what,
                        s->columns, c->columns);
    if (s->rows < c->context + c->horizon)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "the %s series has %zu rows; at least %zu are "
                        "needed, %zu of context and %zu to forecast", what, s->rows,
                        c->context + c->horizon, c->context, c->horizon);
    return QKV_OK;
}

qkv_status qkv_forecast_evaluate(qkv_model *m, qkv_tape *t, const qkv_series *series,
                                 size_t limit, qkv_forecast_score *out)
{
    *out = (qkv_forecast_score){0};
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_FORECAST))
        return QKV_E_ARGUMENT;
    qkv_status status = check_series(m, series, "held-out");
    if (status)
        return status;
    const qkv_forecast_config *c = qkv_model_config(m);
    bool known = c->season && series->rows >= qkv_forecast_lead(c) + c->horizon;
    evaluated w = {.model = m, .tape = t, .series = series,
                   .start = known ? qkv_forecast_lead(c) - c->context : 0,
                   .season = known ? c->season : 0};
    w.total = series->rows - c->context - c->horizon - w.start + 1;
    w.count = limit && limit / c->horizon < w.total ? limit / c->horizon : w.total;
    w.count = w.count ? w.count : 1;
    sums sum = {0};
    status = evaluate_windows(&w, &sum);
    double n = (double)(w.count * c->horizon * c->targets), naive = sum.persistence_loss;
    if (known && sum.seasonal_loss < naive)
        naive = sum.seasonal_loss;
    *out = (qkv_forecast_score){.loss = sum.loss / n, .mse = sum.mse / n, .mae = sum.mae / n,
                                .persistence = sum.persistence / n,
                                .seasonal = known ? sum.seasonal / n : INFINITY,
                                .ratio = sum.loss / naive, .windows = w.count,
                                .rows = w.count * c->horizon,
                                .all = w.total * c->horizon};
    return status;
}

static qkv_status forecast_evaluate(void *self, qkv_tape *t, size_t limit, qkv_metrics *out)
{
    forecast *f = self;
    qkv_forecast_score s;
    qkv_status status = qkv_forecast_evaluate(f->model, t, &f->valid, limit, &s);
    *out = (qkv_metrics){.item = {{"loss", s.loss}, {"mse", s.mse}, {"mae", s.mae},
                                  {"persistence", s.persistence}, {"ratio", s.ratio}},
                         .count = 5, .scored = s.rows, .units = s.all};
    return status;
}

/* ---- the task ------------------------------------------------------------------------------ */

static size_t forecast_units(void *self) { return ((forecast *)self)->c->horizon; }
static double task_forecast_flops(void *self)
{
    return qkv_model_flops(((forecast *)self)->model, &(qkv_workload){.samples = 1});
}

static void forecast_destroy(void *self)
{
    forecast *f = self;
    qkv_free(f->ctx, f);
}

static const qkv_task_type forecast_type = {.name = "forecast", .unit = "rows", .phases = 1,
                                            .loss = forecast_loss, .evaluate = forecast_evaluate,
                                            .units = forecast_units,
                                            .flops = task_forecast_flops,
                                            .destroy = forecast_destroy};

qkv_status qkv_task_forecast(qkv_task *out, qkv_model *model, const qkv_series *train,
                             const qkv_series *valid, uint64_t seed)
{
    *out = (qkv_task){0};
    if (!qkv__model_as(model, NULL, __func__, QKV_CAN_FORECAST))
        return QKV_E_ARGUMENT;
    bool held_out = valid && valid->data;
    qkv_status status = check_series(model, train, "training");
    if (!status && held_out)
        status = check_series(model, valid, "held-out");
    qkv_context *ctx = qkv_model_context(model);
    forecast *f = qkv__task_alloc(ctx, sizeof *f, &status);
    if (!f)
        return status;
    *f = (forecast){.ctx = ctx, .model = model, .c = qkv_model_config(model), .train = *train,
                    .seed = seed};
    if (held_out)
        f->valid = *valid;
    return qkv__task_finish(out, status, (qkv_task){&forecast_type, f, model, seed, held_out});
}
