/* report.c - a run as a page. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "qkv/image_file.h"
#include "runs/chart.h"

enum { MOST_CHARTS = 64, SHOWN_TIMES = 6, MOST_NAMES = 64, CELL = 64 };

/* ---- the head ------------------------------------------------------------------------------ */

static void put_summary(qkv_page *p, const qkv_run_log *r)
{
    const qkv_run_series *s;
    const char *names[MOST_CHARTS], *cells[2 * MOST_CHARTS];
    char text[2 * MOST_CHARTS][CELL];
    size_t n = 0;
    double best = qkv_run_log_best(r);
    for (size_t i = 0; (s = qkv_run_log_at(r, i)) != NULL && n < MOST_CHARTS; i++) {
        if (!qkv__run_is_of(s->name, "eval") || strcmp(s->name, "eval/train_loss") == 0)
            continue;
        double kept = qkv_run_series_at(s, best), last = s->values[s->count - 1];
        names[n] = qkv__run_short_name(s->name);
        snprintf(text[2 * n], CELL, isnan(kept) ? "-" : "%.6g", kept);
        snprintf(text[2 * n + 1], CELL, "%.6g", last);
        cells[2 * n] = text[2 * n];
        cells[2 * n + 1] = text[2 * n + 1];
        n++;
    }
    char kept_name[CELL];
    snprintf(kept_name, sizeof kept_name, "kept model, step %.0f", best);
    const char *columns[] = {"held out", kept_name, "last evaluation"};
    qkv_page_printf(p, "%.0f steps in %.4g seconds.", qkv_run_log_steps(r),
                    qkv_run_log_seconds(r));
    if (n)
        qkv_page_table(p, &(qkv_page_table_options){.columns = columns, .rows = names,
                                                    .cells = cells, .row_count = n,
                                                    .column_count = 2, .numbers = true});
}

/* ---- curves -------------------------------------------------------------------------------- */

static void put_losses(qkv_page *p, qkv_context *ctx, const qkv_run_log *r)
{
    const qkv__run_curve curves[] = {
        {"each update", qkv_run_log_find(r, "train/loss"), false},
        {"training, smoothed", qkv_run_log_find(r, "eval/train_loss"), false},
        {"held out", qkv_run_log_find(r, "eval/loss"), true}};
    qkv_page_heading(p, 2, "loss", "Loss");
    qkv__run_chart_add(p, ctx, &(qkv__run_chart){.title = "Loss", .label = "loss",
                                                 .curves = curves, .count = 3});
}

/* A small chart of every series of a group, under a heading. except: or NULL. */
static void put_group(qkv_page *p, qkv_context *ctx, const qkv_run_log *r, const char *group,
                      const char *id, const char *heading, const char *words, const char *except)
{
    const qkv_run_series *s;
    size_t n = 0;
    for (size_t i = 0; (s = qkv_run_log_at(r, i)) != NULL && n < MOST_CHARTS; i++) {
        if (!qkv__run_is_of(s->name, group) || (except && strcmp(s->name, except) == 0))
            continue;
        if (!n++) {
            qkv_page_heading(p, 2, id, heading);
            if (words)
                qkv_page_text(p, words);
            qkv_page_begin(p, QKV_PAGE_ROW, NULL, NULL);
        }
        const qkv__run_curve curve = {NULL, s, false};
        qkv__run_chart_add(p, ctx, &(qkv__run_chart){.title = qkv__run_short_name(s->name),
                                                     .curves = &curve, .count = 1,
                                                     .small = true});
    }
    if (n)
        qkv_page_end(p);
}

static void put_steps(qkv_page *p, qkv_context *ctx, const qkv_run_log *r)
{
    const qkv__run_curve lr = {NULL, qkv_run_log_find(r, "train/lr"), false};
    const qkv__run_curve norm = {NULL, qkv_run_log_find(r, "train/norm"), false};
    qkv_page_heading(p, 2, "updates", "Learning rate and norms");
    qkv_page_begin(p, QKV_PAGE_ROW, NULL, NULL);
    qkv__run_chart_add(p, ctx, &(qkv__run_chart){.title = "learning rate", .curves = &lr,
                                                 .count = 1, .small = true});
    qkv__run_chart_add(p, ctx, &(qkv__run_chart){.title = "norm of the gradient",
                                                 .curves = &norm, .count = 1, .log = true,
                                                 .small = true});
    qkv_page_end(p);
    qkv__run_norms_add(p, ctx, r, "gradient_norm", "Norm of the gradient by layer");
    qkv__run_norms_add(p, ctx, r, "weight_norm", "Norm of the weights by layer");
}

/* ---- samples ------------------------------------------------------------------------------- */

/* The names of samples, each once. */
static size_t sample_names(const qkv_run_log *r, const char *names[MOST_NAMES])
{
    const qkv_run_sample *s;
    size_t n = 0;
    for (size_t i = 0; (s = qkv_run_log_sample(r, i)) != NULL && n < MOST_NAMES; i++) {
        size_t k = 0;
        while (k < n && strcmp(names[k], s->name) != 0)
            k++;
        if (k == n)
            names[n++] = s->name;
    }
    return n;
}

