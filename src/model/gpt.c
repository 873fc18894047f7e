/* gpt.c - GPT: token embedding (and positions), blocks, final norm, output layer. The layouts
 * differ in the block's settings and in the names of tensors, nothing else. */
#include "model/tables.h"
#include "qkv/gpt.h"

#include <math.h>
#include <stdio.h>

#include "nn/patches.h"
#include "nn/stack.h"
#include "tensor/make.h"

static const uint32_t EMBEDDING_DROPOUT_ID = 0xE0000000u; /* dropout sites that no block has */
static const uint32_t FINAL_DROPOUT_ID = 0xE0000001u;

/* What the configuration says of biases. */
typedef enum { BIASES_FREE, BIASES_ALL, BIASES_NONE, BIASES_QKV, BIASES_NO_FF } biases;

/* Which layers have the window of the configuration. */
typedef enum { WINDOWS_NONE, WINDOWS_ALL, WINDOWS_FREE } windows;

/* What a layout fixes. */
typedef struct {
    qkv_builtin_type builtin;
    bool rotary;  /* rotary positions, RMSNorm and gated feed-forward networks */
    biases biases;
    bool qk_norm; /* of query and key */
    bool packed;  /* a file has query, key and value in one matrix, gate and up in another */
    windows windows;
} layout;

typedef struct {
    qkv_model *base;
    qkv_gpt_config *c; /* base->config */
    const layout *layout;
    qkv__stack stack;
    qkv_param *token_table, *position_table, *head;
} gpt;

static const layout *layout_of(const qkv_model_type *type)
{
    return (const layout *)(const void *)type->builtin; /* its first member */
}

/* ---- making ------------------------------------------------------------------------------- */

/* What a prior's table does not list is fixed. */
static void fix_config(qkv_gpt_config *c)
{
    c->position_kind = QKV_POSITIONS_LEARNED;
    c->scale_attention = true;
    c->tie = c->scale_by_layer = false;
    c->ff_width = 0;
    c->bos = c->eos = c->pad = -1;
}

static void fix_biases(qkv_gpt_config *c, biases kind)
{
    if (kind != BIASES_FREE)
        c->ff_bias = kind == BIASES_ALL;
    if (kind != BIASES_FREE && kind != BIASES_NO_FF)
        c->attention_bias = kind != BIASES_NONE;
}

static void fix_rotary(qkv_gpt_config *c, const layout *l)
{
    c->position_kind = QKV_POSITIONS_ROTARY;
    c->scale_attention = true;
    c->scale_by_layer = false;
    if (!c->rotary.original)
        c->rotary.original = c->positions;
    if (l->windows != WINDOWS_FREE) {
        c->use_window = l->windows == WINDOWS_ALL;
        c->window_from = 0;
    }
}

/* Fields that are 0 because others give them, or that the layout has no say in. */
static void gpt_complete_config(qkv_gpt_config *c, const qkv_model_type *type)
{
    const layout *l = layout_of(type);
    if (!c->ff_width)
        c->ff_width = l->rotary ? (8 * c->width / 3 + 63) / 64 * 64 : 4 * c->width;
    c->init_range = qkv__init_range(c->init_range, 1, c->width);
    fix_biases(c, l->biases);
    if (l->rotary)
        fix_rotary(c, l);
    if (!l->rotary) {
        c->kv_heads = c->heads;
        c->head_width = 0;
    }
    if (!c->head_width)
        c->head_width = c->width / c->heads;
    if (!c->kv_heads)
        c->kv_heads = c->heads;
}

static qkv_status check_config(qkv_context *ctx, const qkv_gpt_config *c, const layout *l)
{
    if (!l->rotary && c->position_kind == QKV_POSITIONS_ROTARY)
        return qkv_fail(ctx, QKV_E_ARGUMENT,
                        "the gpt2 layout has no rotary positions: use the llama layout");
    if ((!l->rotary || !c->head_width) && c->width % c->heads != 0)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%zu heads do not divide the width %zu", c->heads,
                        c->width);
    return QKV_OK;
}

/* Numbers in the matrices of a block; of completed fields. Real: a file may ask for any size. */
static double block_parameters(const qkv_gpt_config *c, const layout *l)
{
    double d = (double)c->width, D = (double)c->head_width;
    return d * D * 2 * (double)(c->heads + c->kv_heads) +
           (l->rotary ? 3 : 2) * d * (double)c->ff_width;
}

