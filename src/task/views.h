/* views.h - pictures as training sees them: in an order of each epoch's own, moved and mirrored by
 * chance. What belongs together (a picture and its mask) is changed alike. */
#ifndef QKV_SRC_TASK_VIEWS_H
#define QKV_SRC_TASK_VIEWS_H

#include "base/base.h"
#include "qkv/pixels.h"

typedef struct {
    size_t picture;
    size_t right, down; /* it begins so many pixels before the view, less `shift` */
    size_t shift;
    bool mirrored;
} qkv__view;

/* Of sample number `sample`: which of n pictures, moved by up to `shift` pixels each way. */
qkv__view qkv__view_of(size_t n, uint64_t seed, uint64_t sample, size_t shift, bool mirror);

/* out (height, width, channels): what lies beyond an edge is as the edge. */
void qkv__view_take(uint8_t *out, const qkv_pixels *p, const qkv__view *v);

#endif
