/* pair_loss.h - a translator's loss on packed sentence pairs. */
#ifndef QKV_SRC_TASK_PAIR_LOSS_H
#define QKV_SRC_TASK_PAIR_LOSS_H

#include "text/pairs.h"
#include "qkv/task.h"

/* How often each pair is read: twice where its readings are to agree (R-Drop). */
static inline size_t qkv__pair_readings(double rdrop)
{
    return rdrop > 0 ? 2 : 1;
}

/* Cross-entropy of the pairs' targets, read twice where o asks for rdrop. before: rows of each
 * side that the update has before these (dropout counts on), and its randomness; NULL: nothing is
 * dropped. NULL once anything failed. */
qkv_tensor *qkv__pair_loss(qkv_model *m, qkv_tape *t, const qkv_id_pair *all, size_t pairs,
                           const qkv_randomness before[QKV__SIDES],
                           const qkv_cross_entropy_options *o);

#endif