static double gpt_parameter_count(const qkv_model_type *type, const void *config)
{
    qkv_gpt_config c = *(const qkv_gpt_config *)config;
    const layout *l = layout_of(type);
    if (type == qkv_prior_type())
        fix_config(&c);
    gpt_complete_config(&c, type);
    double rows = (double)c.vocab * (c.tie ? 1 : 2) + (l->rotary ? 0 : (double)c.positions);
    return rows * (double)c.width + (double)c.layers * block_parameters(&c, l);
}

/* Of the last block, and of the first, where scale_by_layer divides by 1. */
static qkv_block_config gpt_block_config(const gpt *m)
{
    const qkv_gpt_config *c = m->c;
    const layout *l = m->layout;
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = c->heads;
    b.kv_heads = c->kv_heads;
    b.head_width = c->head_width;
    b.ff_width = c->ff_width;
    b.norm = l->rotary ? QKV_NORM_RMS : QKV_NORM_LAYER;
    b.norm_eps = c->norm_eps;
    b.act = c->act;
    b.gated = l->rotary;
    b.causal = true;
    b.qkv_bias = c->attention_bias;
    b.out_bias = c->attention_bias && l->biases != BIASES_QKV;
    b.ff_bias = c->ff_bias;
    b.dropout = c->dropout;
    b.attention_dropout = c->attention_dropout;
    b.attention_scale = c->scale_attention ? 1 / sqrt((double)c->head_width) : 1;
    if (l->rotary) {
        b.rotary = c->rotary;
        b.qk_norm_eps = l->qk_norm ? c->norm_eps : 0;
        b.window = c->use_window ? c->window : 0;
    }
    return b;
}

static qkv_status gpt_make_positions(gpt *m)
{
    const qkv_gpt_config *c = m->c;
    m->position_table = qkv__matrix(m->base->params, "positions", c->positions, c->width);
    if (!m->position_table)
        return QKV_E_MEMORY;
    if (c->position_kind == QKV_POSITIONS_LEARNED)
        return QKV_OK;
    qkv_param_freeze(m->position_table, true);
    if (c->position_kind == QKV_POSITIONS_NONE)
        return QKV_OK;
    return qkv__fill_sinusoids(m->position_table, 0, c->positions, QKV_SINUSOID_PAPER, 0, 0);
}

static qkv_status gpt_make(qkv_model *base)
{
    gpt *m = base->self;
    m->base = base;
    m->c = base->config;
    m->layout = layout_of(base->type);
    if (base->type == qkv_prior_type())
        fix_config(m->c);
    qkv_status status = check_config(base->ctx, m->c, m->layout);
    if (status)
        return status;
    gpt_complete_config(m->c, base->type);
    const qkv_gpt_config *c = m->c;
    qkv_params *ps = base->params;
    qkv_block_config config = gpt_block_config(m);
    m->token_table = qkv__param_table(qkv__matrix(ps, "tokens", c->vocab, c->width));
    if (!m->token_table || (!m->layout->rotary && gpt_make_positions(m)))
        return qkv_context_status(base->ctx);
    status = qkv__stack_make(&m->stack, ps, &config, c->layers,
                             &(qkv__stack_options){.block = "h", .norm = "norm",
                                                   .norm_dropout_id = FINAL_DROPOUT_ID,
                                                   .window_from = c->window_from,
                                                   .scale_by_layer = c->scale_by_layer});
    if (status)
        return status;
    m->head = c->tie ? m->token_table
                     : qkv__param_table(qkv__matrix(ps, "head", c->vocab, c->width));
    return qkv__params_status(ps);
}

/* ---- rows --------------------------------------------------------------------------------- */

