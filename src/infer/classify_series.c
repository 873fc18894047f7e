/* classify_series.c - classes of series. */
#include <string.h>

#include "model/model.h"
#include "qkv/infer.h"

qkv_status qkv_classify_series(qkv_model *m, const qkv_series_batch *in, qkv_real *probs)
{
    qkv_tape *t;
    if (!qkv__model_as(m, NULL, __func__, QKV_CAN_CLASSIFY_SERIES))
        return QKV_E_ARGUMENT;
    qkv_status status = qkv_tape_create(&t, qkv_model_context(m));
    if (status)
        return status;
    qkv_tape_mode(t, false, false);
    qkv_tensor *y = qkv_softmax(t, qkv_series_class_logits(m, t, in));
    const qkv_real *p = qkv_data(t, y);
    if (p)
        memcpy(probs, p, qkv_count(y) * sizeof *p);
    status = qkv_tape_status(t);
    qkv_tape_destroy(t);
    return status;
}
