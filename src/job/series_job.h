/* series_job.h - what the `qkv train ...` on rows of numbers share: the rows' way from files to
 * OUT/train and back from there, and what samples show of them.
 *
 * A command's own struct begins with a qkv__series_job; qkv__series_job_write, _open and _close
 * are those of its qkv__job_kind. */
#ifndef QKV_SRC_JOB_SERIES_JOB_H
#define QKV_SRC_JOB_SERIES_JOB_H

#include "job/run.h"
#include "pipeline/series.h"

typedef struct {
    const char *data, *valid, *valid_last, *columns;
} qkv__series_options;

/* Rows of a table whose settings begin with a qkv__series_options: --data and --columns, before the
 * command's own, and --valid and --valid-last, behind them. */
#define QKV__SERIES_FIELD(member) .offset = offsetof(qkv__series_options, member)
#define QKV__SERIES_DATA_ROWS(help_of_data)                                                        \
    {.flag = "data", .type = QKV_OPT_STRING, .flags = QKV_OPT_REQUIRED, QKV__SERIES_FIELD(data),   \
     .value = "CSV", .help = help_of_data},                                                        \
    {.flag = "columns", .type = QKV_OPT_STRING, QKV__SERIES_FIELD(columns), .value = "A,B",        \
     .help = "columns to read, by name or number; else all"}
#define QKV__SERIES_VALID_ROWS(help_of_valid)                                                      \
    {.flag = "valid", .type = QKV_OPT_STRING, QKV__SERIES_FIELD(valid), .value = "CSV",            \
     .help = help_of_valid},                                                                       \
    {.flag = "valid-last", .type = QKV_OPT_STRING, QKV__SERIES_FIELD(valid_last),                  \
     .value = "N[%]", .initial = "10%",                                                            \
     .help = "else: rows or share held out at the end of the data"}

/* Their defaults, before those that all have; lr: what the manual says of --lr. */
#define QKV__SERIES_PRESETS(lr)                                                                    \
    {"batch", "64", NULL}, {"ema", "0.995", NULL}, {"weight-decay", "0.1", NULL},                  \
    {"beta2", "0.99", NULL}, QKV__WARMUP_PRESET, {"lr", lr, NULL}, QKV__COMMON_PRESETS

typedef struct {
    qkv__run base;
    qkv_array data, valid_file;
    qkv_series train, valid; /* parts of data and valid_file; valid.data NULL: none */
} qkv__series_job;

/* The end of data is held out, as --valid-last says, unless --valid names a file. least: rows that
 * are evaluated at once, what names them ("the horizon's"). */
qkv_status qkv__series_hold_out(qkv__series_job *j, const qkv__series_options *s, size_t least,
                                const char *what);
/* Reads --valid, if it is given, with the model's columns. */
qkv_status qkv__series_read_valid(qkv__series_job *j, const qkv__series_options *s);

/* For a qkv__job_kind; the job is a qkv__series_job. */
qkv_status qkv__series_job_write(qkv__run *base);
qkv_status qkv__series_job_open(qkv__run *base);
void qkv__series_job_close(qkv__run *base);

/* A sample of n rows of one column, the first of them number `first`: what was made of them, and
 * the truth, which lie `made_step` and `truth_step` apart. verb: the column's head ("forecast"). */
qkv_status qkv__series_sample(qkv_context *ctx, qkv_samples *out, const char *name,
                              const char *verb, size_t first, size_t n, const qkv_real *made,
                              size_t made_step, const qkv_real *truth, size_t truth_step);

#endif
