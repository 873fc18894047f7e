/* forecast.h - forecasts of series: an encoder, or encoder-decoder, whose tokens are windows of
 * rows and which predicts the rows that follow.
 * Layer: model */
#ifndef QKV_FORECAST_H
#define QKV_FORECAST_H

#include <qkv/gpt.h>

QKV_BEGIN_DECLS

/* model_type "qkv_forecast"; configuration: qkv_forecast_config. */
const qkv_model_type *qkv_forecast_type(void);

/* Normalisation of the input, undone on the output. The first step of all kinds standardises each
 * column by the training rows' mean and standard deviation. */
typedef enum {
    QKV_NORMALIZE_SERIES, /* no second step */
    QKV_NORMALIZE_WINDOW, /* then standardises by the window's mean and standard deviation
                             (reversible instance normalisation without weights, Kim et al. 2022) */
    QKV_NORMALIZE_LAST    /* then subtracts the window's last row */
} qkv_normalization;

typedef enum { QKV_FORECAST_MSE, QKV_FORECAST_HUBER, QKV_FORECAST_MAE } qkv_forecast_loss_kind;

/* Configuration. Ranges and defaults: qkv_model_type_config. */
typedef struct {
    size_t columns;  /* values per row */
    size_t targets;  /* the first `targets` columns are forecast; 0: all */
    size_t context;  /* input rows */
    size_t horizon;  /* forecast rows */
    size_t patch;    /* rows per token; divides context */
    size_t width, layers, heads;
    size_t decoder_layers; /* 0: encoder only, with a linear layer that reads all its tokens */
    bool causal;           /* the decoder is autoregressive: each token is forecast from those
                              before it, and causally masked                           false */
    size_t ff_width;       /* 0: 4 width */
    qkv_activation act;
    qkv_normalization normalization;
    qkv_position_kind position_kind; /* learned or sinusoid */
    double dropout, attention_dropout, head_dropout, init_range; /* 0: 1 / sqrt(width) */
    bool linear;                 /* adds a linear layer from the window to the
                                    forecast */
    qkv_forecast_loss_kind loss; /* training loss; Huber's delta is 1 standard deviation */
    size_t season;               /* rows; season of the naive forecast to compare with; 0:
                                    none */
} qkv_forecast_config;

/* Rows of values in the caller's memory, row-major. */
typedef struct {
    const qkv_real *data; /* (rows, columns) */
    size_t rows, columns;
} qkv_series;

/* Computes each column's mean and standard deviation from the training rows; the latter is 1 for a
 * constant column. They are saved with the model. QKV_E_SHAPE if the number of columns is wrong. */
qkv_status qkv_forecast_fit_scale(qkv_model *m, const qkv_series *train);
const qkv_real *qkv_forecast_mean(const qkv_model *m);      /* (columns) */
const qkv_real *qkv_forecast_std(const qkv_model *m); /* (columns) */

/* windows: B pointers to `context` rows each, read during the call -> (B, horizon, targets), in the
 * standardised scale of the training rows. Encoder and encoder-decoder forecast all rows in one
 * pass: the decoder's inputs are the last known token at the future positions (as in Informer, Zhou
 * et al. 2021), so errors do not accumulate. A causal decoder forecasts token after token, each
 * from the last known one and its own forecasts, with keys and values kept; the tape must not
 * record then. NULL once anything on the tape has failed. */
qkv_tensor *qkv_forecast_forward(qkv_model *m, qkv_tape *t, const qkv_real *const *windows,
                                 size_t B);
/* Forecasts for training -> (B, horizon, targets): a causal decoder reads, before each token, the
 * true rows of target (B, horizon, targets; in the standardised scale) in place of its forecasts
 * (teacher forcing: p(Y | X) = product of p(y_i | y_1 .. y_i-1, X), Sutskever et al. 2014), all
 * tokens in one pass. Other models: qkv_forecast_forward; target is not used. */
qkv_tensor *qkv_forecast_forced(qkv_model *m, qkv_tape *t, const qkv_real *const *windows,
                                qkv_tensor *target, size_t B);
/* Mean loss of the configured kind -> (); target has the forecast's shape. */
qkv_tensor *qkv_forecast_loss(qkv_model *m, qkv_tape *t, qkv_tensor *forecast,
                              qkv_tensor *target);

QKV_END_DECLS
#endif
