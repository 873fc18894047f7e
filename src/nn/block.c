/* block.c - the one transformer block: pre- or post-norm, any norm and activation, gated or not,
 * causal or not, with cross-attention or without. Models wire blocks and name tensors; the
 * arithmetic of a layer is here and nowhere else. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "nn/state_entries.h"
#include "tensor/make.h"

/* Dropout sites of a block, counted from its index: two dropouts of a model never share one. */
enum {
    DROPOUT_ID_ATTN_WEIGHTS, DROPOUT_ID_ATTN, DROPOUT_ID_CROSS_WEIGHTS, DROPOUT_ID_CROSS,
      DROPOUT_ID_ACT, DROPOUT_ID_FF,
    PATH = 8, /* from the dropout of a branch to what drops all of it */
    DROPOUT_IDS = 16
};

struct qkv_block {
    qkv_block_config c;
    qkv_block_params p;
    char *name;
    uint32_t dropout_id; /* of the first dropout */
};

qkv_block_config qkv_block_defaults(void)
{
    return (qkv_block_config){.width = 512, .heads = 8, .ff_width = 2048, .norm = QKV_NORM_LAYER,
                              .norm_eps = 1e-5, .norm_bias = true, .act = QKV_ACT_GELU,
                              .attention_bias = true, .ff_bias = true};
}

/* ---- making ----------------------------------------------------------------------------- */

static bool make_dense(qkv_params *ps, qkv_param **weight, qkv_param **bias, const char *block,
                       const char *name, size_t rows, size_t columns, bool with_bias)
{
    char layer[256];
    snprintf(layer, sizeof layer, "%s.%s", block, name);
    *weight = qkv__layer_param(ps, layer, "weight", rows, columns);
    *bias = *weight && with_bias ? qkv__layer_param(ps, layer, "bias", rows, 0) : NULL;
    return *weight && (*bias || !with_bias);
}

static bool block_make_norm(qkv_params *ps, qkv_param **weight, qkv_param **bias, const char *block,
                            const char *name, const qkv_block_config *c)
{
    if (c->norm == QKV_NORM_NONE)
        return true;
    return make_dense(ps, weight, bias, block, name, c->width, 0,
                      c->norm_bias && c->norm == QKV_NORM_LAYER);
}

static qkv_status block_check(qkv_context *ctx, const qkv_block_config *c, const char *name)
{
    if (!c->width || !c->heads || !c->head_width || !c->ff_width)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: width %zu, %zu heads of %zu, feed-forward width "
                        "%zu: none may be 0", name, c->width, c->heads, c->head_width,
                        c->ff_width);
    if (c->heads % c->kv_heads != 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %zu heads cannot share %zu key/value heads "
                        "evenly", name, c->heads, c->kv_heads);
    if (c->norm != QKV_NORM_NONE && !(c->norm_eps > 0))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: norm_eps is %g, not above 0; start from "
                        "qkv_block_defaults", name, c->norm_eps);
    if (c->rotary_base > 0 && c->head_width % 2 != 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: rotary positions need an even head width, not "
                        "%zu", name, c->head_width);
    return QKV_OK;
}

static bool make_cross(qkv_params *ps, qkv_block *b)
{
    const qkv_block_config *c = &b->c;
    qkv_block_params *p = &b->p;
    size_t q = c->heads * c->head_width, kv = c->kv_heads * c->head_width;
    return block_make_norm(ps, &p->norm_x_weight, &p->norm_x_bias, b->name, "norm_x", c) &&
           make_dense(ps, &p->q_weight, &p->q_bias, b->name, "cross.q", q, c->width,
                      c->attention_bias) &&
           make_dense(ps, &p->kv_weight, &p->kv_bias, b->name, "cross.kv", 2 * kv, c->width,
                      c->attention_bias) &&
           make_dense(ps, &p->out_x_weight, &p->out_x_bias, b->name, "cross.out", c->width, q,
                      c->attention_bias);
}

