/* stack.c - what all stacks of blocks do alike: make them, number positions, pass the stream on. */
#include "nn/stack.h"

#include <stdio.h>

#include "tensor/make.h"

qkv_block **qkv__stack_create(qkv_params *ps, const qkv_block_config *config, const char *name,
                              size_t count, uint32_t first, bool scale_by_layer)
{
    qkv_block **blocks = qkv__params_alloc(ps, count * sizeof *blocks);
    for (size_t i = 0; blocks && i < count; i++) {
        char full[48];
        qkv_block_config c = *config;
        if (scale_by_layer)
            c.attention_scale /= (double)(i + 1);
        c.drop_path *= count > 1 ? (double)i / (double)(count - 1) : 0;
        snprintf(full, sizeof full, "%s.%zu", name, i);
        blocks[i] = qkv_block_create(ps, &c, full, first + (uint32_t)i);
        if (!blocks[i])
            return NULL;
    }
    return blocks;
}

qkv_tensor *qkv__positions(qkv_tape *t, const qkv_tensor *ids, size_t past, size_t sequences,
                           const int32_t *offsets)
{
    size_t shape[] = {qkv_dim(ids, 0), qkv_dim(ids, 1)}, n = shape[0] * shape[1];
    int32_t *p = qkv__step_alloc(t, (n + 1) * sizeof *p);
    if (!p)
        return NULL;
    for (size_t i = 0; !offsets && i < n; i++)
        p[i] = (int32_t)(past + i % shape[1]);
    for (size_t s = 0; offsets && s < sequences; s++)
        for (int32_t i = offsets[s]; i < offsets[s + 1] && (size_t)i < n; i++)
            p[i] = i - offsets[s];
    return qkv_tensor_ids(t, p, 2, shape);
}

bool qkv__stack_forward(qkv_tape *t, qkv_block *const *blocks, size_t count, qkv_stream *s,
                        const qkv_sequence *seq, qkv_block_cache *caches)
{
    for (size_t i = 0; i < count; i++) {
        qkv_scope scope = qkv_scope_begin(t);
        if (!qkv_block_forward(blocks[i], t, s, seq, caches ? &caches[i] : NULL))
            return false;
        if (!qkv__records(t)) { /* one tensor survives: the sum */
            s->x = qkv_scope_end(t, scope, s->branch ? qkv_add(t, s->x, s->branch) : s->x);
            s->branch = NULL;
        }
    }
    return true;
}
