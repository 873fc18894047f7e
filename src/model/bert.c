/* bert.c - BERT: word, position and segment embeddings, a post-norm stack, one of two heads or
 * none. The types share everything but the head. */
#include "model/tables.h"
#include "qkv/bert.h"

#include <stdio.h>

#include "nn/stack.h"
#include "tensor/make.h"

static const uint32_t EMBEDDING_DROPOUT_ID = 0xE0000000u; /* dropout sites that no block has */
static const uint32_t CLASSIFIER_DROPOUT_ID = 0xE0000002u;

typedef struct {
    qkv_model *base;
    qkv_bert_config *c; /* base->config */
    qkv__stack stack;
    qkv_param *word_table, *position_table, *segment_table;
    qkv_param *norm_weight, *norm_bias;
    /* masked: dense, norm, then the word table and a bias; classifier: pooler, then classes;
     * encoder: a pooler that is not used */
    qkv_linear_layer contiguous;
    qkv_param *head_norm_weight, *head_norm_bias;
    qkv_linear_layer head;
} bert;

static bool is_classifier(const qkv_model *m) { return m->type == qkv_bert_classifier_type(); }
static bool is_encoder(const qkv_model *m) { return m->type == qkv_bert_encoder_type(); }

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status bert_complete_config(bert *m)
{
    qkv_bert_config *c = m->c;
    if (c->width % c->heads)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "bert: the heads (%zu) must divide the "
                        "width (%zu)", c->heads, c->width);
    if (!c->ff_width)
        c->ff_width = 4 * c->width;
    c->init_range = qkv__init_range(c->init_range, 1, c->width);
    return QKV_OK;
}

static qkv_block_config bert_block_config(const qkv_bert_config *c)
{
    qkv_block_config b = qkv_block_defaults();
    b.width = c->width;
    b.heads = c->heads;
    b.ff_width = c->ff_width;
    b.norm_eps = c->norm_eps;
    b.post_norm = true;
    b.act = c->act;
    b.dropout = c->dropout;
    b.attention_dropout = c->attention_dropout;
    return b;
}

/* What follows the stack. */
static void make_head(bert *m)
{
    const qkv_bert_config *c = m->c;
    qkv_params *ps = m->base->params;
    bool classifier = is_classifier(m->base);
    (void)qkv_linear_create(&m->contiguous, ps, "dense", c->width, c->width);
    if (is_encoder(m->base)) {
        for (int i = 0; i < 2; i++) {
            qkv_param *p = i ? m->contiguous.bias : m->contiguous.weight;
            if (p)
                qkv_param_freeze(p, true);
        }
        return;
    }
    if (!classifier) {
        m->head_norm_weight = qkv__vector(ps, "head.norm.weight", c->width);
        m->head_norm_bias = qkv__vector(ps, "head.norm.bias", c->width);
    }
    m->head.weight = classifier
                         ? qkv__param_linear(qkv__matrix(ps, "head.weight", c->classes, c->width))
                         : m->word_table;
    m->head.bias = qkv__vector(ps, "head.bias", classifier ? c->classes : c->vocab);
}

static qkv_status bert_make(qkv_model *base)
{
    bert *m = base->self;
    m->base = base;
    m->c = base->config;
    qkv_status status = bert_complete_config(m);
    if (status)
        return status;
    const qkv_bert_config *c = m->c;
    qkv_block_config config = bert_block_config(c);
    qkv_params *ps = base->params;
    m->word_table = qkv__param_table(qkv__matrix(ps, "words", c->vocab, c->width));
    m->position_table = qkv__matrix(ps, "positions", c->positions, c->width);
    m->segment_table = qkv__matrix(ps, "segments", c->segments, c->width);
    m->norm_weight = qkv__vector(ps, "norm.weight", c->width);
    m->norm_bias = qkv__vector(ps, "norm.bias", c->width);
    status = qkv__stack_make(&m->stack, ps, &config, c->layers,
                             &(qkv__stack_options){.block = "layer"});
    if (status)
        return status;
    make_head(m);
    return qkv__params_status(ps);
}

/* ---- rows --------------------------------------------------------------------------------- */

