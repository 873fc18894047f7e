/* scope.c - step memory given back as soon as what it was for is done. */
#include <string.h>

#include "tensor/tape.h"

qkv_scope qkv_scope_begin(qkv_tape *t)
{
    qkv__mark m = qkv__arena_mark(t->step);
    return (qkv_scope){{m.block, m.used, m.total}};
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
    /* The new place is at or before the old one and nothing else is alive behind the mark, but
     * the struct must not be written over data that is still to be moved: data goes first. */
    void *data = qkv__step_alloc(t, bytes);
    if (!data)
        return NULL;
    memmove(data, old.data, bytes);
    return qkv__new_over(t, old.dtype, data, old.ndim, old.shape);
}
