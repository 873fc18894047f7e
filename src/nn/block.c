/* block.c - the one transformer block: pre- or post-norm, any norm and activation, gated or not,
 * causal or not, with cross-attention or without. Models wire blocks and name tensors; the
 * arithmetic of a layer is here and, of attention, in attention.c. */
#include <stdio.h>

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
    qkv_mha *self, *cross; /* cross: NULL without cross-attention */
    char *name;
    uint32_t dropout_id; /* of the first dropout */
};

qkv_block_config qkv_block_defaults(void)
{
    return (qkv_block_config){.width = 512, .heads = 8, .ff_width = 2048, .norm = QKV_NORM_LAYER,
                              .norm_eps = 1e-5, .norm_bias = true, .act = QKV_ACT_GELU,
                              .qkv_bias = true, .out_bias = true, .ff_bias = true};
}

/* ---- making ----------------------------------------------------------------------------- */

static bool block_make_norm(qkv_params *ps, qkv_param **weight, qkv_param **bias, const char *block,
                            const char *name, const qkv_block_config *c)
{
    if (c->norm == QKV_NORM_NONE)
        return true;
    return qkv__dense_params(ps, weight, bias, block, name, c->width, 0,
                             c->norm_bias && c->norm == QKV_NORM_LAYER);
}

static qkv_status block_check(qkv_context *ctx, const qkv_block_config *c, const char *name)
{
    if (!c->width || !c->heads || !c->head_width || !c->ff_width)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: width %zu, %zu heads of %zu, feed-forward width "
                        "%zu: none may be 0", name, c->width, c->heads, c->head_width,
                        c->ff_width);
    if (c->norm != QKV_NORM_NONE && !(c->norm_eps > 0))
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: norm_eps is %g, not above 0; start from "
                        "qkv_block_defaults", name, c->norm_eps);
    return QKV_OK;
}

/* The block's attention to itself, or to a memory. */
static qkv_mha *block_make_attention(qkv_params *ps, const qkv_block *b, bool cross)
{
    const qkv_block_config *c = &b->c;
    char name[256];
    snprintf(name, sizeof name, "%s.%s", b->name, cross ? "cross" : "attn");
    qkv_mha_config m = {.width = c->width, .heads = c->heads, .kv_heads = c->kv_heads,
                        .head_width = c->head_width, .cross = cross,
                        .qkv_bias = c->qkv_bias, .out_bias = c->out_bias,
                        .scale = c->attention_scale, .dropout = c->attention_dropout};
    if (!cross) {
        m.causal = c->causal;
        m.window = c->window;
        m.qk_norm_eps = c->qk_norm_eps;
        m.rotary = c->rotary;
    }
    return qkv_mha_create(ps, &m, name, b->dropout_id + (cross ? DROPOUT_ID_CROSS_WEIGHTS
                                                               : DROPOUT_ID_ATTN_WEIGHTS));
}

/* Factors of a sublayer's output, which begin as zeros like every parameter. */
static bool block_make_scale(qkv_params *ps, const qkv_block *b, qkv_param **out, const char *name)
{
    if (b->c.layer_scale)
        *out = qkv__layer_param(ps, b->name, name, b->c.width, 0);
    return *out || !b->c.layer_scale;
}

static bool block_make_self(qkv_params *ps, qkv_block *b)
{
    if (!(b->self = block_make_attention(ps, b, false)))
        return false;
    const qkv_mha_params *m = qkv_mha_parameters(b->self);
    b->p.qkv_weight = m->qkv_weight;
    b->p.qkv_bias = m->qkv_bias;
    b->p.out_weight = m->out_weight;
    b->p.out_bias = m->out_bias;
    b->p.q_norm = m->q_norm;
    b->p.k_norm = m->k_norm;
    return true;
}

