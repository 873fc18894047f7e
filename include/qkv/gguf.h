/* gguf.h - GGUF files, as llama.cpp has them: fields and tensors. qkv_convert makes model
 * directories of them, and them of model directories.
 * Layer: io */
#ifndef QKV_GGUF_H
#define QKV_GGUF_H

#include <qkv/string.h>

QKV_BEGIN_DECLS

typedef struct qkv_gguf qkv_gguf;

/* A tensor of an open file; its name is valid until that is closed. */
typedef struct {
    const char *name;
    const char *type; /* "F32", "Q8_0" */
    int ndim;
    size_t shape[4]; /* row-major: the innermost axis last, where the file has it first */
    size_t count;    /* number of elements */
    size_t bytes;
} qkv_gguf_tensor;

/* Whether the path is a GGUF file's: its name ends in ".gguf", or the file begins with "GGUF". */
bool qkv_gguf_is(const char *path);

/* Opens a file of version 2 or 3 and checks all its lengths. On failure *out is NULL: QKV_E_IO if
 * it cannot be read, QKV_E_FORMAT if it is malformed, QKV_E_UNSUPPORTED for another version and for
 * a tensor of an unknown type. */
qkv_status qkv_gguf_open(qkv_gguf **out, qkv_context *ctx, const char *path);
void qkv_gguf_close(qkv_gguf *g); /* NULL is allowed */

size_t qkv_gguf_tensors(const qkv_gguf *g);
qkv_gguf_tensor qkv_gguf_tensor_at(const qkv_gguf *g, size_t i); /* sorted by name */
/* Reads elements begin .. begin+count-1 of tensor i, row-major. QKV_E_ARGUMENT: it has fewer;
 * QKV_E_UNSUPPORTED: its type is not read (IQ types, integers). */
qkv_status qkv_gguf_read(const qkv_gguf *g, size_t i, size_t begin, size_t count, qkv_real *out);

size_t qkv_gguf_fields(const qkv_gguf *g);
/* The key of field i, in sorted order. Appends its value as text to `value`, unless that is NULL:
 * of an array its length and first values. */
const char *qkv_gguf_field(const qkv_gguf *g, size_t i, qkv_str *value);

QKV_END_DECLS
#endif