qkv_block *qkv_block_create(qkv_params *ps, const qkv_block_config *config, const char *name,
                            uint32_t index)
{
    qkv_block *b = qkv__params_alloc(ps, sizeof *b);
    char *copy = qkv__params_alloc(ps, strlen(name) + 1);
    if (!b || !copy)
        return NULL;
    memcpy(copy, name, strlen(name) + 1);
    *b = (qkv_block){.c = *config, .name = copy, .dropout_id = index * DROPOUT_IDS};
    qkv_block_config *c = &b->c;
    if (!c->head_width && c->heads)
        c->head_width = c->width / c->heads;
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (block_check(qkv__params_context(ps), c, name))
        return NULL;
    qkv_block_params *p = &b->p;
    size_t q = c->heads * c->head_width, kv = c->kv_heads * c->head_width;
    bool made =
        block_make_norm(ps, &p->norm1_weight, &p->norm1_bias, name, "norm1", c) &&
        make_dense(ps, &p->qkv_weight, &p->qkv_bias, name, "attn.qkv", q + 2 * kv, c->width,
                   c->attention_bias && !c->plain_qkv) &&
        make_dense(ps, &p->out_weight, &p->out_bias, name, "attn.out", c->width, q,
                   c->attention_bias) &&
        (!c->cross || make_cross(ps, b)) &&
        block_make_norm(ps, &p->norm2_weight, &p->norm2_bias, name, "norm2", c) &&
        make_dense(ps, &p->up_weight, &p->up_bias, name, "ff.up",
                   c->gated ? 2 * c->ff_width : c->ff_width, c->width, c->ff_bias) &&
        make_dense(ps, &p->down_weight, &p->down_bias, name, "ff.down", c->width, c->ff_width,
                   c->ff_bias);
    return made ? b : NULL;
}

const qkv_block_params *qkv_block_parameters(const qkv_block *b) { return &b->p; }
const qkv_block_config *qkv_block_configuration(const qkv_block *b) { return &b->c; }

/* ---- forward ------------------------------------------------------------------------------- */

static qkv_tensor *block_use(qkv_tape *t, qkv_param *p) { return p ? qkv_use(t, p) : NULL; }

static qkv_tensor *block_linear(qkv_tape *t, qkv_tensor *x, qkv_param *weight, qkv_param *bias,
                                qkv_activation act)
{
    return qkv_linear(t, x, block_use(t, weight), block_use(t, bias), act);
}

qkv_tensor *qkv_stream_norm(qkv_tape *t, qkv_stream *s, qkv_norm_kind kind, qkv_param *weight,
                            qkv_param *bias, double eps, double dropout, uint32_t dropout_id)
{
    if (s->branch && qkv__trains(t) && dropout > 0) {
        s->x = qkv_dropout_add(t, s->branch, s->x, dropout, dropout_id);
        s->branch = NULL;
    }
    if (kind == QKV_NORM_NONE) {
        if (s->branch)
            s->x = qkv_add(t, s->x, s->branch);
        s->branch = NULL;
        return s->x;
    }
    if (!s->branch)
        return qkv_norm(t, kind, s->x, block_use(t, weight), block_use(t, bias), eps);
    qkv_tensor *sum = NULL;
    qkv_tensor *y = qkv_residual_norm(t, kind, s->branch, s->x, block_use(t, weight),
                                      block_use(t, bias), eps, &sum);
    s->x = sum;
    s->branch = NULL;
    return y;
}

/* (B, T, n * D) -> (B, T, n, D) */
static qkv_tensor *heads(qkv_tape *t, qkv_tensor *x, size_t n, size_t D)
{
    if (!x)
        return NULL;
    size_t shape[] = {qkv_dim(x, 0), qkv_dim(x, 1), n, D};
    return qkv_reshape(t, x, 4, shape);
}

/* x (B, T, H, D) as one sequence of rows, (1, B T, H, D), where memories have other rows. */
static qkv_tensor *rows_of_memories(qkv_tape *t, qkv_tensor *x, const qkv_sequence *seq)
{
    if (!x || !seq->memory_queries)
        return x;
    size_t shape[] = {1, qkv_dim(x, 0) * qkv_dim(x, 1), qkv_dim(x, 2), qkv_dim(x, 3)};
    return qkv_reshape(t, x, 4, shape);
}

/* A place in the part of the block that o->probe names: "attn.q". */
static qkv_tensor *block_place(qkv_tape *t, const char *part, const char *name, qkv_tensor *x)
{
    char place[32];
    snprintf(place, sizeof place, "%s.%s", part, name);
    return qkv_probe(t, place, x);
}

/* Attention of q to k and v with the block's options, heads joined, and the output layer. */
static qkv_tensor *block_attend(qkv_block *b, qkv_tape *t, qkv_tensor *q, qkv_tensor *k,
                                qkv_tensor *v,
                                qkv_attention_options *o, qkv_param *weight, qkv_param *bias)
{
    o->scale = b->c.attention_scale;
    o->dropout = b->c.attention_dropout;
    qkv_tensor *y = block_place(t, o->probe, "z", qkv_attention(t, q, k, v, o));
    if (!y)
        return NULL;
    size_t joined[] = {qkv_dim(y, 0), qkv_dim(y, 1), b->c.heads * b->c.head_width};
    y = block_linear(t, qkv_reshape(t, y, 3, joined), weight, bias, QKV_ACT_NONE);
    return block_place(t, o->probe, "out", y);
}

