/* runs.h - training runs after the fact: the numbers, samples and settings that qkv_train wrote, as
 * series, as a report, and compared.
 * Layer: runs
 *
 *     qkv_run_log *r;
 *     if (qkv_run_log_open(&r, ctx, "runs/novel"))
 *         ...
 *     const qkv_run_series *s = qkv_run_log_find(r, "train/loss");
 *     for (size_t i = 0; s && i < s->count; i++)
 *         printf("%g %g\n", s->steps[i], s->values[i]);
 *     qkv_run_log_close(r);
 *
 * All of it works on a run that is going on, or was killed. docs/training.md has the names. */
#ifndef QKV_RUNS_H
#define QKV_RUNS_H

#include <qkv/json.h>

QKV_BEGIN_DECLS

/* ---- what a run wrote ------------------------------------------------------------------------ */

typedef struct qkv_run_log qkv_run_log;

/* A number over the steps. All arrays: (count), in the order in which they were written. */
typedef struct {
    const char *name;      /* "train/loss", as in the event file */
    size_t count;
    const double *steps;   /* updates done */
    const double *seconds; /* training time used */
    const double *values;  /* NaN: it was not finite */
} qkv_run_series;

typedef struct {
    const char *name; /* "continuation-1" */
    double step, seconds;
    const char *text; /* NULL: an image */
    const char *file; /* in DIR/train: "samples/00000100-continuation-1.txt" */
} qkv_run_sample;

/* Reads DIR/train/metrics.jsonl and, where they are, DIR/train/run.json and DIR/config.json. A last
 * line that is not whole is left out. On failure *out is NULL: QKV_E_IO without a log, QKV_E_FORMAT
 * with the line's number. */
qkv_status qkv_run_log_open(qkv_run_log **out, qkv_context *ctx, const char *dir);
void qkv_run_log_close(qkv_run_log *r); /* r may be NULL */

/* What follows lives as long as r. */
const char *qkv_run_log_directory(const qkv_run_log *r);
/* Of run.json: "task", "unit", "parameters", "cpu", "threads"; NULL: it is not there. */
const char *qkv_run_log_about(const qkv_run_log *r, const char *name);
size_t qkv_run_log_count(const qkv_run_log *r);
const qkv_run_series *qkv_run_log_at(const qkv_run_log *r, size_t i); /* NULL past the last */
const qkv_run_series *qkv_run_log_find(const qkv_run_log *r, const char *name); /* NULL: none */
const qkv_run_sample *qkv_run_log_sample(const qkv_run_log *r, size_t i); /* NULL past the last */
/* Setting i of the run, then of the model's configuration: false past the last. */
bool qkv_run_log_setting(const qkv_run_log *r, size_t i, const char **name, const char **value);
const char *qkv_run_log_setting_of(const qkv_run_log *r, const char *name); /* NULL: not set */
double qkv_run_log_steps(const qkv_run_log *r);   /* of the last line; 0: none */
double qkv_run_log_seconds(const qkv_run_log *r); /* of the last line; 0: none */
/* Step of the evaluation whose model is kept; < 0: nothing was evaluated. */
double qkv_run_log_best(const qkv_run_log *r);
/* The value of a series at that step; NaN: it has none. */
double qkv_run_series_at(const qkv_run_series *s, double step);

/* ---- reports --------------------------------------------------------------------------------- */

/* Writes a page (page.h) of the run: curves of the training and held-out loss, of every term and
 * metric; learning rate; norms of gradients and weights by layer; samples over time; speed and
 * memory; settings. qkv_train writes it to DIR/train/report.html at evaluations. */
qkv_status qkv_run_report(qkv_context *ctx, const char *dir, const char *path);

/* The i-th setting that is not the same in all runs (count): false past the last. values: (count),
 * the caller's; NULL where a run has no such setting. */
bool qkv_runs_difference(qkv_run_log *const *runs, size_t count, size_t i, const char **name,
                         const char **values);
/* Writes a page of several runs: settings that differ, metrics, curves over steps and over
 * seconds. 1 <= count. */
qkv_status qkv_runs_report(qkv_context *ctx, qkv_run_log *const *runs, size_t count,
                           const char *path);
/* Puts "runs" (directory, task, steps, seconds, metrics of the model that is kept) and "settings"
 * (those that differ: a list of values each) into an object that has been begun. */
void qkv_runs_json(qkv_run_log *const *runs, size_t count, qkv_json_writer *w);

QKV_END_DECLS
#endif
