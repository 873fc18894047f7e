/* forecast.c - a chapter of the tour: a transformer forecasts a series, beside the forecasts
 * that need none. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tour/chapter.h"

enum { DAY = 24, WEEK = 7 * DAY, STREAM_SERIES = 0x90 };
/* Rows to learn from, to choose the best model by, and to evaluate by. */
enum { TRAIN = 30 * WEEK, CHOOSE = 6 * WEEK, VALID = 6 * WEEK, ROWS = TRAIN + CHOOSE + VALID };
enum { CONTEXT = WEEK, HORIZON = DAY, PATCH = 6, LAYERS = 2, WIDTH = 64, HEADS = 4, BATCH = 32 };
static const double TRAINING_SHARE = 0.9;

typedef struct {
    tour *t;
    qkv_context *ctx;
    qkv_model *model;
    tour_training training;
    qkv_real y[ROWS];
} chapter;

/* ---- the series --------------------------------------------------------------------------- */

/* The hours of a made-up town's use of power: flat nights and days, weekends at half, a wave of
 * 29.3 hours that fits neither, more noise by day, and noise that lasts. */
static void make_series(qkv_real *y, uint64_t seed)
{
    static const double circle = 6.283185307179586;
    double lasting = 0;
    qkv_rng r;
    qkv_rng_init(&r, seed, STREAM_SERIES);
    for (int t = 0; t < ROWS; t++) {
        double day = tanh(2.5 * -cos(circle * (t % DAY) / DAY));
        bool weekend = t % WEEK >= 5 * DAY;
        double wave = cos(circle * t / 29.3);
        lasting = 0.9 * lasting + 0.15 * qkv_rng_normal(&r);
        y[t] = (qkv_real)(20 + (weekend ? 2 : 4) * day + 1.5 * wave * (1 + 0.4 * day) + lasting +
                          (0.4 + 0.2 * day) * qkv_rng_normal(&r));
    }
}

/* `rows` rows from `from` on, and the lead before them that they are only looked back on from. */
static qkv_series forecast_part(const chapter *h, size_t from, size_t rows)
{
    size_t lead = from ? qkv_forecast_lead(qkv_model_config(h->model)) : 0;
    return (qkv_series){h->y + from - lead, rows + lead, 1};
}

/* For the reader: what the chapter's last image starts from. */
static qkv_status write_history(const chapter *h)
{
    qkv_str text;
    qkv_str_init(&text, h->ctx);
    qkv_str_puts(&text, "load\n");
    for (size_t i = 0; i < ROWS - HORIZON; i++)
        qkv_str_printf(&text, "%.3f\n", (double)h->y[i]);
    qkv_status status = QKV_E_MEMORY;
    if (!text.failed)
        status = qkv_file_write(h->ctx, qkv_path_in(h->t->dir, "past.csv").text, text.data,
                                text.len);
    qkv_str_free(&text);
    return status;
}

/* ---- learning ----------------------------------------------------------------------------- */

static qkv_status tour_forecast_make_model(chapter *h)
{
    const qkv_series train = {h->y, TRAIN, 1};
    qkv_forecast_config c;
    qkv_option_defaults(qkv_model_type_config(qkv_forecast_type()), &c);
    c.columns = 1;
    c.context = CONTEXT;
    c.horizon = HORIZON;
    c.patch = PATCH;
    c.width = WIDTH;
    c.layers = LAYERS;
    c.heads = HEADS;
    qkv_status status = qkv_forecast_find_season(&c.season, h->ctx, &c, &train);
    if (!status)
        status = tour_make(&h->model, h->t, qkv_forecast_type(), &c);
    return status ? status : qkv_forecast_fit_scale(h->model, &train);
}

static qkv_status forecast_learn(chapter *h)
{
    const qkv_series train = {h->y, TRAIN, 1}, choose = forecast_part(h, TRAIN, CHOOSE);
    qkv_task task = {0};
    qkv_training s = qkv_training_defaults();
    s.loop.batch = BATCH;
    s.loop.eval_units = CHOOSE * HORIZON;
    s.schedule.lr = qkv_training_rate(WIDTH) / 4;
    qkv_status status =
        qkv_task_forecast(&task, h->model, &train, &choose, h->t->page->c->common.seed);
    if (!status)
        status = tour_train(&h->training, h->t, &task, &s, h->t->dir,
                            TRAINING_SHARE * h->t->seconds);
    qkv_task_destroy(&task);
    return status;
}

/* ---- the image -------------------------------------------------------------------------- */

enum { SHOWN = 2 * DAY, COLUMNS = SHOWN + HORIZON, LINES = 14 };
enum { NOTHING, NAIVE, TRUTH, FORECAST, BOTH };

typedef struct {
    double low, high;
    unsigned char mark[LINES][COLUMNS];
} image;

static void forecast_put(image *d, size_t column, double value, unsigned char mark)
{
    double share = (value - d->low) / (d->high - d->low);
    int line = (int)(LINES * share);
    line = line < 0 ? 0 : line >= LINES ? LINES - 1 : line;
    unsigned char *at = &d->mark[line][column];
    *at = (*at == TRUTH && mark == FORECAST) ? BOTH : mark > *at ? mark : *at;
}

