/* bert.h - characters to BERT's cleaning normalizers. */
#ifndef QKV_SRC_TOKENIZER_BERT_H
#define QKV_SRC_TOKENIZER_BERT_H

#include "base/base.h"

bool qkv__bert_control(int32_t cp);
bool qkv__bert_punctuation(int32_t cp);
bool qkv__bert_accent(int32_t cp);
bool qkv__bert_ideograph(int32_t cp);
bool qkv__is_mark(int32_t cp); /* what StripAccents takes away */
void qkv__put_lower(qkv_str *out, int32_t cp);

#endif
