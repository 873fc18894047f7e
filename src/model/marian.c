/* marian.c - the encoder-decoder: two stacks of the one block, the second with cross-attention. The
 * layouts differ in the block's settings, in how positions come in, and in the names of tensors. */
#include "model/marian.h"
#include "model/tables.h"

#include <math.h>
#include <string.h>

#include "model/translator.h"
#include "tensor/make.h"

enum { DECODER_INDEX = 1 << 20 }; /* of the first decoder block: dropout sites of its own */
static const uint32_t DROPOUT_IDS = 0xE0000000u; /* dropout sites that no block has */
enum { SOURCE_DROPOUT_ID, TARGET_DROPOUT_ID, ENCODER_DROPOUT_ID, DECODER_DROPOUT_ID,
       MEMORY_DROPOUT_ID, OUTPUT_DROPOUT_ID };

/* Numbers in the table of positions, which no file holds: 256 MiB. */
enum { MOST_POSITIONS = 1 << 26 };

static const qkv__translator_layout *translator_layout_of(const qkv_model_type *type)
{
    return (const qkv__translator_layout *)(const void *)type->builtin; /* its first member */
}

/* Channels of the heads together. */
static size_t inner_width(const qkv_marian_config *c, size_t heads)
{
    return c->head_width ? heads * c->head_width : c->width;
}

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status marian_complete(qkv_context *ctx, const char *name, qkv_marian_config *c)
{
    if (c->width % 2 || c->width % c->encoder_heads || c->width % c->decoder_heads)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: the heads (%zu and %zu) must divide the width "
                        "(%zu, even)", name, c->encoder_heads, c->decoder_heads, c->width);
    if (c->positions > MOST_POSITIONS / c->width)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: %zu positions of width %zu: at most %d numbers "
                        "expected", name, c->positions, c->width, MOST_POSITIONS);
    if (!c->encoder_ff_width)
        c->encoder_ff_width = 4 * c->width;
    if (!c->decoder_ff_width)
        c->decoder_ff_width = 4 * c->width;
    c->init_range = qkv__init_range(c->init_range, 1.0 / 3, c->width);
    return QKV_OK;
}

/* Both stacks are alike, and one rate of dropout is everywhere. */
static qkv_status t5_complete(qkv_context *ctx, const char *name, qkv_marian_config *c)
{
    if (c->distance <= c->buckets / 2)
        return qkv_fail(ctx, QKV_E_ARGUMENT, "%s: relative positions up to %zu in %zu buckets: "
                        "more positions than half of the buckets expected", name, c->distance,
                        c->buckets);
    if (!c->decoder_layers)
        c->decoder_layers = c->encoder_layers;
    if (c->start < 0)
        c->start = c->pad;
    c->decoder_heads = c->encoder_heads;
    c->decoder_ff_width = c->encoder_ff_width;
    c->attention_dropout = c->activation_dropout = c->dropout;
    c->share = true;
    c->scale_embedding = false;
    return qkv__t5_activation(ctx, c);
}

static qkv_status translator_check_tokens(const qkv__translator *m)
{
    const qkv_marian_config *c = m->c;
    if (c->pad >= 0 && (size_t)c->pad >= c->vocab)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: pad_token_id %d is not below the "
                        "vocabulary's %zu", m->base->type->name, c->pad, c->vocab);
    if (c->eos >= 0 && (size_t)c->eos >= c->vocab)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: eos_token_id %d is not below the "
                        "vocabulary's %zu", m->base->type->name, c->eos, c->vocab);
    return QKV_OK;
}

static qkv_block_config marian_block_config(const qkv__translator *m, bool decoder)
{
    const qkv_marian_config *c = m->c;
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = decoder ? c->decoder_heads : c->encoder_heads;
    b.ff_width = decoder ? c->decoder_ff_width : c->encoder_ff_width;
    b.post_norm = !m->layout->pre_norm;
    b.act = c->act;
    if (m->layout->t5) {
        b.head_width = c->head_width;
        b.norm = QKV_NORM_RMS;
        b.norm_eps = c->norm_eps;
        b.gated = c->gated;
        b.attention_scale = 1;
        b.qkv_bias = b.out_bias = b.ff_bias = false;
    }
    b.causal = b.cross = decoder;
    b.dropout = c->dropout;
    b.attention_dropout = c->attention_dropout;
    b.ff_dropout = c->activation_dropout;
    return b;
}

