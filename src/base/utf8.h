/* utf8.h - characters of UTF-8 and their classes. */
#ifndef QKV_SRC_BASE_UTF8_H
#define QKV_SRC_BASE_UTF8_H

#include "base/base.h"

/* Bytes of the character at s (len > 0), and its code point; a byte that starts no
 * well-formed sequence counts 1 and *cp is -1. */
size_t qkv__utf8_next(const char *s, size_t len, int32_t *cp);
size_t qkv__utf8_put(char out[4], int32_t cp);
/* How many of the bytes, from the first on, are UTF-8: len when all are. */
size_t qkv__utf8_valid(const char *s, size_t len);
/* Where the character that ends before at begins (at > 0); a stray byte stands alone. */
size_t qkv__utf8_before(const char *s, size_t at, int32_t *cp);
/* Bytes at the end of s that begin a character and could become one with more: 0 to 3. */
size_t qkv__utf8_unfinished(const char *s, size_t len);

typedef enum { QKV__OTHER, QKV__LETTER, QKV__NUMBER, QKV__SPACE } qkv__char_class;
qkv__char_class qkv__class_of(int32_t cp); /* -1 is QKV__OTHER */
/* Appends, for a regular expression's [...]: all of QKV__SPACE; of letters and numbers those
 * that a library's Unicode may be too old for. */
void qkv__class_ranges(qkv_str *out, qkv__char_class class);
bool qkv__is_word(int32_t cp);             /* what \w matches in Unicode */

#endif
