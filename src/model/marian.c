/* marian.c - the encoder-decoder: two stacks of the one block, the second with cross-attention. The
 * types marian and qkv_translator differ in where the norms are, nothing else. */
#include "model/marian.h"
#include "model/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/stack.h"
#include "tensor/make.h"

enum { DECODER_INDEX = 1 << 20 }; /* of the first decoder block: dropout sites of its own */
static const uint32_t DROPOUT_IDS = 0xE0000000u; /* dropout sites that no block has */
enum { SOURCE_DROPOUT_ID, TARGET_DROPOUT_ID, ENCODER_DROPOUT_ID, DECODER_DROPOUT_ID };

typedef struct {
    qkv__stack stack;
    qkv_param *table; /* (vocab, width) */
    uint32_t embedding_dropout_id;
} tower;

/* Numbers in the table of positions, which no file holds: 256 MiB. */
enum { MOST_POSITIONS = 1 << 26 };

typedef struct {
    qkv_model *base;
    qkv_marian_config *c; /* base->config */
    tower encoder, decoder;
    qkv_param *positions, *head, *head_bias; /* (positions, width), (vocab, width), (1, vocab) */
} marian;

static bool is_pre_norm(const qkv_model *m) { return m->type == qkv_translator_type(); }

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status marian_complete_config(marian *m)
{
    qkv_marian_config *c = m->c;
    if (c->width % 2 || c->width % c->encoder_heads || c->width % c->decoder_heads)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: the heads (%zu and %zu) must divide "
                        "the width (%zu, even)", m->base->type->name, c->encoder_heads,
                        c->decoder_heads, c->width);
    if (c->positions > MOST_POSITIONS / c->width)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: %zu positions of width %zu: at most "
                        "%d numbers expected", m->base->type->name, c->positions, c->width,
                        MOST_POSITIONS);
    if (c->pad >= 0 && (size_t)c->pad >= c->vocab)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: pad_token_id %d is not below the "
                        "vocabulary's %zu", m->base->type->name, c->pad, c->vocab);
    if (c->eos >= 0 && (size_t)c->eos >= c->vocab)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: eos_token_id %d is not below the "
                        "vocabulary's %zu", m->base->type->name, c->eos, c->vocab);
    if (!c->encoder_ff_width)
        c->encoder_ff_width = 4 * c->width;
    if (!c->decoder_ff_width)
        c->decoder_ff_width = 4 * c->width;
    c->init_range = qkv__init_range(c->init_range, 1.0 / 3, c->width);
    return QKV_OK;
}

static qkv_block_config marian_block_config(const marian *m, bool decoder)
{
    const qkv_marian_config *c = m->c;
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = decoder ? c->decoder_heads : c->encoder_heads;
    b.ff_width = decoder ? c->decoder_ff_width : c->encoder_ff_width;
    b.post_norm = !is_pre_norm(m->base);
    b.act = c->act;
    b.causal = b.cross = decoder;
    b.dropout = c->dropout;
    b.attention_dropout = c->attention_dropout;
    b.ff_dropout = c->activation_dropout;
    return b;
}

static qkv_status marian_make_tower(marian *m, bool decoder)
{
    tower *s = decoder ? &m->decoder : &m->encoder;
    qkv_block_config config = marian_block_config(m, decoder);
    const qkv__stack_options o = {.block = decoder ? "decoder" : "encoder",
                                  .norm = decoder ? "decoder.norm" : "encoder.norm",
                                  .first = decoder ? DECODER_INDEX : 0,
                                  .norm_dropout_id =
                                      DROPOUT_IDS +
                                  (decoder ? DECODER_DROPOUT_ID : ENCODER_DROPOUT_ID)};
    s->embedding_dropout_id = DROPOUT_IDS + (decoder ? TARGET_DROPOUT_ID : SOURCE_DROPOUT_ID);
    return qkv__stack_make(&s->stack, m->base->params, &config,
                           decoder ? m->c->decoder_layers : m->c->encoder_layers, &o);
}

