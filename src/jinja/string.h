/* string.h - what Python's str does, on UTF-8: a character is a code point. */
#ifndef QKV_SRC_JINJA_STRING_H
#define QKV_SRC_JINJA_STRING_H

#include "jinja/pool.h"

/* Bytes of UTF-8; they may hold U+0000. */
typedef struct {
    const char *data;
    size_t len;
} qkv__jinja_str;

bool qkv__jinja_is(qkv__jinja_str s, const char *text);
bool qkv__jinja_same(qkv__jinja_str a, qkv__jinja_str b);
bool qkv__jinja_space(int32_t cp); /* str.isspace of a character */
bool qkv__jinja_begins(qkv__jinja_str s, qkv__jinja_str with);
bool qkv__jinja_ends(qkv__jinja_str s, qkv__jinja_str with);

/* These take steps of the pool. What they return is of no use once it is full. */

/* Without white space (chars NULL) or the characters of chars at the left and right end. */
qkv__jinja_str qkv__jinja_strip(qkv__jinja_pool *p, qkv__jinja_str s, const qkv__jinja_str *chars,
                                bool left, bool right);
size_t qkv__jinja_length(qkv__jinja_pool *p, qkv__jinja_str s); /* in characters */
/* Bytes that the first characters take. */
size_t qkv__jinja_offset(qkv__jinja_pool *p, qkv__jinja_str s, size_t characters);
/* Where needle begins in s, from byte `from` on; SIZE_MAX: nowhere. */
size_t qkv__jinja_index(qkv__jinja_pool *p, qkv__jinja_str s, qkv__jinja_str needle, size_t from);
int qkv__jinja_order(qkv__jinja_pool *p, qkv__jinja_str a, qkv__jinja_str b); /* as of strcmp */
/* Where the line that begins at `at` ends, and where the next one begins: str.splitlines. */
size_t qkv__jinja_line_end(qkv__jinja_pool *p, qkv__jinja_str s, size_t at, size_t *next);
bool qkv__jinja_ends_line(qkv__jinja_str s); /* is its last character the end of a line? */

#endif
