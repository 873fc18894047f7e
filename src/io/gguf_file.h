/* gguf_file.h - an open GGUF file, for those who read it. */
#ifndef QKV_SRC_IO_GGUF_FILE_H
#define QKV_SRC_IO_GGUF_FILE_H

#include "io/gguf.h"

#define QKV__GGUF_MAGIC "GGUF"
enum { QKV__GGUF_MAGIC_BYTES = 4 };

struct qkv_gguf {
    qkv_context *ctx;
    char *path;
    qkv__arena *arena;
    qkv__map map;
    size_t at; /* while the header is read: where the next byte is */
    qkv__gguf_field *fields; /* sorted by key once open */
    size_t field_count;
    qkv__gguf_tensor *tensors; /* sorted by name once open */
    size_t count;
};

/* gguf_header.c: fields and tensors of the mapped file, checked. */
qkv_status qkv__gguf_read_header(qkv_gguf *g);

/* gguf_fields.c: bytes of a value; 0: it has no fixed length. How fields are sorted. */
size_t qkv__gguf_kind_bytes(qkv__gguf_kind kind);
int qkv__gguf_by_key(const void *a, const void *b);
/* gguf_fields.c too: how tensors are; whether a terminal may be given a character (-1: a byte that
 * is no UTF-8) as it is. */
int qkv__gguf_by_name(const void *a, const void *b);
bool qkv__gguf_printable(int32_t cp);

#endif