static qkv_status marian_make_tower(qkv__translator *m, bool decoder)
{
    qkv__translator_tower *s = decoder ? &m->decoder : &m->encoder;
    qkv_block_config config = marian_block_config(m, decoder);
    const qkv__stack_options o = {.block = decoder ? "decoder" : "encoder",
                                  .norm = decoder ? "decoder.norm" : "encoder.norm",
                                  .first = decoder ? DECODER_INDEX : 0,
                                  .norm_dropout_id =
                                      DROPOUT_IDS +
                                  (decoder ? DECODER_DROPOUT_ID : ENCODER_DROPOUT_ID)};
    s->embedding_dropout_id = DROPOUT_IDS + (decoder ? TARGET_DROPOUT_ID : SOURCE_DROPOUT_ID);
    s->output_dropout_id = DROPOUT_IDS + (decoder ? OUTPUT_DROPOUT_ID : MEMORY_DROPOUT_ID);
    if (m->layout->t5 && !(s->relative = qkv__matrix(m->base->params,
                                                     decoder ? "decoder.relative"
                                                             : "encoder.relative",
                                                     m->c->buckets, config.heads)))
        return QKV_E_MEMORY;
    return qkv__stack_make(&s->stack, m->base->params, &config,
                           decoder ? m->c->decoder_layers : m->c->encoder_layers, &o);
}

/* Marian's table of positions and bias of the output layer. */
static qkv_status marian_make_fixed(qkv__translator *m)
{
    const qkv_marian_config *c = m->c;
    m->positions = qkv__matrix(m->base->params, "positions", c->positions, c->width);
    m->head_bias = qkv__matrix(m->base->params, "head.bias", 1, c->vocab);
    if (!m->positions || !m->head_bias)
        return QKV_E_MEMORY;
    qkv_param_freeze(m->positions, true);
    qkv_param_freeze(m->head_bias, true);
    return qkv__fill_sinusoids(m->positions, 0, c->positions, QKV_SINUSOID_MARIAN, 0, 0);
}

static qkv_status marian_make(qkv_model *base)
{
    qkv__translator *m = base->self;
    m->base = base;
    m->c = base->config;
    m->layout = translator_layout_of(base->type);
    qkv_status status = m->layout->complete(base->ctx, base->type->name, m->c);
    if (!status)
        status = translator_check_tokens(m);
    if (status)
        return status;
    const qkv_marian_config *c = m->c;
    qkv_params *ps = base->params;
    m->encoder.table = qkv__param_table(qkv__matrix(ps, "source", c->vocab, c->width));
    m->decoder.table = c->share ? m->encoder.table
                                : qkv__param_table(qkv__matrix(ps, "target", c->vocab, c->width));
    m->head = c->tie ? m->decoder.table
                     : qkv__param_table(qkv__matrix(ps, "head", c->vocab, c->width));
    if (!m->encoder.table || !m->decoder.table || !m->head)
        return QKV_E_MEMORY;
    if (!m->layout->t5)
        status = marian_make_fixed(m);
    if (!status)
        status = marian_make_tower(m, false);
    return status ? status : marian_make_tower(m, true);
}

/* ---- the padding token --------------------------------------------------------------------- */

/* The padding token's row of a table; NULL: there is none, or memory is out. */
static qkv_real *pad_row(const qkv__translator *m, qkv_param *table)
{
    qkv_real *data = m->c->pad < 0 ? NULL : qkv_param_data(table);
    return data ? data + (size_t)m->c->pad * m->c->width : NULL;
}

/* Zeros, as torch.nn.Embedding's padding_idx has it. */
static void marian_after_init(qkv_model *base)
{
    const qkv__translator *m = base->self;
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
    const qkv__translator *m = base->self;
    qkv_param *table = m->decoder.table;
    bool zeros = !m->layout->t5 && m->c->start == m->c->pad && !qkv_param_frozen(table);
    const qkv_real *row = zeros ? pad_row(m, table) : NULL;
    for (size_t i = 0; row && i < m->c->width && zeros; i++)
        zeros = row[i] == 0;
    if (row && zeros)
        qkv__param_hold_row(table, (size_t)m->c->pad);
}

/* ---- forward ------------------------------------------------------------------------------ */

/* The tokens' embeddings, with their positions where a table has these. T5's padding is the
 * decoder's first input, and learns. */
static qkv_tensor *translator_embed(qkv__translator *m, qkv_tape *t, const qkv__translator_tower *s,
                                    const qkv_marian_side *in, size_t past)
{
    const qkv_marian_config *c = m->c;
    if (m->layout->t5)
        return qkv_embedding(t, in->ids, qkv_use(t, s->table), 1, NULL, NULL);
    qkv_tensor *positions = qkv__positions(t, in->ids, past, in->sequences, in->offsets);
    return qkv_embedding_padded(t, in->ids, qkv_use(t, s->table),
                                c->scale_embedding ? sqrt((double)c->width) : 1, positions,
                                qkv_use(t, m->positions), c->pad);
}