static qkv_tensor *self_attention(qkv_block *b, qkv_tape *t, qkv_tensor *x,
                                  const qkv_sequence *seq, qkv_kv_cache *cache)
{
    const qkv_block_config *c = &b->c;
    size_t q_width = c->heads * c->head_width, kv_width = c->kv_heads * c->head_width;
    size_t sizes[] = {q_width, kv_width, kv_width};
    qkv_tensor *part[3];
    qkv_tensor *packed = block_linear(t, x, b->p.qkv_weight, b->p.qkv_bias, QKV_ACT_NONE);
    if (!packed || !qkv_split(t, packed, -1, 3, sizes, part))
        return NULL;
    qkv_tensor *q = heads(t, part[0], c->heads, c->head_width);
    qkv_tensor *k = heads(t, part[1], c->kv_heads, c->head_width);
    qkv_tensor *v = heads(t, part[2], c->kv_heads, c->head_width);
    if (c->rotary_base > 0) {
        q = qkv_rotary(t, q, seq->positions, c->rotary_base, c->head_width);
        k = qkv_rotary(t, k, seq->positions, c->rotary_base, c->head_width);
    }
    q = qkv_probe(t, "attn.q", q);
    k = qkv_probe(t, "attn.k", k);
    v = qkv_probe(t, "attn.v", v);
    if (cache && !qkv_kv_cache_append(t, cache, k, v, &k, &v))
        return NULL;
    qkv_attention_options o = {.causal = c->causal, .sequences = seq->sequences,
                               .q_offsets = seq->offsets, .k_lengths = seq->lengths,
                               .bias = seq->bias,
                               .dropout_id = b->dropout_id + DROPOUT_ID_ATTN_WEIGHTS,
                               .probe = "attn"};
    return block_attend(b, t, q, k, v, &o, b->p.out_weight, b->p.out_bias);
}

static qkv_tensor *cross_attention(qkv_block *b, qkv_tape *t, qkv_tensor *x,
                                   const qkv_sequence *seq, qkv_kv_cache *cache)
{
    const qkv_block_config *c = &b->c;
    size_t kv_width = c->kv_heads * c->head_width, sizes[] = {kv_width, kv_width};
    qkv_tensor *q = heads(t, block_linear(t, x, b->p.q_weight, b->p.q_bias, QKV_ACT_NONE), c->heads,
                          c->head_width);
    q = qkv_probe(t, "cross.q", q);
    qkv_tensor *k, *v, *part[2];
    if (cache && qkv_kv_cache_length(cache)) {
        if (!qkv_kv_cache_all(t, cache, &k, &v))
            return NULL;
    } else {
        qkv_tensor *packed = block_linear(t, seq->memory, b->p.kv_weight, b->p.kv_bias,
                                          QKV_ACT_NONE);
        if (!packed || !qkv_split(t, packed, -1, 2, sizes, part))
            return NULL;
        k = qkv_probe(t, "cross.k", heads(t, part[0], c->kv_heads, c->head_width));
        v = qkv_probe(t, "cross.v", heads(t, part[1], c->kv_heads, c->head_width));
        if (cache && !qkv_kv_cache_append(t, cache, k, v, &k, &v))
            return NULL;
    }
    bool own = seq->memory_queries != NULL;
    qkv_attention_options o = {.sequences = own ? seq->memories : seq->sequences,
                               .q_offsets = own ? seq->memory_queries : seq->offsets,
                               .k_offsets = seq->memory_offsets,
                               .k_begins = seq->memory_begins,
                               .k_lengths = seq->memory_lengths,
                               .dropout_id = b->dropout_id + DROPOUT_ID_CROSS_WEIGHTS,
                               .probe = "cross"};
    qkv_tensor *y = block_attend(b, t, rows_of_memories(t, q, seq), k, v, &o, b->p.out_x_weight,
                                 b->p.out_x_bias);
    size_t shape[] = {qkv_dim(x, 0), qkv_dim(x, 1), c->width};
    return own && y ? qkv_reshape(t, y, 3, shape) : y;
}

