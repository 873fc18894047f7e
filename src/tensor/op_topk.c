/* op_topk.c - the likeliest columns of rows of logits, for searches; nothing is differentiated. */
#include <string.h>

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
    size_t n = args.N * args.k, bytes = n * (sizeof *log_p + sizeof *ids);
    qkv__mark mark = qkv__arena_mark(t->exec.scratch), host = qkv__arena_mark(t->host);
    /* One behind the other, so that both come out by one copy. */
    qkv_real *value = t->device->host ? log_p : qkv__scratch(t, bytes / sizeof(qkv_real) + 1);
    int32_t *id = t->device->host ? ids : value ? (int32_t *)(void *)(value + n) : NULL;
    if (!t->status)
        t->k->top(&t->exec, value, id, qkv__real(logits), &args);
    if (!t->status && !t->device->host) {
        const qkv_real *read = qkv__read(t, value, bytes);
        if (read && log_p)
            memcpy(log_p, read, n * sizeof *log_p);
        if (read && ids)
            memcpy(ids, read + n, n * sizeof *ids);
    }
    qkv__arena_release(t->host, host);
    qkv__arena_release(t->exec.scratch, mark);
    return !t->status;
}