static void visit_gpt2_block(gpt *m, qkv__visit *v, const qkv_block_params *p)
{
    const qkv_gpt_config *c = m->c;
    size_t d = c->width, ff = c->ff_width;
    double std = c->init_range, branch = std / sqrt(2.0 * (double)c->layers);
    qkv__visit_norm(v, "ln_1", p->norm1_weight, p->norm1_bias, d);
    qkv__visit_rows(v, "attn.c_attn.weight", p->qkv_weight, 0, 3 * d, d, true, QKV_INIT_NORMAL,
                    std);
    qkv__visit_rows(v, "attn.c_attn.bias", p->qkv_bias, 0, 3 * d, 0, false, QKV_INIT_ZEROS, 0);
    qkv__visit_rows(v, "attn.c_proj.weight", p->out_weight, 0, d, d, true, QKV_INIT_NORMAL, branch);
    qkv__visit_rows(v, "attn.c_proj.bias", p->out_bias, 0, d, 0, false, QKV_INIT_ZEROS, 0);
    qkv__visit_norm(v, "ln_2", p->norm2_weight, p->norm2_bias, d);
    qkv__visit_rows(v, "mlp.c_fc.weight", p->up_weight, 0, ff, d, true, QKV_INIT_NORMAL, std);
    qkv__visit_rows(v, "mlp.c_fc.bias", p->up_bias, 0, ff, 0, false, QKV_INIT_ZEROS, 0);
    qkv__visit_rows(v, "mlp.c_proj.weight", p->down_weight, 0, d, ff, true, QKV_INIT_NORMAL,
                    branch);
    qkv__visit_rows(v, "mlp.c_proj.bias", p->down_bias, 0, d, 0, false, QKV_INIT_ZEROS, 0);
    qkv__visit_kind(v, "attn.bias", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    qkv__visit_kind(v, "attn.masked_bias", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
}

static qkv_status visit_gpt2(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    gpt *m = base->self;
    const qkv_gpt_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    snprintf(v.name, sizeof v.name, "transformer.");
    qkv__visit_table(&v, "wte.weight", m->token_table, false, c->init_range);
    if (c->position_kind == QKV_POSITIONS_LEARNED)
        qkv__visit_table(&v, "wpe.weight", m->position_table, false, c->init_range);
    else
        qkv__visit_kind(&v, "wpe.weight", m->position_table, QKV_STATE_FIXED, QKV_INIT_NONE, 0);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v.name, sizeof v.name, "transformer.h.%zu.", i);
        visit_gpt2_block(m, &v, qkv_block_parameters(m->stack.blocks[i]));
    }
    snprintf(v.name, sizeof v.name, "transformer.");
    qkv__visit_norm(&v, "ln_f", m->stack.norm_weight, m->stack.norm_bias, c->width);
    v.name[0] = 0;
    qkv__visit_table(&v, "lm_head.weight", m->head, c->tie, c->init_range);
    return v.status;
}

static void visit_llama_block(gpt *m, qkv__visit *v, const qkv_block_params *p)
{
    const qkv_gpt_config *c = m->c;
    size_t d = c->width, q = c->heads * c->head_width, kv = c->kv_heads * c->head_width;
    size_t ff = c->ff_width;
    double std = c->init_range, branch = std / sqrt(2.0 * (double)c->layers);
    qkv__visit_norm(v, "input_layernorm", p->norm1_weight, NULL, d);
    if (m->layout->packed) {
        qkv__visit_linear(v, "self_attn.qkv_proj", p->qkv_weight, p->qkv_bias, 0, q + 2 * kv, d,
                          std);
    } else {
        qkv__visit_linear(v, "self_attn.q_proj", p->qkv_weight, p->qkv_bias, 0, q, d, std);
        qkv__visit_linear(v, "self_attn.k_proj", p->qkv_weight, p->qkv_bias, q, kv, d, std);
        qkv__visit_linear(v, "self_attn.v_proj", p->qkv_weight, p->qkv_bias, q + kv, kv, d, std);
    }
    qkv__visit_linear(v, "self_attn.o_proj", p->out_weight, p->out_bias, 0, d, q, branch);
    if (m->layout->qk_norm) {
        qkv__visit_norm(v, "self_attn.q_norm", p->q_norm, NULL, c->head_width);
        qkv__visit_norm(v, "self_attn.k_norm", p->k_norm, NULL, c->head_width);
    }
    qkv__visit_norm(v, "post_attention_layernorm", p->norm2_weight, NULL, d);
    if (m->layout->packed) {
        qkv__visit_linear(v, "mlp.gate_up_proj", p->up_weight, p->up_bias, 0, 2 * ff, d, std);
    } else {
        qkv__visit_linear(v, "mlp.gate_proj", p->up_weight, p->up_bias, 0, ff, d, std);
        qkv__visit_linear(v, "mlp.up_proj", p->up_weight, p->up_bias, ff, ff, d, std);
    }
    qkv__visit_linear(v, "mlp.down_proj", p->down_weight, p->down_bias, 0, d, ff, branch);
    qkv__visit_kind(v, "self_attn.rotary_emb.inv_freq", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
}

static qkv_status visit_llama(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    gpt *m = base->self;
    const qkv_gpt_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    qkv__visit_table(&v, "model.embed_tokens.weight", m->token_table, false, c->init_range);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v.name, sizeof v.name, "model.layers.%zu.", i);
        visit_llama_block(m, &v, qkv_block_parameters(m->stack.blocks[i]));
    }
    v.name[0] = 0;
    qkv__visit_norm(&v, "model.norm", m->stack.norm_weight, NULL, c->width);
    qkv__visit_table(&v, "lm_head.weight", m->head, c->tie, c->init_range);
    return v.status;
}

