/* likeliest.h - greedy choices by all threads, or where logits lie on a device: nobody looks at one
 * logit after another. */
#ifndef QKV_INFER_LIKELIEST_H
#define QKV_INFER_LIKELIEST_H

#include "qkv/infer.h"

/* Whether the largest logit alone decides. */
bool qkv__takes_likeliest(const qkv_sampling *s);

/* ids[i]: the first largest of row i of the logits. False: they must be looked at as ever, since
 * one of them is not a number, or infinite, or the tape has failed. log_p (rows) is scratch. */
bool qkv__likeliest(qkv_tape *t, qkv_tensor *logits, int32_t *ids, qkv_real *log_p);

#endif
