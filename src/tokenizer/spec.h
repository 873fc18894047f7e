/* spec.h - the beginning of a tokenizer.json that is made here. */
#ifndef QKV_SRC_TOKENIZER_SPEC_H
#define QKV_SRC_TOKENIZER_SPEC_H

#include "io/json.h"
#include "qkv/tokenizer.h"

/* The beginning of tokenizer.json for what is made here, up to and with the
 * model's plain fields: vocabulary and merges, and two closing brackets, are to follow.
 * special: added tokens and their ids. unk: NULL where there is none. begin, end: of special, what
 * begins and ends every text; NULL for none, never begin alone. */
void qkv__tokenizer_begin_spec(qkv_json_writer *w, qkv_tokenizer_kind kind,
                               const char *const *special, const int32_t *ids, size_t count,
                               const char *unk, const char *begin, const char *end);
void qkv__put_added(qkv_json_writer *w, const char *text, int32_t id);
/* A post-processor: begin A end, and begin A end B end for a pair; with begin NULL A end, A B
 * end. */
void qkv__put_template(qkv_json_writer *w, const char *key, const char *begin, int32_t begin_id,
                       const char *end, int32_t end_id);

#endif
