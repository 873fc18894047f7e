/* series_block.h - what models of series share: the names of a block's parameters. */
#ifndef QKV_SRC_MODEL_SERIES_BLOCK_H
#define QKV_SRC_MODEL_SERIES_BLOCK_H

#include "model/model.h"

/* The entries of a pre-norm block, whose weights begin normal with that standard deviation. */
void qkv__visit_series_block(qkv__visit *v, const qkv_block_params *p, size_t width,
                             size_t ff_width, double std);

#endif
