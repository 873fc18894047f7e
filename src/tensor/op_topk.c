/* op_topk.c - the likeliest columns of rows of logits, for searches; nothing is differentiated. */
#include "tensor/tape.h"

static bool bans_fit(const qkv_topk_options *o, size_t V)
{
    for (size_t i = 0; i < o->bans; i++)
        if (o->banned[i] < 0 || (size_t)o->banned[i] >= V ||
            (i && o->banned[i] <= o->banned[i - 1]))
            return false;
    return true;
}

bool qkv_topk(qkv_tape *t, qkv_tensor *logits, const qkv_topk_options *o, qkv_real *log_p,
              int32_t *ids)
{
    if (!qkv__ready_contiguous(t, "topk", 1, &logits))
        return false;
    if (logits->ndim < 1 || o->k < 1 || !bans_fit(o, qkv__channels(logits)))
        return qkv__op_fail(t, "topk", "%zu columns of logits %s, and %zu banned ones, which must "
                            "increase, do not fit", o->k, qkv__shape_text(t, logits),
                            o->bans) != NULL;
    qkv_k_top_args args = {qkv__rows(logits), qkv__channels(logits), o->k, o->bans, o->banned,
                           o->renormalize};
    size_t n = args.N * args.k;
    qkv__mark mark = qkv__arena_mark(t->exec.scratch);
    qkv_real *value = qkv__target(t, log_p, n * sizeof *value);
    int32_t *id = qkv__target(t, ids, n * sizeof *id);
    if (!t->status) {
        t->k->top(&t->exec, value, id, qkv__real(logits), &args);
        qkv__deliver(t, log_p, value, n * sizeof *value);
        qkv__deliver(t, ids, id, n * sizeof *id);
    }
    qkv__arena_release(t->exec.scratch, mark);
    return !t->status;
}
