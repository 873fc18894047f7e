/* compare.c - several runs side by side. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "runs/chart.h"

enum { MOST_SERIES = 4096, CELL = 64 };

/* ---- settings ------------------------------------------------------------------------------ */

/* The i-th name of all settings: those of the first run, then those that only later ones have. */
static const char *setting_name(qkv_run_log *const *runs, size_t count, size_t i)
{
    const char *name, *value;
    for (size_t k = 0; k < count; k++)
        for (size_t n = 0; qkv_run_log_setting(runs[k], n, &name, &value); n++) {
            bool known = false;
            for (size_t j = 0; j < k && !known; j++)
                known = qkv_run_log_setting_of(runs[j], name) != NULL;
            if (!known && i-- == 0)
                return name;
        }
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool qkv_runs_difference(qkv_run_log *const *runs, size_t count, size_t i, const char **name,
                         const char **values)
{
    for (size_t n = 0; (*name = setting_name(runs, count, n)) != NULL; n++) {
        bool same = true;
        for (size_t k = 0; k < count; k++) {
            values[k] = qkv_run_log_setting_of(runs[k], *name);
            same = same && same_text(values[k], values[0]);
        }
        if (!same && i-- == 0)
            return true;
    }
    return false;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* Of the model that is kept. */
static void put_metrics(const qkv_run_log *r, qkv_json_writer *w)
{
    const qkv_run_series *s;
    double best = qkv_run_log_best(r);
    qkv_json_put_real(w, "best_step", best < 0 ? NAN : best);
    qkv_json_begin_object(w, "metrics");
    for (size_t i = 0; best >= 0 && (s = qkv_run_log_at(r, i)) != NULL; i++)
        if (qkv__run_is_of(s->name, "eval"))
            qkv_json_put_real(w, qkv__run_short_name(s->name), qkv_run_series_at(s, best));
    qkv_json_end_object(w);
}

void qkv_runs_json(qkv_run_log *const *runs, size_t count, qkv_json_writer *w)
{
    const char *name, **values = qkv_calloc(w->text.ctx, count, sizeof *values);
    w->text.failed = w->text.failed || !values;
    qkv_json_begin_array(w, "runs");
    for (size_t k = 0; k < count; k++) {
        qkv_json_begin_object(w, NULL);
        qkv_json_put_string(w, "directory", qkv_run_log_directory(runs[k]));
        const char *task = qkv_run_log_about(runs[k], "task");
        if (task)
            qkv_json_put_string(w, "task", task);
        qkv_json_put_real(w, "steps", qkv_run_log_steps(runs[k]));
        qkv_json_put_real(w, "seconds", qkv_run_log_seconds(runs[k]));
        put_metrics(runs[k], w);
        qkv_json_end_object(w);
    }
    qkv_json_end_array(w);
    qkv_json_begin_object(w, "settings");
    for (size_t i = 0; values && qkv_runs_difference(runs, count, i, &name, values); i++) {
        qkv_json_begin_array(w, name);
        for (size_t k = 0; k < count; k++) {
            if (values[k])
                qkv_json_put_string(w, NULL, values[k]);
            else
                qkv_json_put_null(w, NULL);
        }
        qkv_json_end_array(w);
    }
    qkv_json_end_object(w);
    qkv_free(w->text.ctx, values);
}

/* ---- the page ------------------------------------------------------------------------------ */

/* What the parts of the page need. */
typedef struct {
    qkv_page *p;
    qkv_context *ctx;
    qkv_run_log *const *runs;
    size_t count;
    const char **names, **values; /* (count) directories; room */
    char (*text)[CELL];           /* (count) room */
    qkv__run_curve *curves;       /* (count) room */
} compared;

static void put_differences(compared *c)
{
    const char *name;
    size_t n = 0;
    while (qkv_runs_difference(c->runs, c->count, n, &name, c->values))
        n++;
    const char **rows = qkv_calloc(c->ctx, n + 1, sizeof *rows);
    const char **cells = qkv_calloc(c->ctx, (n + 1) * c->count, sizeof *cells);
    for (size_t i = 0; rows && cells && i < n; i++)
        (void)qkv_runs_difference(c->runs, c->count, i, &rows[i], cells + i * c->count);
    qkv_page_heading(c->p, 2, "settings", "Settings that differ");
    if (n && rows && cells)
        qkv_page_table(c->p, &(qkv_page_table_options){.columns = c->names, .rows = rows,
                                                       .cells = cells, .row_count = n,
                                                       .column_count = c->count});
    else
        qkv_page_text(c->p, "None.");
    qkv_free(c->ctx, rows);
    qkv_free(c->ctx, cells);
}

/* Has an earlier run a series of this name? */
static bool is_known(const compared *c, size_t run, const char *name)
{
    for (size_t k = 0; k < run; k++)
        if (qkv_run_log_find(c->runs[k], name))
            return true;
    return false;
}

/* One metric of the models that are kept, and its curves. */
static void put_metric(compared *c, const char *name)
{
    const char *rows[] = {"kept model"}, **cells = c->values;
    for (size_t k = 0; k < c->count; k++) {
        const qkv_run_series *s = qkv_run_log_find(c->runs[k], name);
        double kept = s ? qkv_run_series_at(s, qkv_run_log_best(c->runs[k])) : NAN;
        snprintf(c->text[k], CELL, isnan(kept) ? "-" : "%.6g", kept);
        cells[k] = c->text[k];
        c->curves[k] = (qkv__run_curve){c->names[k + 1], s, false};
    }
    const char *shown = qkv__run_short_name(name);
    qkv_page_heading(c->p, 3, NULL, shown);
    if (qkv__run_is_of(name, "eval") && strcmp(shown, "train_loss") != 0)
        qkv_page_table(c->p, &(qkv_page_table_options){.columns = c->names, .rows = rows,
                                                       .cells = cells, .row_count = 1,
                                                       .column_count = c->count,
                                                       .numbers = true});
    qkv_page_begin(c->p, QKV_PAGE_ROW, NULL, NULL);
    for (int seconds = 0; seconds < 2; seconds++)
        qkv__run_chart_add(c->p, c->ctx, &(qkv__run_chart){.title = shown, .curves = c->curves,
                                                           .count = c->count, .small = true,
                                                           .seconds = seconds});
    qkv_page_end(c->p);
}

static void compare_put_group(compared *c, const char *group, const char *heading)
{
    const qkv_run_series *s;
    bool begun = false;
    for (size_t k = 0; k < c->count; k++)
        for (size_t i = 0; i < MOST_SERIES && (s = qkv_run_log_at(c->runs[k], i)) != NULL; i++) {
            if (!qkv__run_is_of(s->name, group) || is_known(c, k, s->name))
                continue;
            if (!begun)
                qkv_page_heading(c->p, 2, group, heading);
            begun = true;
            put_metric(c, s->name);
        }
}

static qkv_status compare_make_room(compared *c)
{
    c->names = qkv_calloc(c->ctx, c->count + 1, sizeof *c->names);
    c->values = qkv_calloc(c->ctx, c->count, sizeof *c->values);
    c->text = qkv_calloc(c->ctx, c->count, sizeof *c->text);
    c->curves = qkv_calloc(c->ctx, c->count, sizeof *c->curves);
    if (!c->names || !c->values || !c->text || !c->curves)
        return QKV_E_MEMORY;
    c->names[0] = "";
    for (size_t k = 0; k < c->count; k++)
        c->names[k + 1] = qkv_run_log_directory(c->runs[k]);
    return QKV_OK;
}

qkv_status qkv_runs_report(qkv_context *ctx, qkv_run_log *const *runs, size_t count,
                           const char *path)
{
    compared c = {.ctx = ctx, .runs = runs, .count = count};
    char title[CELL];
    if (!count)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "one run at least is expected");
    snprintf(title, sizeof title, "%zu runs", count);
    qkv_status status = compare_make_room(&c);
    if (!status)
        status = qkv_page_create(&c.p, ctx, &(qkv_page_options){.title = title});
    if (!status) {
        put_differences(&c);
        compare_put_group(&c, "eval", "Held out");
        compare_put_group(&c, "train", "Training");
        compare_put_group(&c, "terms", "Terms of the loss");
        status = qkv_page_save(c.p, path);
    }
    qkv_page_destroy(c.p);
    qkv_free(ctx, c.names);
    qkv_free(ctx, c.values);
    qkv_free(ctx, c.text);
    qkv_free(ctx, c.curves);
    return status;
}