/* The table's numbers for offsets of keys from queries, as far as the sequences are long. */
static qkv_tensor *translator_relative(const qkv__translator *m, qkv_tape *t,
                                       const qkv__translator_tower *s, const qkv_marian_side *in,
                                       size_t past)
{
    const qkv_relative_config c = {m->c->buckets, m->c->distance, s == &m->encoder};
    size_t longest = in->offsets ? 1 : qkv_dim(in->ids, 1);
    for (size_t b = 0; in->offsets && b < in->sequences; b++) {
        size_t n = (size_t)(in->offsets[b + 1] - in->offsets[b]);
        longest = n > longest ? n : longest;
    }
    return qkv_relative_bias(t, qkv_use(t, s->relative), &c, longest, past + longest);
}

static qkv_tensor *marian_run(qkv__translator *m, qkv_tape *t, const qkv__translator_tower *s,
                              const qkv_marian_side *in, qkv_sequence *seq, qkv_lm_cache *cache)
{
    const qkv_marian_config *c = m->c;
    if (!in->ids || qkv_tape_status(t))
        return NULL;
    seq->sequences = in->sequences;
    seq->offsets = in->offsets;
    seq->lengths = in->lengths;
    size_t past = cache ? cache->length : 0;
    qkv_tensor *x = translator_embed(m, t, s, in, past);
    if (s->relative && !(seq->relative = translator_relative(m, t, s, in, past)))
        return NULL;
    x = qkv_dropout(t, x, c->dropout, s->embedding_dropout_id);
    x = qkv__stack_forward(&s->stack, t, x, seq, cache ? cache->blocks : NULL);
    return m->layout->t5 ? qkv_dropout(t, x, c->dropout, s->output_dropout_id) : x;
}

qkv_tensor *qkv_marian_encode(qkv_model *base, qkv_tape *t, const qkv_marian_side *source)
{
    qkv__translator *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    qkv_sequence seq = {0};
    return m ? marian_run(m, t, &m->encoder, source, &seq, NULL) : NULL;
}

qkv_tensor *qkv_marian_decode(qkv_model *base, qkv_tape *t, const qkv_marian_side *target,
                              qkv_tensor *memory, const qkv_marian_side *source,
                              qkv_lm_cache *cache)
{
    qkv__translator *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    if (!m)
        return NULL;
    if (cache && (cache->layers != m->decoder.stack.count || !cache->blocks[0].cross))
        return qkv__op_fail(t, __func__, "a cache of another model");
    qkv_sequence seq = {.memory = memory, .memory_offsets = source->offsets,
                        .memory_lengths = source->lengths, .memories = source->sequences,
                        .memory_queries = source->queries, .memory_begins = source->begins};
    size_t past = cache ? cache->length : 0;
    qkv_tensor *y = marian_run(m, t, &m->decoder, target, &seq, cache);
    if (m->layout->t5 && m->c->tie)
        y = qkv_scale(t, y, 1 / sqrt((double)m->c->width));
    if (cache && y)
        cache->length += qkv_dim(target->ids, 1);
    else if (cache)
        qkv_lm_cache_truncate(cache, past); /* some layers had taken these tokens in */
    return y;
}

/* (1, vocab) -> (vocab), or NULL */
static qkv_tensor *head_bias(qkv__translator *m, qkv_tape *t)
{
    if (!m->head_bias)
        return NULL;
    return qkv_reshape(t, qkv_use(t, m->head_bias), 1, &m->c->vocab);
}

qkv_tensor *qkv_marian_logits(qkv_model *base, qkv_tape *t, qkv_tensor *hidden)
{
    qkv__translator *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    return m ? qkv_linear(t, hidden, qkv_use(t, m->head), head_bias(m, t), QKV_ACT_NONE) : NULL;
}

qkv_tensor *qkv_marian_loss(qkv_model *base, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                            const qkv_cross_entropy_options *options)
{
    qkv__translator *m = qkv__model_as(base, t, __func__, QKV_CAN_TRANSLATE);
    return m ? qkv_classifier_loss(t, hidden, qkv_use(t, m->head), head_bias(m, t), targets,
                                   options)
             : NULL;
}

/* ---- some rows of the output layer --------------------------------------------------------- */

struct qkv_marian_head {
    qkv_context *ctx;
    qkv_params *params;
    qkv_param *weight, *bias; /* (count, width), (count) or NULL */
    size_t count;
};