/* Two days that were known, and the one that was forecast, at the end of the series. */
static void forecast_draw(const page *p, const qkv_real *y, const qkv_real *forecast, size_t season)
{
    static const char *const marks[] = {" ", "+", "·", "○", "●"};
    image d = {.low = INFINITY, .high = -INFINITY};
    for (size_t i = 0; i < COLUMNS; i++) {
        double value = (double)y[ROWS - COLUMNS + i]; /* gcc 12.2 for Arm fails on fmin here */
        d.low = value < d.low ? value : d.low;
        d.high = value > d.high ? value : d.high;
    }
    for (size_t i = 0; i < COLUMNS; i++)
        forecast_put(&d, i, (double)y[ROWS - COLUMNS + i], TRUTH);
    for (size_t i = 0; i < HORIZON; i++) {
        size_t back = (i / season + 1) * season; /* whole seasons, to what was known */
        forecast_put(&d, SHOWN + i, (double)y[ROWS - HORIZON + i - back], NAIVE);
        forecast_put(&d, SHOWN + i, (double)forecast[i], FORECAST);
    }
    page_space(p);
    for (int line = LINES - 1; line >= 0; line--) {
        char text[COLUMNS * 3 + 8] = "";
        for (size_t i = 0; i < COLUMNS; i++) {
            if (i == SHOWN)
                strcat(text, "│");
            strcat(text, marks[d.mark[line][i]]);
        }
        page_line(p, "%s", text);
    }
}

/* ---- the report --------------------------------------------------------------------------- */

static void show_errors(const page *p, const qkv_forecast_score *s, size_t season)
{
    page_text(p, "Evaluated on the last %d weeks, %zu days of %d hours from every hour on; squared "
                 "errors of an hour:", VALID / WEEK, s->windows, HORIZON);
    page_space(p);
    page_line(p, "naive: as the last known hour        %8.3f", s->persistence);
    page_line(p, "naive: as %3zu hours before           %8.3f", season, s->seasonal);
    page_line(p, "this transformer                     %8.3f   %.0f%% of the better one's", s->mse,
              100 * s->ratio);
    page_number(p, "persistence", s->persistence);
    page_number(p, "seasonal", s->seasonal);
    page_number(p, "mse", s->mse);
    page_number(p, "ratio", s->ratio);
}

static void forecast_conclude(const tour *t, const qkv_forecast_score *s)
{
    if (s->ratio < 1)
        tour_say(t, "What was learnt: the day, the week and the wave, told apart, and to "
                    "leave the noise alone; copying a season back copies its noise, too.");
    else
        tour_say(t, "What was learnt: less than copying knows. The time was short; give it more "
                    "with --minutes.");
}

static qkv_status forecast_report(chapter *h)
{
    const page *p = h->t->page;
    const qkv_forecast_config *c = qkv_model_config(h->model);
    qkv_forecast_score s;
    qkv_real forecast[HORIZON];
    qkv_status status = qkv_hub_load_weights(h->model, h->t->dir); /* the best, not the last */
    qkv_series valid = forecast_part(h, TRAIN + CHOOSE, VALID), known = {h->y, ROWS - HORIZON, 1};
    if (!status)
        status = qkv_forecast_evaluate(h->model, p->t, &valid, 0, &s);
    if (!status)
        status = qkv_forecast(h->model, &known, HORIZON, forecast);
    if (!status)
        status = write_history(h);
    if (status)
        return status;
    tour_training_show(&h->training, h->t, "Training loss over the time:");
    show_errors(p, &s, c->season);
    page_text(p, "The last day of all, which the model has not seen, behind the two before it:");
    page_line(p, "  · what happened   ○ the forecast   ● both   + naive");
    forecast_draw(p, h->y, forecast, c->season);
    forecast_conclude(h->t, &s);
    page_text(p, "Ask it for more: qkv forecast %s --horizon 48 < %s/past.csv", h->t->dir,
              h->t->dir);
    const qkv_path past = qkv_path_in(h->t->dir, "past.csv");
    return tour_look(h->t, h->t->dir, &(qkv_look_input){.series = past.text}, "look.html",
                     "Which hours the forecast attends to, last layer, mean of the heads");
}

qkv_status tour_forecast(tour *t)
{
    chapter *h = qkv_calloc(t->page->c->ctx, 1, sizeof *h);
    if (!h)
        return QKV_E_MEMORY;
    h->t = t;
    h->ctx = t->page->c->ctx;
    make_series(h->y, t->page->c->common.seed);
    qkv_status status = tour_forecast_make_model(h);
    if (!status) {
        page_text(t->page, "The series: %d hours of a made-up town's use of power. Days are flat "
                           "with steep mornings, weekends are half, a wave of 29.3 hours fits "
                           "neither, and there is noise. The model reads a week, %d hours a "
                           "token, and writes the next %d hours at once: %d layers of %d channels. "
                           "It learns from the first %d weeks; the next %d say which model is the "
                           "best, the last %d only score it.",
                  ROWS, PATCH, HORIZON, LAYERS, WIDTH, TRAIN / WEEK, CHOOSE / WEEK, VALID / WEEK);
        status = forecast_learn(h);
    }
    if (!status && !h->training.result.stopped)
        status = forecast_report(h);
    qkv_model_destroy(h->model);
    qkv_free(h->ctx, h);
    return status;
}