static void bert_visit_block(const bert *m, qkv__visit *v, const qkv_block_params *p)
{
    const qkv_bert_config *c = m->c;
    size_t d = c->width;
    double std = c->init_range;
    qkv__visit_linear(v, "attention.self.query", p->qkv_weight, p->qkv_bias, 0, d, d, std);
    qkv__visit_linear(v, "attention.self.key", p->qkv_weight, p->qkv_bias, d, d, d, std);
    qkv__visit_linear(v, "attention.self.value", p->qkv_weight, p->qkv_bias, 2 * d, d, d, std);
    qkv__visit_linear(v, "attention.output.dense", p->out_weight, p->out_bias, 0, d, d, std);
    qkv__visit_norm(v, "attention.output.LayerNorm", p->norm1_weight, p->norm1_bias, d);
    qkv__visit_linear(v, "intermediate.dense", p->up_weight, p->up_bias, 0, c->ff_width, d, std);
    qkv__visit_linear(v, "output.dense", p->down_weight, p->down_bias, 0, d, c->ff_width, std);
    qkv__visit_norm(v, "output.LayerNorm", p->norm2_weight, p->norm2_bias, d);
}

/* BertModel's names begin with the part, those of the types with a head with "bert.". */
static const char *name_prefix(const bert *m) { return is_encoder(m->base) ? "" : "bert."; }

static void visit_embeddings(const bert *m, qkv__visit *v)
{
    double std = m->c->init_range;
    snprintf(v->name, sizeof v->name, "%sembeddings.", name_prefix(m));
    qkv__visit_table(v, "word_embeddings.weight", m->word_table, false, std);
    qkv__visit_table(v, "position_embeddings.weight", m->position_table, false, std);
    qkv__visit_table(v, "token_type_embeddings.weight", m->segment_table, false, std);
    qkv__visit_norm(v, "LayerNorm", m->norm_weight, m->norm_bias, m->c->width);
    qkv__visit_kind(v, "position_ids", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
}

/* Files of BertForPreTraining hold both heads: what this one has no use for is passed over. */
static void visit_masked_head(const bert *m, qkv__visit *v)
{
    static const char *const ignored[] = {"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                          "cls.seq_relationship.weight",
                                          "cls.seq_relationship.bias", NULL};
    const qkv_bert_config *c = m->c;
    size_t d = c->width;
    v->name[0] = 0;
    qkv__visit_rows(v, "cls.predictions.bias", m->head.bias, 0, c->vocab, 0, false, QKV_INIT_ZEROS,
                    0);
    qkv__visit_linear_layer(v, "cls.predictions.transform.dense", &m->contiguous, c->init_range);
    qkv__visit_norm(v, "cls.predictions.transform.LayerNorm", m->head_norm_weight,
                    m->head_norm_bias, d);
    qkv__visit_table(v, "cls.predictions.decoder.weight", m->word_table, true, 0);
    qkv__visit_kind(v, "cls.predictions.decoder.bias", m->head.bias, QKV_STATE_TIED, QKV_INIT_NONE,
                    0);
    for (size_t i = 0; ignored[i]; i++)
        qkv__visit_kind(v, ignored[i], NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
}

static qkv_status bert_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    bert *m = base->self;
    const qkv_bert_config *c = m->c;
    qkv__visit v = {.fn = fn, .user = user};
    visit_embeddings(m, &v);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v.name, sizeof v.name, "%sencoder.layer.%zu.", name_prefix(m), i);
        bert_visit_block(m, &v, qkv_block_parameters(m->stack.blocks[i]));
    }
    v.name[0] = 0;
    if (is_encoder(base)) {
        qkv__visit_linear_layer(&v, "pooler.dense", &m->contiguous, c->init_range);
    } else if (is_classifier(base)) {
        qkv__visit_linear_layer(&v, "bert.pooler.dense", &m->contiguous, c->init_range);
        qkv__visit_linear_layer(&v, "classifier", &m->head, c->init_range);
    } else {
        visit_masked_head(m, &v);
    }
    return v.status;
}

/* ---- forward ------------------------------------------------------------------------------ */

static qkv_tensor *bert_embed(bert *m, qkv_tape *t, const qkv_bert_input *in)
{
    const qkv_bert_config *c = m->c;
    size_t shape[] = {qkv_dim(in->ids, 0), qkv_dim(in->ids, 1)};
    qkv_tensor *positions = qkv__positions(t, in->ids, 0, in->sequences, in->offsets);
    qkv_tensor *segments = in->segments;
    if (!segments) {
        int32_t *zeros = qkv__step_alloc(t, shape[0] * shape[1] * sizeof *zeros);
        for (size_t i = 0; zeros && i < shape[0] * shape[1]; i++)
            zeros[i] = 0;
        segments = zeros ? qkv_tensor_ids(t, zeros, 2, shape) : NULL;
    }
    qkv_tensor *x = qkv_embedding_padded(t, in->ids, qkv_use(t, m->word_table), 1.0, positions,
                                         qkv_use(t, m->position_table), c->pad);
    qkv_tensor *s = qkv_embedding(t, segments, qkv_use(t, m->segment_table), 1.0, NULL, NULL);
    qkv_tensor *y = qkv_residual_norm(t, QKV_NORM_LAYER, s, x, qkv_use(t, m->norm_weight),
                                      qkv_use(t, m->norm_bias), c->norm_eps, NULL);
    return c->dropout > 0 ? qkv_dropout(t, y, c->dropout, EMBEDDING_DROPOUT_ID) : y;
}

