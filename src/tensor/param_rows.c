/* param_rows.c - some rows of a matrix as a parameter of their own: what a product needs that few
 * of a layer's outputs are asked of. */
#include "kernel/small.h"
#include "tensor/param.h"

static bool take_full(qkv_param *p, const qkv_param *from, const int32_t *ids, const qkv_exec *e)
{
    p->data = qkv__param_memory(p, p->count * sizeof *p->data);
    if (p->data)
        qkv__params_kernels(p->owner)->embed(e, p->data, ids, from->data, 1, NULL, NULL,
                                             p->shape[0], p->shape[1]);
    return p->data;
}

static bool take_small(qkv_param *p, const qkv_param *from, const int32_t *ids, const qkv_exec *e)
{
    qkv_k_small *small = &p->small;
    p->weights = from->weights;
    *small = (qkv_k_small){.type = from->small.type, .n = p->shape[0], .k = p->shape[1]};
    size_t scales = qkv__small_scale_bytes(small);
    small->words = qkv__param_memory(p, qkv__small_word_bytes(small));
    small->scales = scales && small->words ? qkv__param_memory(p, scales) : NULL;
    if (!small->words || (scales && !small->scales))
        return false;
    qkv__params_kernels(p->owner)->take_small(e, small, &from->small, ids);
    return true;
}

qkv_param *qkv__param_rows(qkv_params *ps, const char *name, const qkv_param *from,
                           const int32_t *rows, size_t n)
{
    const size_t shape[] = {n, from->shape[1]};
    qkv_exec e = qkv__params_exec(ps);
    qkv__mark mark = qkv__arena_mark(e.scratch);
    qkv_param *p = qkv__param_declare(ps, name, 2, shape);
    int32_t *ids = p ? qkv__arena_alloc(e.scratch, n * sizeof *ids) : NULL;
    if (ids)
        qkv__params_device(ps)->copy_in(ids, rows, n * sizeof *ids);
    bool full = from->weights == QKV_WEIGHTS_F32;
    bool fine = ids && (full ? take_full : take_small)(p, from, ids, &e);
    qkv__arena_release(e.scratch, mark);
    if (!fine)
        return NULL;
    p->frozen = true;
    return qkv__param_enter(p);
}
