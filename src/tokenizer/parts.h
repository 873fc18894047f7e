/* parts.h - normalizers, pre-tokenizers, decoders and post-processors of tokenizer.json: one step,
 * or a "Sequence" of steps, each of a type. */
#ifndef QKV_SRC_TOKENIZER_PARTS_H
#define QKV_SRC_TOKENIZER_PARTS_H

#include "io/json.h"

typedef qkv_status qkv__part_fn(void *part, const qkv__json *at, const char *type);

/* Reads the step at a place, or those in its field `list`, lists within lists up to `depth`; one
 * that lies deeper is for read to refuse. */
qkv_status qkv__parts_read(void *part, const qkv__json *at, const char *list, unsigned depth,
                           qkv__part_fn *read);

#endif
