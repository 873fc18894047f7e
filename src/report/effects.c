/* effects.c - the panel "effects" of a forecaster: what each step of the forecast changes by
 * when one step of what was read is moved. */
#include "report/looking.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qkv/chart.h"
#include "qkv/forecast.h"

enum { AT_ONCE = 32, MOST_MAPS = 4, MAP_WIDTH = 720, MAP_HEIGHT = 230 };
static const double MOVE = 0.1; /* standard deviations, up and down */

/* Windows 2 i and 2 i + 1 have value first + i of the window up and down. */
static void move_windows(const qkv__looking *l, size_t size, size_t first, size_t count,
                         qkv_real *windows)
{
    const qkv_forecast_config *c = qkv_model_config(l->p->model);
    const qkv_real *std = qkv_forecast_std(l->p->model);
    for (size_t i = 0; i < 2 * count; i++) {
        size_t at = first + i / 2;
        double by = MOVE * (double)std[at % c->columns];
        memcpy(windows + i * size, l->window, size * sizeof *windows);
        windows[i * size + at] += (qkv_real)(i % 2 ? -by : by);
    }
}

/* effects (targets, columns, horizon, context) of values first .. of the window, from their
 * forecasts y (2 count, horizon, targets). */
static void take_effects(const qkv__looking *l, size_t first, size_t count, const qkv_real *y,
                         float *effects)
{
    const qkv_forecast_config *c = qkv_model_config(l->p->model);
    const qkv_real *std = qkv_forecast_std(l->p->model);
    size_t K = c->targets, n = c->horizon * K;
    for (size_t i = 0; i < count; i++) {
        size_t row = (first + i) / c->columns, column = (first + i) % c->columns;
        double by = 2 * MOVE * (double)std[column];
        for (size_t h = 0; h < c->horizon; h++)
            for (size_t k = 0; k < K; k++) {
                double up = (double)y[2 * i * n + h * K + k];
                double down = (double)y[(2 * i + 1) * n + h * K + k];
                effects[((k * c->columns + column) * c->horizon + h) * c->context + row] =
                    (float)((up - down) * (double)std[k] / by);
            }
    }
}

static qkv_status find_effects(qkv__looking *l, float *effects)
{
    qkv_tape *t = l->p->tape;
    const qkv_forecast_config *c = qkv_model_config(l->p->model);
    size_t size = c->context * c->columns;
    const qkv_real *at[2 * AT_ONCE];
    qkv_real *windows = qkv_calloc(l->p->ctx, 2 * AT_ONCE * size, sizeof *windows);
    qkv_status status = windows ? QKV_OK : QKV_E_MEMORY;
    for (size_t i = 0; i < 2 * AT_ONCE; i++)
        at[i] = windows + i * size;
    for (size_t first = 0, count; first < size && !status; first += count) {
        count = size - first < AT_ONCE ? size - first : AT_ONCE;
        move_windows(l, size, first, count, windows);
        qkv_tape_reset(t);
        qkv_tape_mode(t, false, false);
        const qkv_real *y = qkv_data(t, qkv_forecast_forward(l->p->model, t, at, 2 * count));
        status = y ? QKV_OK : qkv_tape_status(t);
        if (y)
            take_effects(l, first, count, y, effects);
    }
    qkv_free(l->p->ctx, windows);
    return status;
}

/* Maps one below the other: forecast steps down, steps that were read across. */
static qkv_status draw_effects(qkv__looking *l, const float *effects, qkv_drawing **d)
{
    const qkv_look_series *s = &l->out->series;
    size_t maps = s->targets * s->columns, shown = maps < MOST_MAPS ? maps : MOST_MAPS;
    qkv_status status = qkv_drawing_create(d, l->p->ctx, MAP_WIDTH, (double)shown * MAP_HEIGHT);
    for (size_t i = 0; i < shown && !status; i++) {
        char title[160], key[32];
        size_t k = i / s->columns, j = i % s->columns;
        const qkv_frame frame = {0, (double)i * MAP_HEIGHT, MAP_WIDTH, MAP_HEIGHT};
        if (s->names)
            (void)snprintf(title, sizeof title, "Forecast of %.50s, by %.50s", s->names[k],
                           s->names[j]);
        else
            (void)snprintf(title, sizeof title, "Forecast of column %zu, by column %zu", k + 1,
                           j + 1);
        (void)snprintf(key, sizeof key, "effects%zu", i);
        qkv_draw_heat(*d, &frame, &(qkv_heat_map){
            .title = title, .values = effects + i * s->made * s->read, .rows = s->made,
            .columns = s->read, .diverging = true, .x_label = "step read",
            .y_label = "step forecast", .key = key});
    }
    return status;
}

static void put_effects(const qkv_look_series *s, const float *effects, qkv_json_writer *w)
{
    const float *at = effects;
    qkv_json_begin_array(w, NULL);
    for (size_t k = 0; k < s->targets; k++) {
        qkv_json_begin_array(w, NULL);
        for (size_t j = 0; j < s->columns; j++) {
            qkv_json_begin_array(w, NULL);
            for (size_t h = 0; h < s->made; h++) {
                qkv_json_begin_array(w, NULL);
                for (size_t i = 0; i < s->read; i++)
                    qkv_json_put_float(w, NULL, *at++);
                qkv_json_end_array(w);
            }
            qkv_json_end_array(w);
        }
        qkv_json_end_array(w);
    }
    qkv_json_end_array(w);
}

qkv_status qkv__look_effects(qkv__looking *l)
{
    qkv_context *ctx = l->p->ctx;
    const qkv_look_series *s = &l->out->series;
    qkv_drawing *d = NULL;
    qkv_json_writer w;
    float *effects = qkv_calloc(ctx, s->targets * s->columns, s->made * s->read * sizeof *effects);
    qkv_status status = effects ? find_effects(l, effects) : QKV_E_MEMORY;
    if (!status)
        status = draw_effects(l, effects, &d);
    if (!status) {
        qkv_json_writer_init(&w, ctx, -1);
        put_effects(s, effects, &w);
        status = qkv__look_add_panel(l, "effects", "What each forecast step depends on",
                                     "How much a step of the forecast (down) changes per unit by "
                                     "which one step that was read (across) is raised, all else "
                                     "as it was: through attention, feed-forward layers and the "
                                     "linear forecast alike. Measured by moving each value by a "
                                     "tenth of a standard deviation up and down.", d, &w);
    }
    qkv_free(ctx, effects);
    return status;
}