static bool block_make_cross(qkv_params *ps, qkv_block *b)
{
    qkv_block_params *p = &b->p;
    if (!block_make_norm(ps, &p->norm_x_weight, &p->norm_x_bias, b->name, "norm_x", &b->c) ||
        !(b->cross = block_make_attention(ps, b, true)) ||
        !block_make_scale(ps, b, &p->scale_x, "scale_x"))
        return false;
    const qkv_mha_params *m = qkv_mha_parameters(b->cross);
    p->q_weight = m->q_weight;
    p->q_bias = m->q_bias;
    p->kv_weight = m->kv_weight;
    p->kv_bias = m->kv_bias;
    p->out_x_weight = m->out_weight;
    p->out_x_bias = m->out_bias;
    return true;
}

qkv_block *qkv_block_create(qkv_params *ps, const qkv_block_config *config, const char *name,
                            uint32_t index)
{
    qkv_block *b = qkv__params_alloc(ps, sizeof *b);
    char *copy = qkv__layer_name(ps, name);
    if (!b || !copy)
        return NULL;
    *b = (qkv_block){.c = *config, .name = copy, .dropout_id = index * DROPOUT_IDS};
    qkv_block_config *c = &b->c;
    if (!c->head_width && c->heads)
        c->head_width = c->width / c->heads;
    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (block_check(qkv__params_context(ps), c, name))
        return NULL;
    qkv_block_params *p = &b->p;
    bool made =
        block_make_norm(ps, &p->norm1_weight, &p->norm1_bias, name, "norm1", c) &&
        block_make_self(ps, b) && block_make_scale(ps, b, &p->scale1, "scale1") &&
        (!c->cross || block_make_cross(ps, b)) &&
        block_make_norm(ps, &p->norm2_weight, &p->norm2_bias, name, "norm2", c) &&
        qkv__dense_params(ps, &p->up_weight, &p->up_bias, name, "ff.up",
                          c->gated ? 2 * c->ff_width : c->ff_width, c->width, c->ff_bias) &&
        qkv__dense_params(ps, &p->down_weight, &p->down_bias, name, "ff.down", c->width,
                          c->ff_width, c->ff_bias) &&
        block_make_scale(ps, b, &p->scale2, "scale2");
    const size_t up[] = {c->ff_width, c->ff_width};
    made = made && !qkv_param_set_hidden(p->up_weight, c->gated ? 2 : 1, up) &&
           !qkv_param_set_hidden(p->down_weight, 1, &c->width);
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

/* act(gate) times up, of one product. */
static qkv_tensor *gated_units(qkv_block *b, qkv_tape *t, qkv_tensor *x)
{
    size_t sizes[] = {b->c.ff_width, b->c.ff_width};
    qkv_tensor *part[2] = {NULL, NULL};
    qkv__for_products(t, true);
    qkv_tensor *packed = block_linear(t, x, b->p.up_weight, b->p.up_bias, QKV_ACT_NONE);
    if (packed)
        (void)qkv_split(t, packed, -1, 2, sizes, part);
    qkv_tensor *y = qkv_gated(t, part[0], part[1], b->c.act);
    qkv__for_products(t, false);
    return y;
}

static qkv_tensor *feed_forward(qkv_block *b, qkv_tape *t, qkv_tensor *x)
{
    const qkv_block_config *c = &b->c;
    bool drops = c->ff_dropout > 0 && qkv__trains(t);
    if (!c->gated && !drops && !qkv__probed(t, "ff.act"))
        return qkv__feed_forward(t, x, &(qkv__layer){block_use(t, b->p.up_weight),
                                                     block_use(t, b->p.up_bias)}, c->act,
                                 &(qkv__layer){block_use(t, b->p.down_weight),
                                               block_use(t, b->p.down_bias)});
    qkv_tensor *units = c->gated ? gated_units(b, t, x)
                                 : block_linear(t, x, b->p.up_weight, b->p.up_bias, c->act);
    qkv_tensor *h = qkv_probe(t, "ff.act", units);
    if (c->ff_dropout > 0)
        h = qkv_dropout(t, h, c->ff_dropout, b->dropout_id + DROPOUT_ID_ACT);
    h = block_linear(t, h, b->p.down_weight, b->p.down_bias, QKV_ACT_NONE);
    qkv__let_go(t, units);
    return h;
}

/* A sublayer: its norm's parameters and its factors. */
typedef struct {
    qkv_param *weight, *bias, *scale;
} sublayer;

/* The input of a sublayer: normalised in pre-norm blocks (dropout_id: of the branch that is still
 * to be added), the stream itself in post-norm ones. Nothing but the sublayer reads it, unless it
 * becomes the stream. */
static qkv_tensor *enter(qkv_block *b, qkv_tape *t, qkv_stream *s, const sublayer *of,
                         uint32_t dropout_id)
{
    const qkv_block_config *c = &b->c;
    if (c->post_norm)
        return s->x;
    qkv__for_products(t, !c->norm_stream);
    qkv_tensor *x = qkv_stream_norm(t, s, c->norm, of->weight, of->bias, c->norm_eps, c->dropout,
                                    dropout_id);
    qkv__for_products(t, false);
    return x;
}

static bool leave(qkv_block *b, qkv_tape *t, qkv_stream *s, const qkv_sequence *seq,
                  qkv_tensor *branch, const sublayer *of, uint32_t dropout_id)
{
    if (of->scale)
        branch = qkv_mul(t, branch, block_use(t, of->scale));
    if (b->c.drop_path > 0)
        branch = qkv_drop_path(t, branch, b->c.drop_path, dropout_id + PATH, seq->sequences,
                               seq->offsets);
    qkv__spend(t, branch);
    s->branch = branch;
    if (b->c.post_norm && branch)
        s->x = qkv_stream_norm(t, s, b->c.norm, of->weight, of->bias, b->c.norm_eps, b->c.dropout,
                               dropout_id);
    return branch && s->x;
}

/* Without a cache rows may be many, and queries, keys and values are more than the rest of a block:
 * in inference their memory is given back before the feed-forward network takes its own. */
static qkv_tensor *attend(qkv_mha *m, qkv_tape *t, qkv_tensor *x, const qkv_sequence *seq,
                          qkv_kv_cache *cache)
{
    if (cache)
        return qkv_mha_forward(m, t, x, seq, cache);
    const qkv_scope scope = qkv_scope_begin(t);
    return qkv_scope_end(t, scope, qkv_mha_forward(m, t, x, seq, NULL));
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
    const sublayer attention = {p->norm1_weight, p->norm1_bias, p->scale1};
    const sublayer cross = {p->norm_x_weight, p->norm_x_bias, p->scale_x};
    const sublayer ff = {p->norm2_weight, p->norm2_bias, p->scale2};
    qkv_name_push(t, "%s", b->name);
    uint32_t before = b->dropout_id - DROPOUT_IDS + DROPOUT_ID_FF; /* the branch that the block
                                                                      before left */
    if (!stream_place(b, t, s, "resid_pre", before)) {
        qkv_name_pop(t);
        return false;
    }
    qkv_tensor *x = enter(b, t, s, &attention, before);
    qkv_tensor *y = attend(b->self, t, x, seq, cache ? cache->self : NULL);
    qkv__let_go(t, x);
    bool fine = leave(b, t, s, seq, y, &attention, b->dropout_id + DROPOUT_ID_ATTN);
    before = b->dropout_id + DROPOUT_ID_ATTN;
    if (fine && b->c.cross) {
        x = enter(b, t, s, &cross, before);
        y = attend(b->cross, t, x, seq, cache ? cache->cross : NULL);
        qkv__let_go(t, x);
        fine = leave(b, t, s, seq, y, &cross, b->dropout_id + DROPOUT_ID_CROSS);
        before = b->dropout_id + DROPOUT_ID_CROSS;
    }
    fine = fine && stream_place(b, t, s, "resid_mid", before);
    if (fine) {
        x = enter(b, t, s, &ff, before);
        if (b->c.norm_stream)
            s->x = x;
        y = qkv_probe(t, "ff.out", feed_forward(b, t, x));
        qkv__let_go(t, x);
        fine = leave(b, t, s, seq, y, &ff, b->dropout_id + DROPOUT_ID_FF);
    }
    fine = fine && stream_place(b, t, s, "resid_post", b->dropout_id + DROPOUT_ID_FF);
    qkv_name_pop(t);
    return fine;
}