static qkv_status marian_make(qkv_model *base)
{
    marian *m = base->self;
    m->base = base;
    m->c = base->config;
    qkv_status status = marian_complete_config(m);
    if (status)
        return status;
    const qkv_marian_config *c = m->c;
    qkv_params *ps = base->params;
    m->encoder.table = qkv__param_table(qkv__matrix(ps, "source", c->vocab, c->width));
    m->decoder.table = c->share ? m->encoder.table
                                : qkv__param_table(qkv__matrix(ps, "target", c->vocab, c->width));
    m->positions = qkv__matrix(ps, "positions", c->positions, c->width);
    m->head = c->tie ? m->decoder.table
                     : qkv__param_table(qkv__matrix(ps, "head", c->vocab, c->width));
    m->head_bias = qkv__matrix(ps, "head.bias", 1, c->vocab);
    if (!m->encoder.table || !m->decoder.table || !m->positions || !m->head || !m->head_bias)
        return QKV_E_MEMORY;
    qkv_param_freeze(m->positions, true);
    qkv_param_freeze(m->head_bias, true);
    status = qkv__fill_sinusoids(m->positions, 0, c->positions, QKV_SINUSOID_MARIAN, 0, 0);
    if (!status)
        status = marian_make_tower(m, false);
    return status ? status : marian_make_tower(m, true);
}

/* ---- rows --------------------------------------------------------------------------------- */

static void marian_visit_block(const marian *m, qkv__visit *v, const qkv_block_params *p, size_t ff)
{
    size_t d = m->c->width;
    double std = m->c->init_range;
    qkv__visit_linear(v, "self_attn.q_proj", p->qkv_weight, p->qkv_bias, 0, d, d, std);
    qkv__visit_linear(v, "self_attn.k_proj", p->qkv_weight, p->qkv_bias, d, d, d, std);
    qkv__visit_linear(v, "self_attn.v_proj", p->qkv_weight, p->qkv_bias, 2 * d, d, d, std);
    qkv__visit_linear(v, "self_attn.out_proj", p->out_weight, p->out_bias, 0, d, d, std);
    qkv__visit_norm(v, "self_attn_layer_norm", p->norm1_weight, p->norm1_bias, d);
    if (p->q_weight) {
        qkv__visit_linear(v, "encoder_attn.q_proj", p->q_weight, p->q_bias, 0, d, d, std);
        qkv__visit_linear(v, "encoder_attn.k_proj", p->kv_weight, p->kv_bias, 0, d, d, std);
        qkv__visit_linear(v, "encoder_attn.v_proj", p->kv_weight, p->kv_bias, d, d, d, std);
        qkv__visit_linear(v, "encoder_attn.out_proj", p->out_x_weight, p->out_x_bias, 0, d, d, std);
        qkv__visit_norm(v, "encoder_attn_layer_norm", p->norm_x_weight, p->norm_x_bias, d);
    }
    qkv__visit_linear(v, "fc1", p->up_weight, p->up_bias, 0, ff, d, std);
    qkv__visit_linear(v, "fc2", p->down_weight, p->down_bias, 0, d, ff, std);
    qkv__visit_norm(v, "final_layer_norm", p->norm2_weight, p->norm2_bias, d);
}

