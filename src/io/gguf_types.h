/* gguf_types.h - ggml's types of numbers. */
#ifndef QKV_SRC_IO_GGUF_TYPES_H
#define QKV_SRC_IO_GGUF_TYPES_H

#include "base/base.h"

/* A type: so many numbers, neighbours in a row, are a block of so many bytes. */
typedef struct {
    const char *name; /* "Q8_0" */
    uint32_t id;      /* in a file */
    uint32_t file_type; /* general.file_type of a file whose matrices have it */
    size_t block, bytes;
    void (*decode)(qkv_real *out, const uint8_t *in, size_t blocks); /* NULL: it is not read */
    void (*encode)(uint8_t *out, const qkv_real *x, size_t blocks); /* NULL: it is not written */
} qkv__gguf_type;

enum { QKV__GGUF_MOST_BLOCK = 256 };

const qkv__gguf_type *qkv__gguf_type_find(uint32_t id);          /* NULL: none */
const qkv__gguf_type *qkv__gguf_type_named(const char *name);    /* "q8_0"; NULL: none */

#endif
