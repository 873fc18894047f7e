/* ranks.h - text that rank 0 alone can read: a standard input is its own. */
#ifndef QKV_SRC_PIPELINE_RANKS_H
#define QKV_SRC_PIPELINE_RANKS_H

#include "base/base.h"

/* Rank 0's text and the number of its lines become those of all. status: of reading it; every rank
 * fails if one does. */
qkv_status qkv__share_lines(qkv_context *ctx, qkv_status status, qkv_str *text, size_t *lines);

#endif