static void marian_visit_stack(const marian *m, qkv__visit *v, const qkv__stack *s,
                               const char *side, size_t ff)
{
    for (size_t i = 0; i < s->count; i++) {
        snprintf(v->name, sizeof v->name, "model.%s.layers.%zu.", side, i);
        marian_visit_block(m, v, qkv_block_parameters(s->blocks[i]), ff);
    }
    snprintf(v->name, sizeof v->name, "model.%s.", side);
    if (s->norm_weight)
        qkv__visit_norm(v, "layer_norm", s->norm_weight, s->norm_bias, m->c->width);
    qkv__visit_kind(v, "embed_positions.weight", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
}

static qkv_status marian_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    marian *m = base->self;
    const qkv_marian_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    if (c->share)
        qkv__visit_table(&v, "model.shared.weight", m->encoder.table, false, c->init_range);
    qkv__visit_table(&v, "model.encoder.embed_tokens.weight", m->encoder.table, c->share,
                     c->init_range);
    qkv__visit_table(&v, "model.decoder.embed_tokens.weight", m->decoder.table, c->share,
                     c->init_range);
    marian_visit_stack(m, &v, &m->encoder.stack, "encoder", c->encoder_ff_width);
    marian_visit_stack(m, &v, &m->decoder.stack, "decoder", c->decoder_ff_width);
    v.name[0] = 0;
    qkv__visit_table(&v, "lm_head.weight", m->head, c->tie, c->init_range);
    qkv__visit_kind(&v, "final_logits_bias", m->head_bias, QKV_STATE_FIXED, QKV_INIT_NONE, 0);
    return v.status;
}

/* The padding token's row of a table; NULL: there is none, or memory is out. */
static qkv_real *pad_row(const marian *m, qkv_param *table)
{
    qkv_real *data = m->c->pad < 0 ? NULL : qkv_param_data(table);
    return data ? data + (size_t)m->c->pad * m->c->width : NULL;
}

/* As torch.nn.Embedding's padding_idx has it. */
static void marian_after_init(qkv_model *base)
{
    const marian *m = base->self;
    qkv_param *tables[] = {m->encoder.table, m->decoder.table};
    for (int i = 0; i < 2; i++) {
        qkv_real *row = pad_row(m, tables[i]);
        if (!row)
            continue;
        memset(row, 0, m->c->width * sizeof *row);
        qkv_param_touch(tables[i]);
    }
}

void qkv__marian_hold_start(qkv_model *base)
{
    const marian *m = base->self;
    qkv_param *table = m->decoder.table;
    bool zeros = m->c->start == m->c->pad && !qkv_param_frozen(table);
    const qkv_real *row = zeros ? pad_row(m, table) : NULL;
    for (size_t i = 0; row && i < m->c->width && zeros; i++)
        zeros = row[i] == 0;
    if (row && zeros)
        qkv__param_hold_row(table, (size_t)m->c->pad);
}

/* ---- forward ------------------------------------------------------------------------------ */

static qkv_tensor *marian_run(marian *m, qkv_tape *t, const tower *s, const qkv_marian_side *in,
                              qkv_sequence *seq, qkv_lm_cache *cache)
{
    const qkv_marian_config *c = m->c;
    if (!in->ids || qkv_tape_status(t))
        return NULL;
    seq->sequences = in->sequences;
    seq->offsets = in->offsets;
    seq->lengths = in->lengths;
    qkv_tensor *positions = qkv__positions(t, in->ids, cache ? cache->length : 0, in->sequences,
                                           in->offsets);
    qkv_tensor *x = qkv_embedding_padded(t, in->ids, qkv_use(t, s->table),
                                         c->scale_embedding ? sqrt((double)c->width) : 1,
                                         positions, qkv_use(t, m->positions), c->pad);
    x = qkv_dropout(t, x, c->dropout, s->embedding_dropout_id);
    return qkv__stack_forward(&s->stack, t, x, seq, cache ? cache->blocks : NULL);
}

qkv_tensor *qkv_marian_encode(qkv_model *base, qkv_tape *t, const qkv_marian_side *source)
{
    marian *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    qkv_sequence seq = {0};
    return m ? marian_run(m, t, &m->encoder, source, &seq, NULL) : NULL;
}