qkv_tensor *qkv_bert_hidden(qkv_model *base, qkv_tape *t, const qkv_bert_input *in)
{
    bert *m = qkv__model_as(base, t, __func__,
                            QKV_CAN_FILL_MASK | QKV_CAN_CLASSIFY_TEXT | QKV_CAN_EMBED_TEXT);
    if (!m || !in->ids || qkv_tape_status(t))
        return NULL;
    qkv_sequence seq = {.sequences = in->sequences, .offsets = in->offsets,
                        .lengths = in->lengths};
    return qkv__stack_forward(&m->stack, t, bert_embed(m, t, in), &seq, NULL);
}

/* Rows of hidden (B, T, width) -> (n, width). */
static qkv_tensor *bert_gather(qkv_tape *t, qkv_tensor *hidden, qkv_tensor *rows_)
{
    if (!hidden)
        return NULL;
    size_t shape[] = {qkv_dim(hidden, 0) * qkv_dim(hidden, 1), qkv_dim(hidden, 2)};
    return qkv_embedding(t, rows_, qkv_reshape(t, hidden, 2, shape), 1.0, NULL, NULL);
}

static qkv_tensor *word_features(bert *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *rows_)
{
    qkv_tensor *x = qkv_linear_forward(&m->contiguous, t, bert_gather(t, hidden, rows_), m->c->act);
    return qkv_norm(t, QKV_NORM_LAYER, x, qkv_use(t, m->head_norm_weight),
                    qkv_use(t, m->head_norm_bias), m->c->norm_eps);
}

qkv_tensor *qkv_bert_word_logits(qkv_model *base, qkv_tape *t, qkv_tensor *hidden,
                                 qkv_tensor *rows_)
{
    bert *m = qkv__model_as(base, t, __func__, QKV_CAN_FILL_MASK);
    return m ? qkv_linear_forward(&m->head, t, word_features(m, t, hidden, rows_), QKV_ACT_NONE)
             : NULL;
}

qkv_tensor *qkv_bert_word_loss(qkv_model *base, qkv_tape *t, qkv_tensor *hidden,
                               qkv_tensor *rows_, qkv_tensor *targets,
                               const qkv_cross_entropy_options *options)
{
    bert *m = qkv__model_as(base, t, __func__, QKV_CAN_FILL_MASK);
    return m ? qkv_classifier_loss(t, word_features(m, t, hidden, rows_),
                                   qkv_use(t, m->word_table), qkv_use(t, m->head.bias), targets,
                                   options)
             : NULL;
}

qkv_tensor *qkv_bert_class_logits(qkv_model *base, qkv_tape *t, qkv_tensor *hidden,
                                  qkv_tensor *rows_)
{
    bert *m = qkv__model_as(base, t, __func__, QKV_CAN_CLASSIFY_TEXT);
    if (!m)
        return NULL;
    const qkv_bert_config *c = m->c;
    double p = c->classifier_dropout < 0 ? c->dropout : c->classifier_dropout;
    qkv_tensor *x = qkv_linear_forward(&m->contiguous, t, bert_gather(t, hidden, rows_),
                                       QKV_ACT_TANH);
    if (p > 0)
        x = qkv_dropout(t, x, p, CLASSIFIER_DROPOUT_ID);
    return qkv_linear_forward(&m->head, t, x, QKV_ACT_NONE);
}

