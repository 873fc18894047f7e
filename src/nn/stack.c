/* stack.c - what all stacks of blocks do alike: make them, number positions, pass the stream on. */
#include "nn/stack.h"

#include <stdio.h>
#include <string.h>

#include "nn/state_entries.h"
#include "tensor/make.h"

static bool stack_make_norm(qkv__stack *s, qkv_params *ps, const qkv_block_config *c,
                            const char *norm)
{
    bool bias = s->norm == QKV_NORM_LAYER;
    s->norm_weight = qkv__layer_param(ps, norm, "weight", c->width, 0);
    s->norm_bias = bias ? qkv__layer_param(ps, norm, "bias", c->width, 0) : NULL;
    return s->norm_weight && (s->norm_bias || !bias);
}

qkv_status qkv__stack_make(qkv__stack *s, qkv_params *ps, const qkv_block_config *config,
                           size_t count, const qkv__stack_options *o)
{
    *s = (qkv__stack){.count = count, .block_name = qkv__layer_name(ps, o->block),
                      .norm_name = qkv__layer_name(ps, o->norm),
                      .norm = config->post_norm ? QKV_NORM_NONE : config->norm,
                      .norm_eps = config->norm_eps, .dropout = config->dropout,
                      .norm_dropout_id = o->norm_dropout_id};
    s->blocks = qkv__params_alloc(ps, count * sizeof *s->blocks);
    bool made = s->blocks && s->block_name;
    for (size_t i = 0; made && i < count; i++) {
        char name[48];
        qkv_block_config c = *config;
        if (o->scale_by_layer)
            c.attention_scale /= (double)(i + 1);
        c.window = i < o->window_from ? 0 : c.window;
        c.drop_path *= count > 1 ? (double)i / (double)(count - 1) : 0;
        snprintf(name, sizeof name, "%s.%zu", o->block, i);
        s->blocks[i] = qkv_block_create(ps, &c, name, o->first + (uint32_t)i);
        made = s->blocks[i] != NULL;
    }
    if (made && s->norm != QKV_NORM_NONE)
        made = stack_make_norm(s, ps, config, o->norm);
    return made ? QKV_OK : qkv_context_status(qkv__params_context(ps));
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
            p[i] = (int32_t)past + i - offsets[s];
    return qkv_tensor_ids(t, p, 2, shape);
}

qkv_tensor *qkv__slot_positions(qkv_tape *t, const qkv_tensor *ids, const qkv_kv_slots *s)
{
    size_t shape[] = {qkv_dim(ids, 0), qkv_dim(ids, 1)}, n = shape[0] * shape[1];
    const int32_t *start = s->positions ? s->positions : s->past;
    int32_t *p = qkv__step_alloc(t, (n + 1) * sizeof *p);
    if (!p)
        return NULL;
    for (size_t i = 0; i < n; i++)
        p[i] = 0;
    for (size_t j = 0; j < s->sequences; j++)
        for (int32_t i = s->offsets[j]; i >= 0 && i < s->offsets[j + 1] && (size_t)i < n; i++)
            p[i] = start[j] + i - s->offsets[j];
    return qkv_tensor_ids(t, p, 2, shape);
}

/* The block that qkv_tape_enter chose, with the stream there; without one block 0. */
static size_t stack_entry(const qkv__stack *s, qkv_tape *t, qkv_stream *stream)
{
    for (size_t i = 0; i <= s->count; i++) {
        qkv_tensor *x = qkv__entered(t, s->block_name, i);
        if (x) {
            stream->x = x;
            return i;
        }
    }
    return 0;
}

/* ---- recomputing a block -------------------------------------------------------------------- */

typedef struct {
    qkv_block *block;
    qkv_sequence seq;
} stack_part;

/* in, out: the stream and its branch. */
static bool stack_run_part(qkv_tape *t, const void *args, qkv_tensor *const *in, qkv_tensor **out)
{
    const stack_part *p = args;
    qkv_stream stream = {in[0], in[1]};
    if (!qkv_block_forward(p->block, t, &stream, &p->seq, NULL))
        return false;
    out[0] = stream.x;
    out[1] = stream.branch;
    return true;
}

static bool stack_recompute(qkv_block *b, qkv_tape *t, qkv_stream *stream, const qkv_sequence *seq)
{
    const stack_part part = {b, *seq};
    qkv_tensor *in[] = {stream->x, stream->branch}, *out[2];
    const qkv_recompute_args args = {stack_run_part, &part, sizeof part, 2, 2, in};
    if (!qkv_recompute(t, &args, out))
        return false;
    *stream = (qkv_stream){out[0], out[1]};
    return true;
}

/* A copy of n numbers that lasts until the backward pass; NULL for NULL. */
static const int32_t *stack_keep(qkv_tape *t, const int32_t *list, size_t n)
{
    int32_t *copy = list ? qkv__step_alloc(t, (n + 1) * sizeof *copy) : NULL;
    if (copy)
        memcpy(copy, list, n * sizeof *copy);
    return copy;
}

/* The sequences with lists that are not the caller's, who may change them before the backward
 * pass; B: the stream's leading dimension. */
static qkv_sequence stack_keep_sequence(qkv_tape *t, const qkv_sequence *seq, size_t B)
{
    qkv_sequence s = *seq;
    size_t n = seq->offsets ? seq->sequences : B;
    size_t memories = seq->memory_queries ? seq->memories : n;
    s.offsets = stack_keep(t, seq->offsets, n + 1);
    s.lengths = stack_keep(t, seq->lengths, n);
    s.memory_queries = stack_keep(t, seq->memory_queries, memories + 1);
    s.memory_offsets = stack_keep(t, seq->memory_offsets, memories + 1);
    s.memory_begins = stack_keep(t, seq->memory_begins, memories);
    s.memory_lengths = stack_keep(t, seq->memory_lengths, memories);
    return s;
}

/* ---- forward -------------------------------------------------------------------------------- */

qkv_tensor *qkv__stack_forward(const qkv__stack *s, qkv_tape *t, qkv_tensor *x,
                               const qkv_sequence *seq, qkv_block_cache *caches)
{
    qkv_stream stream = {x, NULL};
    bool again = qkv__recomputes(t) && !caches && x;
    const qkv_sequence kept = again ? stack_keep_sequence(t, seq, qkv_dim(x, 0)) : *seq;
    for (size_t i = stack_entry(s, t, &stream); i < s->count; i++) {
        qkv_scope scope = qkv_scope_begin(t);
        qkv_block_cache *cache = caches ? &caches[i] : NULL;
        if (!stream.x || !(again ? stack_recompute(s->blocks[i], t, &stream, &kept)
                                 : qkv_block_forward(s->blocks[i], t, &stream, seq, cache)))
            return NULL;
        if (!qkv__records(t)) { /* one tensor survives: the sum */
            x = stream.branch ? qkv_add(t, stream.x, stream.branch) : stream.x;
            stream = (qkv_stream){qkv_scope_end(t, scope, x), NULL};
        }
    }
    x = qkv_stream_norm(t, &stream, s->norm, s->norm_weight, s->norm_bias, s->norm_eps,
                        s->dropout, s->norm_dropout_id);
    return s->norm_weight && s->norm_name ? qkv_probe(t, s->norm_name, x) : x;
}
