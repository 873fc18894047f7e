/* series_tower.h - what models of series share: stacks of blocks over tokens with positions, and
 * the scale of columns. */
#ifndef QKV_SRC_MODEL_SERIES_TOWER_H
#define QKV_SRC_MODEL_SERIES_TOWER_H

#include "model/model.h"
#include "nn/stack.h"
#include "qkv/forecast.h"
#include "qkv/gpt.h"

/* Can a model have this width and these heads and positions, and cut its rows so? */
qkv_status qkv__series_check(const qkv_model *base, size_t width, size_t heads,
                             qkv_position_kind kind, size_t context, size_t patch);

/* ---- stacks ---- */

typedef struct {
    const char *name; /* "encoder": of its parameters */
    size_t tokens;
    qkv_position_kind kind; /* of positions: learned or sinusoid */
    uint32_t input_dropout_id, norm_dropout_id;
    qkv_param *positions; /* (tokens, width) */
    qkv__stack stack;
} qkv__series_tower;

/* Makes positions and stack of a tower that has the other fields. first_block: as in
 * qkv__stack_options; first: the position of the tower's first token, of sinusoids. */
qkv_status qkv__series_tower_make(qkv__series_tower *s, qkv_params *ps, const qkv_block_config *b,
                                  size_t layers, uint32_t first_block, size_t first);

/* Its entries. The blocks' weights begin normal with that standard deviation. */
void qkv__series_tower_visit(const qkv__series_tower *s, qkv__visit *v, double std);

/* ---- scale ---- */

/* Of the training rows; parameters that are not learned. */
typedef struct {
    qkv_param *mean, *std; /* (columns): 0 and 1 at first */
} qkv__series_scale;

qkv_status qkv__series_scale_make(qkv__series_scale *s, qkv_params *ps, size_t columns);
void qkv__series_scale_visit(const qkv__series_scale *s, qkv__visit *v);

/* Mean and standard deviation (1 where it is 0) of the rows' columns, of the values that are there.
 * QKV_E_SHAPE: there are no rows, or of other columns. */
qkv_status qkv__series_scale_fit(const qkv__series_scale *s, const qkv_model *base,
                                 const qkv_series *rows);

#endif
