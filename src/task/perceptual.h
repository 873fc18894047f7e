/* perceptual.h - what teaching a perceptual network and evaluating by it share. */
#ifndef QKV_SRC_TASK_PERCEPTUAL_H
#define QKV_SRC_TASK_PERCEPTUAL_H

#include "qkv/perceptual_task.h"

/* Whether it is such a network, and can look at these images. */
qkv_status qkv__perceptual_check(const qkv_model *m, const qkv_pixels *p);

#endif
