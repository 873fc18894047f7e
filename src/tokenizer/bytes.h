/* bytes.h - characters and pieces that stand for bytes. */
#ifndef QKV_SRC_TOKENIZER_BYTES_H
#define QKV_SRC_TOKENIZER_BYTES_H

#include "base/base.h"

/* GPT-2's alphabet: each byte has a printable character (U+0021 to U+0143). */
int32_t qkv__byte_char(uint8_t byte);
int qkv__char_byte(int32_t cp); /* -1: stands for no byte */
/* The byte that the piece <0xXX> stands for, or -1. */
int qkv__fallback_byte(const char *piece, size_t len);
/* Appends the bytes' characters. */
void qkv__bytes_to_chars(qkv_str *out, const char *bytes, size_t len);

#endif
