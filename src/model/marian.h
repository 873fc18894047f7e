/* marian.h - what training asks of an encoder-decoder. */
#ifndef QKV_SRC_MODEL_MARIAN_H
#define QKV_SRC_MODEL_MARIAN_H

#include "qkv/marian.h"

/* The decoder begins with the padding token's row of its table. Marian begins with zeros, and tools
 * that run Marian's models do so whatever the row is (CTranslate2). Where the row is zeros training
 * leaves it so: the output layer, which may be the same table, gives it no gradient. */
void qkv__marian_hold_start(qkv_model *m);

#endif
