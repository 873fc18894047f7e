/* spans.h - what a model says within a rendering. */
#ifndef QKV_SRC_JINJA_SPANS_H
#define QKV_SRC_JINJA_SPANS_H

#include "base/base.h"

/* Bytes of the rendering between {% generation %} and {% endgeneration %}, in order. */
typedef struct {
    size_t *ends; /* (2 count) the first byte of each, and the one after its last */
    size_t count, capacity;
} qkv__jinja_spans;

#endif
