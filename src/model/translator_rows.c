/* translator_rows.c - an encoder-decoder's rows: one order, the names of either layout. */
#include <math.h>
#include <stdio.h>

#include "model/translator.h"

/* Matrices of an attention layer, and the norm before or behind it. */
typedef struct {
    const char *q, *k, *v, *out, *norm;
} attention_names;

typedef struct {
    const char *block; /* its number and a dot follow */
    attention_names self, cross;
    const char *gate, *gated_up; /* of a gated feed-forward layer */
    const char *up, *down, *ff_norm;
    const char *relative; /* of the first block */
    const char *stack, *norm;
} side_names;

/* Standard deviations of initial weights. */
typedef struct {
    double table, q, kv, out, up, down;
} deviations;

static const attention_names marian_self = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj",
    "self_attn_layer_norm"};
static const attention_names marian_cross = {
    "encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj", "encoder_attn.out_proj",
    "encoder_attn_layer_norm"};
static const attention_names t5_self = {
    "layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v",
    "layer.0.SelfAttention.o", "layer.0.layer_norm"};
static const attention_names t5_cross = {
    "layer.1.EncDecAttention.q", "layer.1.EncDecAttention.k", "layer.1.EncDecAttention.v",
    "layer.1.EncDecAttention.o", "layer.1.layer_norm"};

#define MARIAN(side)                                                                           \
    {.block = "model." side ".layers.", .self = marian_self, .cross = marian_cross,        \
     .up = "fc1", .down = "fc2", .ff_norm = "final_layer_norm",                                \
     .stack = "model." side ".", .norm = "layer_norm"}
#define T5(side, ff)                                                                           \
    {.block = side ".block.", .self = t5_self, .cross = t5_cross,                          \
     .gate = "layer." ff ".DenseReluDense.wi_0", .gated_up = "layer." ff ".DenseReluDense.wi_1", \
     .up = "layer." ff ".DenseReluDense.wi", .down = "layer." ff ".DenseReluDense.wo",         \
     .ff_norm = "layer." ff ".layer_norm",                                                     \
     .relative = "layer.0.SelfAttention.relative_attention_bias.weight",                       \
     .stack = side ".", .norm = "final_layer_norm"}

/* Of the encoder and the decoder. */
static const side_names marian_sides[] = {MARIAN("encoder"), MARIAN("decoder")};
static const side_names t5_sides[] = {T5("encoder", "1"), T5("decoder", "2")};

/* q, and k and v from row `from` of kv; the output layer, and the norm. */
static void translator_visit_attention(qkv__visit *v, const attention_names *n, const qkv_block *b,
                                       bool cross, const deviations *std)
{
    const qkv_block_params *p = qkv_block_parameters(b);
    const qkv_block_config *c = qkv_block_configuration(b);
    size_t d = c->width, inner = c->heads * c->head_width, from = cross ? 0 : inner;
    qkv_param *kv = cross ? p->kv_weight : p->qkv_weight;
    qkv_param *kv_bias = cross ? p->kv_bias : p->qkv_bias;
    qkv__visit_linear(v, n->q, cross ? p->q_weight : kv, cross ? p->q_bias : kv_bias, 0, inner, d,
                      std->q);
    qkv__visit_linear(v, n->k, kv, kv_bias, from, inner, d, std->kv);
    qkv__visit_linear(v, n->v, kv, kv_bias, from + inner, inner, d, std->kv);
    qkv__visit_linear(v, n->out, cross ? p->out_x_weight : p->out_weight,
                      cross ? p->out_x_bias : p->out_bias, 0, d, inner, std->out);
    qkv__visit_norm(v, n->norm, cross ? p->norm_x_weight : p->norm1_weight,
                    cross ? p->norm_x_bias : p->norm1_bias, d);
}

