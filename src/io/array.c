/* array.c - arrays are given back. */
#include "qkv/array.h"

#include "base/base.h"

void qkv_array_free(qkv_array *a)
{
    for (size_t i = 0; a->names && i < a->shape[1]; i++)
        qkv_free(a->ctx, a->names[i]);
    if (a->names)
        qkv_free(a->ctx, a->names);
    if (a->data)
        qkv_free(a->ctx, a->data);
    *a = (qkv_array){0};
}