static qkv_tensor *feed_forward(qkv_block *b, qkv_tape *t, qkv_tensor *x)
{
    const qkv_block_config *c = &b->c;
    qkv_tensor *h;
    if (c->gated) {
        size_t sizes[] = {c->ff_width, c->ff_width};
        qkv_tensor *part[2];
        qkv_tensor *packed = block_linear(t, x, b->p.up_weight, b->p.up_bias, QKV_ACT_NONE);
        if (!packed || !qkv_split(t, packed, -1, 2, sizes, part))
            return NULL;
        h = qkv_gated(t, part[0], part[1], c->act);
    } else {
        h = block_linear(t, x, b->p.up_weight, b->p.up_bias, c->act);
    }
    h = qkv_probe(t, "ff.act", h);
    if (c->ff_dropout > 0)
        h = qkv_dropout(t, h, c->ff_dropout, b->dropout_id + DROPOUT_ID_ACT);
    return block_linear(t, h, b->p.down_weight, b->p.down_bias, QKV_ACT_NONE);
}

/* The input of a sublayer: normalised in pre-norm blocks (site: of the dropout of the branch that
 * is still to be added), the stream itself in post-norm ones. */
static qkv_tensor *enter(qkv_block *b, qkv_tape *t, qkv_stream *s, qkv_param *weight,
                         qkv_param *bias, uint32_t dropout_id)
{
    const qkv_block_config *c = &b->c;
    if (c->post_norm)
        return s->x;
    return qkv_stream_norm(t, s, c->norm, weight, bias, c->norm_eps, c->dropout, dropout_id);
}

static bool leave(qkv_block *b, qkv_tape *t, qkv_stream *s, const qkv_sequence *seq,
                  qkv_tensor *branch, qkv_param *weight, qkv_param *bias, uint32_t dropout_id)
{
    if (b->c.drop_path > 0)
        branch = qkv_drop_path(t, branch, b->c.drop_path, dropout_id + PATH, seq->sequences,
                               seq->offsets);
    s->branch = branch;
    if (b->c.post_norm && branch)
        s->x = qkv_stream_norm(t, s, b->c.norm, weight, bias, b->c.norm_eps, b->c.dropout,
                               dropout_id);
    return branch && s->x;
}

/* A place of the residual stream, which is summed up for a probe; dropout_id: of the branch. */
static bool stream_place(const qkv_block *b, qkv_tape *t, qkv_stream *s, const char *name,
                         uint32_t dropout_id)
{
    if (!qkv__probed(t, name))
        return s->x != NULL;
    s->x = qkv_probe(t, name, qkv_stream_norm(t, s, QKV_NORM_NONE, NULL, NULL, 0, b->c.dropout,
                                              dropout_id));
    return s->x != NULL;
}

bool qkv_block_forward(qkv_block *b, qkv_tape *t, qkv_stream *s, const qkv_sequence *seq,
                       qkv_block_cache *cache)
{
    const qkv_block_params *p = &b->p;
    qkv_name_push(t, "%s", b->name);
    uint32_t before = b->dropout_id - DROPOUT_IDS + DROPOUT_ID_FF; /* the branch that the block
                                                                      before left */
    if (!stream_place(b, t, s, "resid_pre", before)) {
        qkv_name_pop(t);
        return false;
    }
    qkv_tensor *x = enter(b, t, s, p->norm1_weight, p->norm1_bias, before);
    qkv_tensor *y = self_attention(b, t, x, seq, cache ? cache->self : NULL);
    bool fine = leave(b, t, s, seq, y, p->norm1_weight, p->norm1_bias, b->dropout_id +
                      DROPOUT_ID_ATTN);
    before = b->dropout_id + DROPOUT_ID_ATTN;
    if (fine && b->c.cross) {
        x = enter(b, t, s, p->norm_x_weight, p->norm_x_bias, before);
        y = cross_attention(b, t, x, seq, cache ? cache->cross : NULL);
        fine = leave(b, t, s, seq, y, p->norm_x_weight, p->norm_x_bias,
                     b->dropout_id + DROPOUT_ID_CROSS);
        before = b->dropout_id + DROPOUT_ID_CROSS;
    }
    fine = fine && stream_place(b, t, s, "resid_mid", before);
    if (fine) {
        x = enter(b, t, s, p->norm2_weight, p->norm2_bias, before);
        if (b->c.norm_stream)
            s->x = x;
        y = qkv_probe(t, "ff.out", feed_forward(b, t, x));
        fine = leave(b, t, s, seq, y, p->norm2_weight, p->norm2_bias,
                     b->dropout_id + DROPOUT_ID_FF);
    }
    fine = fine && stream_place(b, t, s, "resid_post", b->dropout_id + DROPOUT_ID_FF);
    qkv_name_pop(t);
    return fine;
}