/* The tokens' biases, which lie in one row of the model's. */
static qkv_status marian_take_bias(qkv_marian_head *h, qkv__translator *m, const int32_t *tokens)
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
    qkv__translator *m = qkv__model_as(base, NULL, __func__, QKV_CAN_TRANSLATE);
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
        status = h->weight ? QKV_OK : QKV_E_MEMORY;
    }
    if (!status && m->head_bias)
        status = marian_take_bias(h, m, tokens);
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
    return qkv_linear(t, hidden, qkv_use(t, h->weight), h->bias ? qkv_use(t, h->bias) : NULL,
                      QKV_ACT_NONE);
}

/* ---- caches and counts ---------------------------------------------------------------------- */

qkv_status qkv_marian_cache_create(qkv_lm_cache **out, qkv_model *base, size_t B, size_t capacity,
                                   size_t source, bool packed)
{
    *out = NULL;
    if (!qkv__model_as(base, NULL, __func__, QKV_CAN_TRANSLATE))
        return QKV_E_ARGUMENT;
    const qkv_marian_config *c = base->config;
    size_t memories = packed ? 1 : B, D = inner_width(c, c->decoder_heads) / c->decoder_heads;
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
    double d = (double)c->width, S = w->length, T = w->target_length, ff = c->gated ? 3 : 2;
    double in = (double)inner_width(c, c->encoder_heads);
    double encoder = 4 * d * in + ff * d * (double)c->encoder_ff_width;
    double decoder = 6 * d * in + ff * d * (double)c->decoder_ff_width, memory = 2 * d * in;
    double products = (double)c->encoder_layers * S * encoder +
                      (double)c->decoder_layers * (T * decoder + S * memory) +
                      T * d * (double)c->vocab;
    double attention = (double)c->encoder_layers * 4 * S * S * in +
                       (double)c->decoder_layers * (2 * T * T + 4 * S * T) * in;
    return w->samples * qkv__flops(w->pass, products, attention);
}

/* Of a configuration that is not completed: at least. */
static double marian_parameter_count(const qkv_model_type *type, const void *config)
{
    const bool t5 = translator_layout_of(type)->t5;
    const qkv_marian_config *c = config;
    double d = (double)c->width;
    double in = t5 ? (double)c->encoder_heads * (double)c->head_width : d;
    double encoder = c->encoder_ff_width ? (double)c->encoder_ff_width : 4 * d;
    double decoder = c->decoder_ff_width ? (double)c->decoder_ff_width : t5 ? encoder : 4 * d;
    return d * ((double)c->vocab + (double)c->encoder_layers * (4 * in + 2 * encoder) +
                (double)c->decoder_layers * (8 * in + 2 * decoder));
}

#define TRANSLATOR(name_, architecture_, table, visit_, layout_)                               \
    .name = name_, .architecture = architecture_, .config = table,                             \
    .config_size = sizeof(qkv_marian_config), .self_size = sizeof(qkv__translator),            \
    .parameter_count = marian_parameter_count, .make = marian_make, .visit = visit_,           \
    .flops = marian_flops, .builtin = &(layout_).builtin

#define TRANSLATES(after)                                                                      \
    .builtin = {.can = QKV_CAN_TRANSLATE, .reads_text = true, .after_init = after}

static const qkv__translator_layout post_norm = {TRANSLATES(marian_after_init),
                                                 .complete = marian_complete};
static const qkv__translator_layout pre_norm = {TRANSLATES(marian_after_init), .pre_norm = true,
                                                .complete = marian_complete};
static const qkv__translator_layout t5 = {TRANSLATES(NULL), .pre_norm = true, .t5 = true,
                                          .complete = t5_complete};

static const qkv_model_type marian_type = {
    TRANSLATOR("marian", "MarianMTModel", &qkv__marian_config, qkv__marian_visit, post_norm),
    .preset = qkv__marian_preset};
static const qkv_model_type translator_type = {
    TRANSLATOR("qkv_translator", "QkvTranslator", &qkv__marian_config, qkv__marian_visit, pre_norm),
    .preset = qkv__marian_preset};
static const qkv_model_type t5_type = {
    TRANSLATOR("t5", "T5ForConditionalGeneration", &qkv__t5_config, qkv__t5_visit, t5)};

const qkv_model_type *qkv_marian_type(void) { return &marian_type; }
const qkv_model_type *qkv_translator_type(void) { return &translator_type; }
const qkv_model_type *qkv_t5_type(void) { return &t5_type; }