qkv_tensor *qkv_marian_decode(qkv_model *base, qkv_tape *t, const qkv_marian_side *target,
                              qkv_tensor *memory, const qkv_marian_side *source,
                              qkv_lm_cache *cache)
{
    marian *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    if (!m)
        return NULL;
    if (cache && (cache->layers != m->decoder.stack.count || !cache->blocks[0].cross))
        return qkv__op_fail(t, __func__, "a cache of another model");
    qkv_sequence seq = {.memory = memory, .memory_offsets = source->offsets,
                        .memory_lengths = source->lengths, .memories = source->sequences,
                        .memory_queries = source->queries, .memory_begins = source->begins};
    size_t past = cache ? cache->length : 0;
    qkv_tensor *y = marian_run(m, t, &m->decoder, target, &seq, cache);
    if (cache && y)
        cache->length += qkv_dim(target->ids, 1);
    else if (cache)
        qkv_lm_cache_truncate(cache, past); /* some layers had taken these tokens in */
    return y;
}

/* (1, vocab) -> (vocab) */
static qkv_tensor *head_bias(marian *m, qkv_tape *t)
{
    return qkv_reshape(t, qkv_use(t, m->head_bias), 1, &m->c->vocab);
}

qkv_tensor *qkv_marian_logits(qkv_model *base, qkv_tape *t, qkv_tensor *hidden)
{
    marian *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    return m ? qkv_linear(t, hidden, qkv_use(t, m->head), head_bias(m, t), QKV_ACT_NONE) : NULL;
}

qkv_tensor *qkv_marian_loss(qkv_model *base, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                            const qkv_cross_entropy_options *options)
{
    marian *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    return m ? qkv_classifier_loss(t, hidden, qkv_use(t, m->head), head_bias(m, t), targets,
                                   options)
             : NULL;
}

/* ---- some rows of the output layer --------------------------------------------------------- */

struct qkv_marian_head {
    qkv_context *ctx;
    qkv_params *params;
    qkv_param *weight, *bias; /* (count, width), (count) */
    size_t count;
};

/* The tokens' biases, which lie in one row of the model's. */
static qkv_status marian_take_bias(qkv_marian_head *h, marian *m, const int32_t *tokens)
{
    const size_t shape[] = {h->count};
    const qkv_real *from = qkv_param_data(m->head_bias);
    h->bias = qkv_param_create(h->params, "bias", 1, shape);
    qkv_real *to = h->bias ? qkv_param_data(h->bias) : NULL;
    if (!from || !to)
        return QKV_E_MEMORY;
    for (size_t i = 0; i < h->count; i++)
        to[i] = from[tokens[i]];
    qkv_param_touch(h->bias);
    qkv_param_freeze(h->bias, true);
    return QKV_OK;
}

qkv_status qkv_marian_head_create(qkv_marian_head **out, qkv_model *base, const int32_t *tokens,
                                  size_t count)
{
    marian *m = qkv__model_as(base, NULL, __func__, QKV_CAN_TRANSLATE);
    *out = NULL;
    if (!m)
        return QKV_E_ARGUMENT;
    size_t fit = 0;
    while (fit < count && tokens[fit] >= 0 && (size_t)tokens[fit] < m->c->vocab)
        fit++;
    if (!count || fit < count)
        return qkv_fail(base->ctx, QKV_E_ARGUMENT, "%zu tokens of the output layer: some expected, "
                        "each below %zu", count, m->c->vocab);
    qkv_marian_head *h = qkv_calloc(base->ctx, 1, sizeof *h);
    if (!h)
        return QKV_E_MEMORY;
    *h = (qkv_marian_head){.ctx = base->ctx, .count = count};
    qkv_status status = qkv_params_create(&h->params, base->ctx);
    if (!status) {
        h->weight = qkv__param_rows(h->params, "weight", m->head, tokens, count);
        status = h->weight ? marian_take_bias(h, m, tokens) : QKV_E_MEMORY;
    }
    if (status)
        qkv_marian_head_destroy(h);
    else
        *out = h;
    return status;
}

void qkv_marian_head_destroy(qkv_marian_head *h)
{
    if (!h)
        return;
    qkv_params_destroy(h->params);
    qkv_free(h->ctx, h);
}

