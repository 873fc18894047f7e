/* encode.h - a text through all parts. */
#ifndef QKV_SRC_TOKENIZER_ENCODE_H
#define QKV_SRC_TOKENIZER_ENCODE_H

#include "tokenizer/object.h"

/* The pieces of a text without added tokens: for training. */
qkv_status qkv__tokenizer_pieces(qkv_tokenizer *t, const char *text, size_t len,
                                 const qkv__sink *sink);

#endif
