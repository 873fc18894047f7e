/* spec.h - a tokenizer.json that is made here, as jansson's values: NULL when memory is out, or a
 * text is not UTF-8, also where a part given is NULL. Parts are taken. */
#ifndef QKV_SRC_TOKENIZER_SPEC_H
#define QKV_SRC_TOKENIZER_SPEC_H

#include "base/vocab.h"
#include "io/json.h"
#include "qkv/tokenizer.h"

/* All of it; vocabulary and merges go into its "model" yet. */
json_t *qkv__spec(json_t *added, json_t *normalizer, json_t *splitter, json_t *processor,
                  json_t *decoder, json_t *model);
/* The same for byte-level BPE, or for characters. special: added tokens and their ids. unk: NULL
 * where there is none. begin, end: of special, what begins and ends every text; NULL for none,
 * never begin alone. */
json_t *qkv__spec_plain(qkv_tokenizer_kind kind, const char *const *special, const int32_t *ids,
                        size_t count, const char *unk, const char *begin, const char *end);

/* Whether the member is this text. */
bool qkv__spec_says(const json_t *at, const char *key, const char *text);
json_t *qkv__spec_byte_level(bool use_regex); /* the part of pieces, of ids and of text */
json_t *qkv__spec_added(const char *text, int32_t id); /* a special token */
/* A post-processor: begin A end, and begin A end B end for a pair; with begin NULL A end, A B
 * end. */
json_t *qkv__spec_template(const char *begin, int32_t begin_id, const char *end, int32_t end_id);
json_t *qkv__spec_vocab(const qkv__vocab *v); /* {token: id} */
/* The way back, from a place; refuses bad ids, two tokens for one id, and ids of which most are
 * missing. */
qkv_status qkv__vocab_read(qkv__vocab *v, const qkv__json *object);

#endif
