/* series.h - encoders of series: a filler of missing values, and a classifier. Their tokens are
 * patches of rows; attention is bidirectional.
 * Layer: model */
#ifndef QKV_SERIES_H
#define QKV_SERIES_H

#include <qkv/forecast.h>

QKV_BEGIN_DECLS

/* model_type "qkv_series_filler": the missing values of a window of rows. */
const qkv_model_type *qkv_series_filler_type(void);
/* model_type "qkv_series_classifier": the class of a series. */
const qkv_model_type *qkv_series_classifier_type(void);

/* Configuration. Ranges and defaults: qkv_model_type_config. */
typedef struct {
    size_t columns; /* values per row */
    size_t rows;    /* that are read at once, at most; a multiple of patch */
    size_t patch;   /* rows per token */
    size_t width, layers, heads;
    size_t ff_width; /* 0: 4 width */
    qkv_activation act;
    qkv_position_kind position_kind; /* learned or sinusoid */
    double dropout, attention_dropout, head_dropout, init_range; /* 0: 1 / sqrt(width) */
    /* Fillers: */
    double mask;     /* share of the values that training hides                      (0, 1) */
    size_t mask_span; /* mean number of consecutive rows that are hidden */
    /* Classifiers: */
    size_t classes;
} qkv_series_config;

/* Series in the caller's memory, read during the call. */
typedef struct {
    const qkv_real *const *data; /* (count) rows of `columns` values each; NaN: missing */
    const size_t *lengths;       /* (count) rows, 1 .. the model's; NULL: the model's */
    size_t count;
} qkv_series_batch;

/* Series of a class each, in the caller's memory. */
typedef struct {
    const qkv_real *data;  /* (start[count], columns): the rows of one after another */
    const size_t *start;   /* (count + 1) first row of each */
    const int32_t *labels; /* (count) class; -1: not known */
    size_t count, columns;
} qkv_series_set;

/* Computes each column's mean and standard deviation from the values that are there; the latter is
 * 1 for a constant column, both are 0 and 1 for an empty one. They are saved with the model.
 * QKV_E_SHAPE if the number of columns is wrong. */
qkv_status qkv_series_fit_scale(qkv_model *m, const qkv_series *train);
const qkv_real *qkv_series_mean(const qkv_model *m); /* (columns) */
const qkv_real *qkv_series_std(const qkv_model *m);  /* (columns) */

/* Tokens of a series of so many rows: rows / patch, rounded up. */
size_t qkv_series_tokens(const qkv_series_config *c, size_t rows);

/* Sets what is missing of a column (rows values, `stride` apart) by linear interpolation between
 * its neighbours, beyond the first and the last by these; all missing: `otherwise`. */
void qkv_series_interpolate(qkv_real *column, size_t rows, size_t stride, qkv_real otherwise);

/* The encoder's normed output (1, tokens, width), the series one after another. A token's input is
 * its rows, standardised, missing values interpolated, and for each value 1 if it is known, else 0.
 * NULL once anything on the tape has failed. */
qkv_tensor *qkv_series_hidden(qkv_model *m, qkv_tape *t, const qkv_series_batch *in);
/* Fillers -> (tokens patch, columns), in the standardised scale: the interpolated series plus what
 * a linear layer makes of the tokens, which begins as 0; so an untrained filler interpolates
 * linearly. Rows of a series begin at its first token's. */
qkv_tensor *qkv_series_fill(qkv_model *m, qkv_tape *t, const qkv_series_batch *in);
/* Classifiers -> logits (count, classes), of the mean of a series' tokens. */
qkv_tensor *qkv_series_class_logits(qkv_model *m, qkv_tape *t, const qkv_series_batch *in);

QKV_END_DECLS
#endif
