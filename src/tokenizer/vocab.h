/* vocab.h - vocabularies in files. */
#ifndef QKV_SRC_TOKENIZER_VOCAB_H
#define QKV_SRC_TOKENIZER_VOCAB_H

#include "base/vocab.h"
#include "io/json.h"

/* From an object token -> id at a place; refuses bad ids, two tokens for one id, and ids of
 * which most are missing. */
qkv_status qkv__vocab_read(qkv__vocab *v, const qkv__json *object);

#endif
