/* scope.c - step memory given back as soon as what it was for is done. */
#include "tensor/tape.h"

qkv_scope qkv_scope_begin(qkv_tape *t)
{
    qkv__mark m = qkv__arena_mark(t->step), n = qkv__arena_mark(t->host);
    return (qkv_scope){{m.block, m.used, m.total, n.block, n.used, n.total}};
}

qkv_tensor *qkv_scope_end(qkv_tape *t, qkv_scope s, qkv_tensor *keep)
{
    if (t->record || t->status || !keep)
        return keep;
    keep = qkv_contiguous(t, keep);
    if (!keep)
        return NULL;
    qkv_tensor old = *keep;
    size_t bytes = qkv_count(keep) * qkv__dtype_size(old.dtype);
    qkv__arena_release(t->step, (qkv__mark){s.opaque[0], s.opaque[1], s.opaque[2]});
    qkv__arena_release(t->host, (qkv__mark){s.opaque[3], s.opaque[4], s.opaque[5]});
    void *data = qkv__step_memory(t, bytes); /* at or before the old place */
    if (!data)
        return NULL;
    t->device->copy(data, old.data, bytes);
    return qkv__new_over(t, old.dtype, data, old.ndim, old.shape);
}