/* Attention with a query of zeros per text gives its tokens equal weights: their mean. */
static qkv_tensor *mean_tokens(const bert *m, qkv_tape *t, const qkv_bert_input *in,
                               qkv_tensor *hidden)
{
    size_t H = m->c->heads, D = m->c->width / H, B = qkv_dim(hidden, 0), T = qkv_dim(hidden, 1);
    size_t texts = in->sequences ? in->sequences : B;
    int32_t *places = qkv__step_alloc(t, (texts + 1) * sizeof *places);
    qkv_tensor *keys = qkv_reshape(t, hidden, 4, (size_t[]){B, T, H, D});
    qkv_tensor *queries =
        qkv_tensor_from(t, NULL, 4, (size_t[]){B, texts / B, H, D});
    qkv_real *query = qkv_tensor_fill(queries);
    if (!places || !query)
        return NULL;
    for (size_t i = 0; i < texts * m->c->width; i++)
        query[i] = 0;
    for (size_t i = 0; i <= texts; i++)
        places[i] = (int32_t)i;
    qkv_attention_options o = {.sequences = in->sequences, .k_lengths = in->lengths,
                               .probe = "pooling"};
    if (in->sequences) {
        o.q_offsets = places;
        o.k_offsets = in->offsets;
    }
    qkv_tensor *y = qkv_attention(t, queries, qkv_detach(t, keys), keys, &o);
    return qkv_reshape(t, y, 2, (size_t[]){texts, m->c->width});
}

/* The rows of hidden where texts begin. */
static qkv_tensor *first_tokens(qkv_tape *t, const qkv_bert_input *in, qkv_tensor *hidden)
{
    size_t texts = in->sequences ? in->sequences : qkv_dim(hidden, 0), T = qkv_dim(hidden, 1);
    int32_t *first = qkv__step_alloc(t, texts * sizeof *first);
    for (size_t i = 0; first && i < texts; i++)
        first[i] = in->sequences ? in->offsets[i] : (int32_t)(i * T);
    return first ? bert_gather(t, hidden, qkv_tensor_ids(t, first, 1, &texts)) : NULL;
}

qkv_tensor *qkv_bert_vectors(qkv_model *base, qkv_tape *t, const qkv_bert_input *in,
                             qkv_tensor *hidden)
{
    const bert *m = qkv__model_as(base, t, __func__, QKV_CAN_EMBED_TEXT);
    if (!m || !hidden || qkv_tape_status(t))
        return NULL;
    return m->c->pooling == QKV_POOL_FIRST ? first_tokens(t, in, hidden)
                                           : mean_tokens(m, t, in, hidden);
}

static double model_bert_flops(const qkv_model *base, const qkv_workload *w)
{
    const qkv_bert_config *c = base->config;
    double d = (double)c->width, L = (double)c->layers, rows_ = w->samples * w->length;
    double block = 4 * d * d + 2 * d * (double)c->ff_width;
    double head = d * d + d * (double)(is_classifier(base) ? c->classes : c->vocab);
    head = is_encoder(base) ? 0 : head;
    return qkv__flops(w->pass, L * block * rows_ + head * w->predictions,
                      4 * L * d * rows_ * w->length);
}

/* Without the head, which a file need not have. */
static double bert_parameter_count(const qkv_model_type *type, const void *config)
{
    (void)type;
    const qkv_bert_config *c = config;
    double d = (double)c->width, ff = c->ff_width ? (double)c->ff_width : 4 * d;
    double table_rows = (double)c->vocab + (double)c->positions + (double)c->segments;
    return d * (table_rows + (double)c->layers * (4 * d + 2 * ff));
}

#define BERT(architecture_, builtin_)                                                          \
    .name = "bert", .architecture = architecture_, .prefix = "bert.",                          \
    .config = &qkv__bert_config, .config_size = sizeof(qkv_bert_config),                       \
    .self_size = sizeof(bert), .parameter_count = bert_parameter_count, .make = bert_make,     \
    .visit = bert_visit, .flops = model_bert_flops, .preset = qkv__bert_preset, .builtin = builtin_

static const qkv_builtin_type masked = {.can = QKV_CAN_FILL_MASK, .reads_text = true};
static const qkv_builtin_type classifier = {.can = QKV_CAN_CLASSIFY_TEXT, .reads_text = true};

static const qkv_builtin_type encoder = {.can = QKV_CAN_EMBED_TEXT, .reads_text = true};

static const qkv_model_type bert_masked_type = {BERT("BertForMaskedLM", &masked)};
static const qkv_model_type bert_classifier_type = {
    BERT("BertForSequenceClassification", &classifier)};
static const qkv_model_type bert_encoder_type = {BERT("BertModel", &encoder)};

const qkv_model_type *qkv_bert_masked_type(void) { return &bert_masked_type; }
const qkv_model_type *qkv_bert_classifier_type(void) { return &bert_classifier_type; }
const qkv_model_type *qkv_bert_encoder_type(void) { return &bert_encoder_type; }
