/* json.h - tokenizer.json: every part by its name. */
#ifndef QKV_SRC_TOKENIZER_JSON_H
#define QKV_SRC_TOKENIZER_JSON_H

#include "tokenizer/object.h"

/* Reads all parts from t->spec, which is set (vocabulary and merges from t->files where they are
 * set), and takes vocabulary and merges out of it. Destroys t on failure; else *out is t. */
qkv_status qkv__tokenizer_from_spec(qkv_tokenizer **out, qkv_tokenizer *t);
/* A tokenizer from the text of a tokenizer.json; name stands for the file in messages. */
qkv_status qkv__tokenizer_parse(qkv_tokenizer **out, qkv_context *ctx, const char *name,
                                const char *text, size_t len);

#endif
