/* codes.h - what learning codes and judging them share. */
#ifndef QKV_SRC_TASK_CODES_H
#define QKV_SRC_TASK_CODES_H

#include "qkv/codes.h"

typedef struct {
    qkv_context *ctx;
    qkv_model *model, *looks; /* looks: or NULL */
    const qkv_pixels *train, *valid;
    qkv_codes_options o;
    uint64_t seed;
    qkv_batches *batches;
    bool *trains;      /* (parameters) those that no phase but the other's freezes */
    qkv_real *decoded; /* (room) of the whole batch, for the discriminator */
    size_t room;
    qkv_real *moves; /* (codes, code width): what pulls at each code in this step */
    bool judged; /* the discriminator took part in the last step */
} codes_task;

/* Absolute error of decoded y and, with a network, weight times how unlike it looks. */
qkv_tensor *qkv__codes_unlike(qkv_model *looks, double weight, qkv_tape *t, qkv_tensor *y,
                              qkv_tensor *x);
/* Whether the model can code these pictures. */
qkv_status qkv__codes_check(qkv_model *m, const qkv_pixels *p, const char *what);

#endif
