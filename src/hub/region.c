/* region.c - where a tensor of a file lies in the parameter that holds it. */
#include "hub/region.h"

bool qkv__region_in_order(const qkv_state_entry *row)
{
    for (int i = 0; i < row->ndim; i++)
        if (row->perm[i] != i)
            return false;
    return true;
}

void qkv__region_strides(const qkv_state_entry *row, size_t *stride)
{
    size_t region[QKV_MAX_DIMS], step = 1;
    for (int i = 0; i < row->ndim; i++)
        region[row->perm[i]] = row->shape[i];
    size_t region_stride[QKV_MAX_DIMS];
    for (int i = row->ndim - 1; i >= 0; i--) {
        region_stride[i] = step;
        step *= region[i];
    }
    for (int i = 0; i < row->ndim; i++)
        stride[i] = region_stride[row->perm[i]];
}

size_t qkv__region_index(const qkv_state_entry *row, const size_t *stride, size_t e)
{
    size_t at = 0;
    for (int i = row->ndim - 1; i >= 0; i--) {
        at += e % row->shape[i] * stride[i];
        e /= row->shape[i];
    }
    return at;
}