qkv_tensor *qkv_marian_head_logits(const qkv_marian_head *h, qkv_tape *t, qkv_tensor *hidden)
{
    return qkv_linear(t, hidden, qkv_use(t, h->weight), qkv_use(t, h->bias), QKV_ACT_NONE);
}

/* ---- caches and counts ---------------------------------------------------------------------- */

qkv_status qkv_marian_cache_create(qkv_lm_cache **out, qkv_model *base, size_t B, size_t capacity,
                                   size_t source, bool packed)
{
    *out = NULL;
    if (!qkv__model_as(base, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    const qkv_marian_config *c = base->config;
    size_t memories = packed ? 1 : B, D = c->width / c->decoder_heads;
    qkv_status status = qkv__cache_create(out, base->ctx, c->decoder_layers, capacity);
    for (size_t i = 0; i < c->decoder_layers && !status; i++) {
        qkv_block_cache *b = &(*out)->blocks[i];
        status = qkv_kv_cache_create(&b->self, base->ctx, B, capacity, c->decoder_heads, D, D);
        if (!status)
            status = qkv_kv_cache_create(&b->cross, base->ctx, memories, source,
                                         c->decoder_heads, D, D);
    }
    if (status) {
        qkv_lm_cache_destroy(*out);
        *out = NULL;
    }
    return status;
}

bool qkv_marian_cache_reset(qkv_lm_cache *c, size_t B, size_t source)
{
    bool fits = true;
    for (size_t i = 0; i < c->layers && fits; i++)
        fits = qkv_kv_cache_reset(c->blocks[i].self, B, 0) &&
               qkv_kv_cache_reset(c->blocks[i].cross, 1, source);
    c->length = 0;
    return fits;
}

static double marian_flops(const qkv_model *base, const qkv_workload *w)
{
    const qkv_marian_config *c = base->config;
    double d = (double)c->width, S = w->length, T = w->target_length;
    double encoder = 4 * d * d + 2 * d * (double)c->encoder_ff_width;
    double decoder = 6 * d * d + 2 * d * (double)c->decoder_ff_width, memory = 2 * d * d;
    double products = (double)c->encoder_layers * S * encoder +
                      (double)c->decoder_layers * (T * decoder + S * memory) +
                      T * d * (double)c->vocab;
    double attention = (double)c->encoder_layers * 4 * S * S * d +
                       (double)c->decoder_layers * (2 * T * T + 4 * S * T) * d;
    return w->samples * qkv__flops(w->pass, products, attention);
}

static double marian_parameter_count(const qkv_model_type *type, const void *config)
{
    (void)type;
    const qkv_marian_config *c = config;
    double d = (double)c->width;
    double encoder = c->encoder_ff_width ? (double)c->encoder_ff_width : 4 * d;
    double decoder = c->decoder_ff_width ? (double)c->decoder_ff_width : 4 * d;
    return d * ((double)c->vocab + (double)c->encoder_layers * (4 * d + 2 * encoder) +
                (double)c->decoder_layers * (8 * d + 2 * decoder));
}

static const qkv_builtin_type builtin = {.can = QKV_CAN_TRANSLATE, .reads_text = true,
                                         .after_init = marian_after_init};

#define MARIAN(name_, architecture_)                                                           \
    .name = name_, .architecture = architecture_, .config = &qkv__marian_config,               \
    .config_size = sizeof(qkv_marian_config), .self_size = sizeof(marian),                     \
    .parameter_count = marian_parameter_count, .make = marian_make, .visit = marian_visit,     \
    .flops = marian_flops, .preset = qkv__marian_preset, .builtin = &builtin

static const qkv_model_type marian_type = {MARIAN("marian", "MarianMTModel")};
static const qkv_model_type translator_type = {MARIAN("qkv_translator", "QkvTranslator")};

const qkv_model_type *qkv_marian_type(void) { return &marian_type; }
const qkv_model_type *qkv_translator_type(void) { return &translator_type; }