static void translator_visit_block(qkv__visit *v, const side_names *n, const qkv_block *b,
                                   const deviations *std)
{
    const qkv_block_params *p = qkv_block_parameters(b);
    const qkv_block_config *c = qkv_block_configuration(b);
    size_t d = c->width, ff = c->ff_width;
    translator_visit_attention(v, &n->self, b, false, std);
    if (c->cross)
        translator_visit_attention(v, &n->cross, b, true, std);
    if (c->gated)
        qkv__visit_linear(v, n->gate, p->up_weight, p->up_bias, 0, ff, d, std->up);
    qkv__visit_linear(v, c->gated ? n->gated_up : n->up, p->up_weight, p->up_bias,
                      c->gated ? ff : 0, ff, d, std->up);
    qkv__visit_linear(v, n->down, p->down_weight, p->down_bias, 0, d, ff, std->down);
    qkv__visit_norm(v, n->ff_norm, p->norm2_weight, p->norm2_bias, d);
}

static void translator_visit_tower(qkv__visit *v, const side_names *n,
                                   const qkv__translator_tower *w, const deviations *std)
{
    const qkv__stack *s = &w->stack;
    for (size_t i = 0; i < s->count; i++) {
        snprintf(v->name, sizeof v->name, "%s%zu.", n->block, i);
        translator_visit_block(v, n, s->blocks[i], std);
        if (i == 0 && w->relative)
            qkv__visit_rows(v, n->relative, w->relative, 0, qkv_param_dim(w->relative, 0),
                            qkv_param_dim(w->relative, 1), false, QKV_INIT_NORMAL, std->kv);
    }
    snprintf(v->name, sizeof v->name, "%s", n->stack);
    if (s->norm_weight)
        qkv__visit_norm(v, n->norm, s->norm_weight, s->norm_bias,
                        qkv_param_dim(s->norm_weight, 0));
}

/* The tables, under `prefix`. */
static void translator_visit_tables(const qkv__translator *m, qkv__visit *v, const char *prefix,
                                    double std)
{
    snprintf(v->name, sizeof v->name, "%s", prefix);
    if (m->c->share)
        qkv__visit_table(v, "shared.weight", m->encoder.table, false, std);
    qkv__visit_table(v, "encoder.embed_tokens.weight", m->encoder.table, m->c->share, std);
    qkv__visit_table(v, "decoder.embed_tokens.weight", m->decoder.table, m->c->share, std);
}

qkv_status qkv__marian_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    qkv__translator *m = base->self;
    double r = m->c->init_range;
    const deviations std = {r, r, r, r, r, r};
    qkv__visit v = {.fn = fn, .user = user};
    translator_visit_tables(m, &v, "model.", std.table);
    for (int i = 0; i < 2; i++) {
        translator_visit_tower(&v, &marian_sides[i], i ? &m->decoder : &m->encoder, &std);
        qkv__visit_kind(&v, "embed_positions.weight", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    }
    v.name[0] = 0;
    qkv__visit_table(&v, "lm_head.weight", m->head, m->c->tie, std.table);
    qkv__visit_kind(&v, "final_logits_bias", m->head_bias, QKV_STATE_FIXED, QKV_INIT_NONE, 0);
    return v.status;
}

/* As T5 was trained from: scores are not scaled, so queries begin small. */
static deviations t5_deviations(const qkv_marian_config *c)
{
    double f = c->init_range, d = (double)c->width, D = (double)c->head_width;
    return (deviations){.table = f, .q = f / sqrt(d * D), .kv = f / sqrt(d),
                        .out = f / sqrt((double)c->encoder_heads * D), .up = f / sqrt(d),
                        .down = f / sqrt((double)c->encoder_ff_width)};
}

qkv_status qkv__t5_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    qkv__translator *m = base->self;
    const deviations std = t5_deviations(m->c);
    qkv__visit v = {.fn = fn, .user = user};
    translator_visit_tables(m, &v, "", std.table);
    for (int i = 0; i < 2; i++)
        translator_visit_tower(&v, &t5_sides[i], i ? &m->decoder : &m->encoder, &std);
    v.name[0] = 0;
    /* of files from before it was found to be unused */
    qkv__visit_kind(&v, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
                    NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    qkv__visit_table(&v, "lm_head.weight", m->head, m->c->tie, std.table);
    return v.status;
}
