/* codes_evaluate.h - what learning codes and evaluating them share. */
#ifndef QKV_SRC_TASK_CODES_EVALUATE_H
#define QKV_SRC_TASK_CODES_EVALUATE_H

#include "qkv/codes.h"

/* Absolute error of decoded y and, with a network, weight times how unlike it looks; both are
 * reported as terms of the part. part: or NULL. */
qkv_tensor *qkv__codes_unlike(qkv_model *lpips, double weight, qkv_tape *t, qkv_tensor *y,
                              qkv_tensor *x, const qkv_micro_batch *part);
/* Whether the model can code these images. */
qkv_status qkv__codes_check(qkv_model *m, const qkv_pixels *p, const char *what);

#endif
