/* rotary.h - what layers with rotary positions ask for beside qkv_rotary_frequencies. */
#ifndef QKV_SRC_NN_ROTARY_H
#define QKV_SRC_NN_ROTARY_H

#include "base/base.h"
#include "qkv/nn.h"

/* QKV_OK when heads of that width can have such positions; else QKV_E_ARGUMENT, and a sentence
 * about the layer `name`. */
qkv_status qkv__rotary_check(qkv_context *ctx, const qkv_rotary_config *c, size_t head_width,
                             const char *name);

#endif