static size_t times_of(const qkv_run_log *r, const char *name)
{
    const qkv_run_sample *s;
    size_t n = 0;
    for (size_t i = 0; (s = qkv_run_log_sample(r, i)) != NULL; i++)
        n += strcmp(s->name, name) == 0;
    return n;
}

/* A sample that a run has lost since, a page without images: left out. */
static void put_sample(qkv_page *p, qkv_context *ctx, const qkv_run_log *r,
                       const qkv_run_sample *s)
{
    char caption[CELL];
    snprintf(caption, sizeof caption, "step %.0f", s->step);
    if (s->text) {
        qkv_page_text(p, caption);
        qkv_page_code(p, s->text);
        return;
    }
    const qkv_path train = qkv_path_in(qkv_run_log_directory(r), "train");
    const qkv_path path = qkv_path_in(train.text, s->file);
    qkv_image image = {0};
    bool inside = strncmp(s->file, "samples/", 8) == 0 && !strstr(s->file, "..");
    if (inside && qkv_file_exists(path.text) && !qkv_image_read(&image, ctx, path.text, NULL))
        qkv_page_image(p, &image, NULL, s->name, caption);
    qkv_image_free(&image, ctx);
}

/* The first, the last, and some in between. */
static void put_samples(qkv_page *p, qkv_context *ctx, const qkv_run_log *r)
{
    const char *names[MOST_NAMES];
    size_t n = sample_names(r, names);
    if (n)
        qkv_page_heading(p, 2, "samples", "Samples");
    for (size_t k = 0; k < n; k++) {
        size_t all = times_of(r, names[k]), seen = 0, shown = 0;
        size_t times = all < SHOWN_TIMES ? all : SHOWN_TIMES;
        const qkv_run_sample *s;
        qkv_page_heading(p, 3, NULL, names[k]);
        for (size_t i = 0; (s = qkv_run_log_sample(r, i)) != NULL; i++) {
            if (strcmp(s->name, names[k]) != 0)
                continue;
            bool due = times < 2 || seen * (times - 1) >= shown * (all - 1);
            seen++;
            if (!due)
                continue;
            put_sample(p, ctx, r, s);
            shown++;
        }
    }
}

/* ---- settings ------------------------------------------------------------------------------ */

static void put_settings(qkv_page *p, qkv_context *ctx, const qkv_run_log *r)
{
    const char *name, *value;
    size_t n = 0;
    while (qkv_run_log_setting(r, n, &name, &value))
        n++;
    const char **names = qkv_calloc(ctx, n + 1, sizeof *names);
    const char **values = qkv_calloc(ctx, n + 1, sizeof *values);
    for (size_t i = 0; names && values && i < n; i++)
        (void)qkv_run_log_setting(r, i, &names[i], &values[i]);
    const char *columns[] = {"setting", "value"};
    if (n && names && values) {
        qkv_page_heading(p, 2, "settings", "Settings");
        qkv_page_table(p, &(qkv_page_table_options){.columns = columns, .rows = names,
                                                    .cells = values, .row_count = n,
                                                    .column_count = 1});
    }
    qkv_free(ctx, names);
    qkv_free(ctx, values);
}

static void put_subtitle(const qkv_run_log *r, char *text, size_t size)
{
    const char *task = qkv_run_log_about(r, "task"), *cpu = qkv_run_log_about(r, "cpu");
    const char *parameters = qkv_run_log_about(r, "parameters");
    const char *threads = qkv_run_log_about(r, "threads");
    snprintf(text, size, "%s, %s parameters; %s, %s threads", task ? task : "a run",
             parameters ? parameters : "?", cpu ? cpu : "?", threads ? threads : "?");
}

qkv_status qkv_run_report(qkv_context *ctx, const char *dir, const char *path)
{
    qkv_run_log *r = NULL;
    qkv_page *p = NULL;
    char subtitle[512];
    qkv_status status = qkv_run_log_open(&r, ctx, dir);
    if (status)
        return status;
    put_subtitle(r, subtitle, sizeof subtitle);
    status = qkv_page_create(&p, ctx, &(qkv_page_options){.title = dir, .subtitle = subtitle});
    if (!status) {
        put_summary(p, r);
        put_losses(p, ctx, r);
        put_group(p, ctx, r, "terms", "terms", "Terms of the loss",
                  "Each as it is, without its weight in the loss.", NULL);
        put_group(p, ctx, r, "eval", "metrics", "Held out", NULL, "eval/train_loss");
        put_steps(p, ctx, r);
        put_samples(p, ctx, r);
        put_group(p, ctx, r, "machine", "machine", "Speed and memory",
                  "units_per_s: samples or tokens a second. Memory in bytes.", NULL);
        put_settings(p, ctx, r);
        status = qkv_page_save(p, path);
    }
    qkv_page_destroy(p);
    qkv_run_log_close(r);
    return status;
}
