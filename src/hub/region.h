/* region.h - where a tensor of a file lies in the parameter that holds it. */
#ifndef QKV_SRC_HUB_REGION_H
#define QKV_SRC_HUB_REGION_H

#include "qkv/nn.h"

/* Do the file and the region have their axes in one order? */
bool qkv__region_in_order(const qkv_state_entry *row);
/* For every axis of the file, how far apart its neighbours are in the region. */
void qkv__region_strides(const qkv_state_entry *row, size_t *stride);
/* Where element e of the file's tensor is in the region. */
size_t qkv__region_index(const qkv_state_entry *row, const size_t *stride, size_t e);

#endif