/* minGPT's names (Karpathy 2020), beneath the one that taming-transformers gives it. Positions
 * begin at zero there. */
static qkv_status visit_prior(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    gpt *m = base->self;
    const qkv_gpt_config *c = m->c;
    size_t d = c->width, ff = c->ff_width;
    double std = c->init_range;
    qkv__visit v = {.fn = fn, .user = user, .name = "transformer."};
    qkv__visit_table(&v, "tok_emb.weight", m->token_table, false, std);
    qkv__visit_positions(&v, "pos_emb", m->position_table, 3, 0);
    for (size_t i = 0; i < c->layers; i++) {
        const qkv_block_params *p = qkv_block_parameters(m->stack.blocks[i]);
        snprintf(v.name, sizeof v.name, "transformer.blocks.%zu.", i);
        qkv__visit_norm(&v, "ln1", p->norm1_weight, p->norm1_bias, d);
        qkv__visit_linear(&v, "attn.query", p->qkv_weight, p->qkv_bias, 0, d, d, std);
        qkv__visit_linear(&v, "attn.key", p->qkv_weight, p->qkv_bias, d, d, d, std);
        qkv__visit_linear(&v, "attn.value", p->qkv_weight, p->qkv_bias, 2 * d, d, d, std);
        qkv__visit_linear(&v, "attn.proj", p->out_weight, p->out_bias, 0, d, d, std);
        qkv__visit_norm(&v, "ln2", p->norm2_weight, p->norm2_bias, d);
        qkv__visit_linear(&v, "mlp.0", p->up_weight, p->up_bias, 0, ff, d, std);
        qkv__visit_linear(&v, "mlp.2", p->down_weight, p->down_bias, 0, d, ff, std);
        qkv_state_entry mask = {.kind = QKV_STATE_IGNORED, .init = QKV_INIT_NONE, .ndim = 4,
                                .shape = {1, 1, c->positions, c->positions}, .perm = {0, 1, 2, 3}};
        qkv__visit_entry(&v, &mask, "attn.mask");
    }
    snprintf(v.name, sizeof v.name, "transformer.");
    qkv__visit_norm(&v, "ln_f", m->stack.norm_weight, m->stack.norm_bias, d);
    qkv__visit_table(&v, "head.weight", m->head, false, std);
    return v.status;
}

/* ---- forward ------------------------------------------------------------------------------ */

static qkv_tensor *gpt_embed(gpt *m, qkv_tape *t, qkv_tensor *ids, qkv_tensor *position)
{
    qkv_param *table = m->position_table; /* added whatever its kind: a file may have filled it */
    qkv_tensor *x = qkv_embedding(t, ids, qkv_use(t, m->token_table), 1.0, table ? position : NULL,
                                  table ? qkv_use(t, table) : NULL);
    return m->c->embd_dropout > 0 ? qkv_dropout(t, x, m->c->embd_dropout, EMBEDDING_DROPOUT_ID) : x;
}

static qkv_tensor *hidden(qkv_model *base, qkv_tape *t, qkv_tensor *ids,
                          const qkv_sequence *given, qkv_lm_cache *cache)
{
    gpt *m = base->self;
    if (!ids || qkv_tape_status(t))
        return NULL;
    size_t past = cache ? cache->length : 0, T = qkv_dim(ids, 1);
    qkv_sequence seq = *given;
    seq.positions = seq.slots ? qkv__slot_positions(t, ids, seq.slots)
                              : qkv__positions(t, ids, past, seq.sequences, seq.offsets);
    qkv_tensor *y = qkv__stack_forward(&m->stack, t, gpt_embed(m, t, ids, seq.positions), &seq,
                                       cache ? cache->blocks : NULL);
    if (seq.slots)
        return y;
    if (cache && y)
        cache->length += T;
    else if (cache)
        qkv_lm_cache_truncate(cache, past); /* some layers had taken these tokens in */
    return y;
}

/* ---- as a language model ------------------------------------------------------------------ */

static size_t vocab(const qkv_model *m) { return ((const qkv_gpt_config *)m->config)->vocab; }
static size_t horizon(const qkv_model *m) { return ((const qkv_gpt_config *)m->config)->positions; }
static size_t layers(const qkv_model *m) { return ((const qkv_gpt_config *)m->config)->layers; }
static qkv_param *head(qkv_model *m) { return ((gpt *)m->self)->head; }
static int32_t eos(const qkv_model *m) { return ((const qkv_gpt_config *)m->config)->eos; }
static bool has_max_positions(const qkv_model *m) { return !layout_of(m->type)->rotary; }

