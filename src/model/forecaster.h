/* forecaster.h - a forecaster's inside: its towers, and how its decoders make rows of tokens. */
#ifndef QKV_SRC_MODEL_FORECASTER_H
#define QKV_SRC_MODEL_FORECASTER_H

#include "model/series_tower.h"
#include "qkv/forecast.h"

/* Dropout sites that no block has. */
#define QKV__FORECAST_DROPOUT_IDS 0xE0000000u
enum { QKV__FORECAST_SOURCE, QKV__FORECAST_TARGET, QKV__FORECAST_ENCODER, QKV__FORECAST_DECODER,
       QKV__FORECAST_HEAD };

typedef struct {
    qkv_model *base;
    qkv_forecast_config *c; /* base->config */
    qkv__series_tower encoder, decoder; /* decoder.stack.count 0: none */
    qkv_linear_layer embed;      /* (width, patch columns) */
    qkv_linear_layer embed_rows; /* (width, patch targets): of rows to come; causal decoders */
    qkv_linear_layer head;       /* (outputs, inputs) of head_shape */
    qkv_linear_layer linear;     /* (horizon targets, context columns), or NULL */
    qkv__series_scale scale;
} qkv__forecaster;

/* What the model sees, and how to undo it. */
typedef struct {
    qkv_tensor *x;              /* (B, tokens, patch columns) */
    qkv_tensor *center, *scale; /* (B, 1, targets), or NULL */
} qkv__forecast_view;

/* x (B, tokens or 1, width) at the tower's positions and through its stack; with caches, one token
 * at position `first`. */
qkv_tensor *qkv__forecast_run(qkv__forecaster *m, qkv_tape *t, const qkv__series_tower *s,
                              qkv_tensor *x, qkv_tensor *memory, size_t first,
                              qkv_block_cache *caches);
/* The encoder alone, or a decoder of all rows at once: -> (B, horizon, targets). e: the embedded
 * window; y: the encoder's output. */
qkv_tensor *qkv__forecast_joint(qkv__forecaster *m, qkv_tape *t, qkv_tensor *e, qkv_tensor *y);
/* A causal decoder: all tokens from the true ones before them, or token after token, each from the
 * forecasts before it. l: the linear forecast, added to each row, or NULL. */
qkv_tensor *qkv__forecast_forced(qkv__forecaster *m, qkv_tape *t, const qkv__forecast_view *in,
                                 qkv_tensor *memory, qkv_tensor *target, qkv_tensor *l);
qkv_tensor *qkv__forecast_roll_out(qkv__forecaster *m, qkv_tape *t, const qkv__forecast_view *in,
                                   qkv_tensor *memory, qkv_tensor *l);

#endif
