/* forecast.h - forecasting rows of numbers: windows of rows are tokens of an encoder, or of an
 * encoder-decoder, that predicts the rows which follow.
 * Layer: model */
#ifndef QKV_FORECAST_H
#define QKV_FORECAST_H

#include <qkv/gpt.h>

QKV_BEGIN_DECLS

/* model_type "qkv_forecast"; configuration: qkv_forecast_config. */
extern const qkv_model_type qkv_forecast_type;

/* What a window's numbers are measured from before the model sees them; all are undone on its
 * output. First every column is standardised by the training rows' mean and standard deviation. */
typedef enum {
    QKV_NORMALIZE_SERIES, /* and that is all */
    QKV_NORMALIZE_WINDOW, /* then in standard deviations of the window from the window's mean
                             (reversible instance normalisation without weights, Kim et al. 2022) */
    QKV_NORMALIZE_LAST    /* then from the window's last row */
} qkv_normalization;

typedef enum { QKV_FORECAST_MSE, QKV_FORECAST_HUBER, QKV_FORECAST_MAE } qkv_forecast_loss_kind;

/* Ranges and defaults: qkv_model_type_config. */
typedef struct {
    size_t columns;  /* numbers in a row */
    size_t targets;  /* the first so many columns are forecast; 0: all */
    size_t context;  /* rows that a forecast is made from */
    size_t horizon;  /* rows that it has */
    size_t patch;    /* rows in a token; divides context */
    size_t width, layers, heads;
    size_t decoder_layers; /* 0: the encoder alone, all of whose tokens a linear layer reads */
    size_t ff_width;       /* 0: 4 width */
    qkv_activation act;
    qkv_normalization normalization;
    qkv_position_kind position_kind; /* learned or sinusoid */
    double dropout, attention_dropout, head_dropout, init_range; /* 0: 1 / sqrt(width) */
    bool linear;                 /* a linear layer from the window itself is added to the
                                    forecast */
    qkv_forecast_loss_kind loss; /* what it is trained by; Huber's delta is 1 standard deviation */
    size_t season;               /* rows, of the naive forecast that it is evaluated beside; 0:
                                    none */
} qkv_forecast_config;

/* Rows of numbers, one after another, in the caller's memory. */
typedef struct {
    const qkv_real *data; /* (rows, columns) */
    size_t rows, columns;
} qkv_series;

/* Takes mean and standard deviation of each column from the training rows; a column that never
 * changes has standard deviation 1. They are saved with the model. QKV_E_SHAPE for another number
 * of columns. */
qkv_status qkv_forecast_fit_scale(qkv_model *m, const qkv_series *train);
const qkv_real *qkv_forecast_mean(const qkv_model *m);      /* (columns) */
const qkv_real *qkv_forecast_std(const qkv_model *m); /* (columns) */

/* windows, B of them, each the data of `context` rows -> (B, horizon, targets), standardised by the
 * mean and standard deviation of the training rows' mean. The windows are read at once. NULL once
 * anything on the tape has failed. Both forms forecast all rows in one pass: the decoder's tokens
 * are the last known one at the positions to come (as in Informer, Zhou et al. 2021), so no error
 * feeds back. */
qkv_tensor *qkv_forecast_forward(qkv_model *m, qkv_tape *t, const qkv_real *const *windows,
                                 size_t B);
/* The mean loss of a forecast, of the kind that the configuration says; target as forecast. */
qkv_tensor *qkv_forecast_loss(qkv_model *m, qkv_tape *t, qkv_tensor *forecast,
                              qkv_tensor *target);

/* FLOPs of a training step on B windows: 6 per parameter used in products and token, 3.5 times
 * attention's forward products. */

QKV_END_DECLS
#endif