static size_t window(const qkv_model *m, size_t layer)
{
    const qkv_gpt_config *c = m->config;
    return layout_of(m->type)->rotary && c->use_window && layer >= c->window_from ? c->window : 0;
}


/* Pairs of a query and a key that it sees, of a sequence of T. */
static double seen_pairs(double T, double window)
{
    return window > 0 && window < T ? window * (T - window / 2) : T * T / 2;
}

/* The tied head counts, look-ups do not; a pair is a product of q numbers, and another of them. */
static double model_gpt_flops(const qkv_model *m, const qkv_workload *w)
{
    const qkv_gpt_config *c = m->config;
    double rows = w->samples * w->length, pairs = 0;
    double weights = (double)c->layers * block_parameters(c, layout_of(m->type)) +
                     (double)(c->vocab * c->width);
    for (size_t i = 0; i < c->layers; i++)
        pairs += w->samples * seen_pairs(w->length, (double)window(m, i));
    return qkv__flops(w->pass, weights * rows, 4 * pairs * (double)(c->heads * c->head_width));
}

static qkv_status block_cache(qkv_model *m, qkv_block_cache *cache, qkv_kv_store store, size_t B,
                              size_t capacity)
{
    const qkv_gpt_config *c = m->config;
    return qkv_kv_cache_create_as(&cache->self, m->ctx, store, B, capacity, c->kv_heads,
                                  c->head_width, c->head_width);
}

static const qkv__lm lm = {vocab, horizon, eos, has_max_positions, layers, window, block_cache,
                           hidden, head};

#define GPT(name_, architecture_, table, visit_, layout_)                                      \
    .name = name_, .architecture = architecture_, .config = table,                             \
    .config_size = sizeof(qkv_gpt_config), .self_size = sizeof(gpt),                          \
    .parameter_count = gpt_parameter_count, .make = gpt_make, .visit = visit_,                 \
    .flops = model_gpt_flops, .preset = qkv__gpt_preset, .builtin = &(layout_).builtin

#define TEXT .builtin = {.can = QKV_CAN_GENERATE, .reads_text = true, .lm = &lm}

static const layout gpt2 = {TEXT, .biases = BIASES_ALL};
static const layout codes = {
    .builtin = {.can = QKV_CAN_GENERATE | QKV_CAN_SAMPLE_CODES, .lm = &lm}, .biases = BIASES_ALL};
static const layout llama = {TEXT, .rotary = true};
static const layout mistral = {TEXT, .rotary = true, .biases = BIASES_NONE, .windows = WINDOWS_ALL};
static const layout phi3 = {TEXT, .rotary = true, .biases = BIASES_NONE, .windows = WINDOWS_ALL,
                            .packed = true};
static const layout qwen2 = {TEXT, .rotary = true, .biases = BIASES_QKV, .windows = WINDOWS_FREE};
static const layout qwen3 = {TEXT, .rotary = true, .biases = BIASES_NO_FF, .qk_norm = true,
                             .windows = WINDOWS_FREE};

static const qkv_model_type gpt2_type = {
    GPT("gpt2", "GPT2LMHeadModel", &qkv__gpt2_config, visit_gpt2, gpt2), .prefix = "transformer."};
static const qkv_model_type prior_type = {
    GPT("qkv_prior", "Net2NetTransformer", &qkv__prior_config, visit_prior, codes)};
static const qkv_model_type llama_type = {
    GPT("llama", "LlamaForCausalLM", &qkv__llama_config, visit_llama, llama)};
static const qkv_model_type mistral_type = {
    GPT("mistral", "MistralForCausalLM", &qkv__mistral_config, visit_llama, mistral)};
static const qkv_model_type phi3_type = {
    GPT("phi3", "Phi3ForCausalLM", &qkv__phi3_config, visit_llama, phi3)};
static const qkv_model_type qwen2_type = {
    GPT("qwen2", "Qwen2ForCausalLM", &qkv__qwen2_config, visit_llama, qwen2)};
static const qkv_model_type qwen3_type = {
    GPT("qwen3", "Qwen3ForCausalLM", &qkv__qwen3_config, visit_llama, qwen3)};

const qkv_model_type *qkv_gpt2_type(void) { return &gpt2_type; }
const qkv_model_type *qkv_llama_type(void) { return &llama_type; }
const qkv_model_type *qkv_mistral_type(void) { return &mistral_type; }
const qkv_model_type *qkv_phi3_type(void) { return &phi3_type; }
const qkv_model_type *qkv_qwen2_type(void) { return &qwen2_type; }
const qkv_model_type *qkv_qwen3_type(void) { return &qwen3_type; }
const qkv_model_type *qkv_prior_type(void) { return &prior_type; }
