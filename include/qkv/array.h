/* array.h - arrays of real numbers in host memory, as read from array files.
 * Layer: io */
#ifndef QKV_ARRAY_H
#define QKV_ARRAY_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

enum { QKV_ARRAY_DIMS = 32 };

/* A row-major array. Free it with qkv_array_free. */
typedef struct {
    qkv_context *ctx;
    int ndim; /* 0: a scalar */
    size_t shape[QKV_ARRAY_DIMS];
    size_t count;
    qkv_real *data;
    char **names; /* (shape[1]) column names, if a text file had a header; else NULL */
} qkv_array;

void qkv_array_free(qkv_array *a); /* *a may be zeroed */

QKV_END_DECLS
#endif
