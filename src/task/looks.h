/* looks.h - what teaching a perceptual network and judging by it share. */
#ifndef QKV_SRC_TASK_LOOKS_H
#define QKV_SRC_TASK_LOOKS_H

#include "qkv/looks.h"

/* Whether it is such a network, and can look at these pictures. */
qkv_status qkv__looks_check(const qkv_model *m, const qkv_pixels *p);

#endif
