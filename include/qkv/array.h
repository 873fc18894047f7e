/* array.h - numbers in memory with their shape, as files of arrays give them.
 * Layer: io */
#ifndef QKV_ARRAY_H
#define QKV_ARRAY_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

enum { QKV_ARRAY_DIMS = 32 };

/* Numbers in memory, row-major, with their shape. Freed with qkv_array_free. */
typedef struct {
    qkv_context *ctx;
    int ndim; /* 0: one number */
    size_t shape[QKV_ARRAY_DIMS];
    size_t count;
    qkv_real *data;
    char **names; /* of the columns, when the text had a header: (shape[1]); else NULL */
} qkv_array;

void qkv_array_free(qkv_array *a); /* a zeroed one is allowed */

QKV_END_DECLS
#endif
