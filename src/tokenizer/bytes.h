/* bytes.h - characters and pieces that stand for bytes. */
#ifndef QKV_SRC_TOKENIZER_BYTES_H
#define QKV_SRC_TOKENIZER_BYTES_H

#include "base/vocab.h"

/* GPT-2's alphabet: each byte has a printable character (U+0021 to U+0143). */
int32_t qkv__byte_char(uint8_t byte);
int qkv__char_byte(int32_t cp); /* -1: stands for no byte */
/* The byte that the piece <0xXX> stands for, or -1. */
int qkv__fallback_byte(const char *piece, size_t len);
/* That piece's id, or -1. */
int32_t qkv__fallback_find(const qkv__vocab *pieces, char byte);
/* Appends those of all bytes as to_id has them (NULL: as they are); none, and false, when one is
 * missing or memory is out. */
bool qkv__fallback_put(qkv_ids *ids, qkv_context *ctx, const qkv__vocab *pieces,
                       const int32_t *to_id, const char *bytes, size_t len);
/* Appends the bytes' characters. */
void qkv__bytes_to_chars(qkv_str *out, const char *bytes, size_t len);

#endif
