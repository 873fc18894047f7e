/* pickle.h - Python's pickles (protocols 2 to 5) as a tree of plain values.
 *
 * A pickle is a program for a stack machine that may ask for any class or function of Python by
 * name and call it. This machine builds containers, numbers and texts itself; every name goes to
 * the host, which knows a few and refuses the rest before anything else is done. */
#ifndef QKV_SRC_PYTORCH_PICKLE_H
#define QKV_SRC_PYTORCH_PICKLE_H

#include "pytorch/value.h"

/* The pickle that begins at *at; *at moves behind it. Values live in the arena, their texts in
 * the pickle. They may be shared, and may hold themselves. path is for messages. */
qkv_status qkv__pickle_read(qkv__value **out, qkv_context *ctx, qkv__arena *arena,
                            const char *path, const uint8_t **at, const uint8_t *end,
                            const qkv__pickle_host *host);

/* The text with what is not plain ASCII as '?', cut when longer; for messages. */
void qkv__pickle_plain(char *out, size_t size, const char *text, size_t length);

#endif
