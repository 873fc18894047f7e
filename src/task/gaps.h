/* gaps.h - which values of a series are hidden from a model that learns to fill them in. */
#ifndef QKV_SRC_TASK_GAPS_H
#define QKV_SRC_TASK_GAPS_H

#include "base/base.h"
#include "qkv/series.h"

/* Copies a window (rows, columns) to out, with NaN in place of spans of values. Spans have lengths
 * of a geometric distribution with mean c->mask_span, and so have the spans between them, with a
 * mean for which c->mask of the values are hidden (Zerveas et al. 2021, 4.3). Half of the samples
 * lose whole rows, half each column by itself. Returns how many values were hidden that are known;
 * at least one, unless none is. A function of (seed, sample, window). */
size_t qkv__gaps_hide(const qkv_series_config *c, uint64_t seed, uint64_t sample,
                      const qkv_real *window, size_t rows, qkv_real *out);

#endif
