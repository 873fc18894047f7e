/* bert.c - BERT, RoBERTa and DistilBERT: word, position and segment embeddings, a post-norm stack,
 * one of two heads or none. Families differ in the names of tensors and in what struct family
 * lists. */
#include "model/tables.h"
#include "qkv/bert.h"

#include <stdio.h>

#include "nn/stack.h"
#include "tensor/make.h"

static const uint32_t EMBEDDING_DROPOUT_ID = 0xE0000000u; /* dropout sites that no block has */
static const uint32_t CLASSIFIER_DROPOUT_ID = 0xE0000002u;
static const uint32_t POOLED_DROPOUT_ID = 0xE0000003u;

/* A family: names of tensors, under the prefix of the types with a head, and what it does apart. */
typedef struct {
    const char *prefix, *layer; /* a block's number follows */
    const char *query, *key, *value, *out, *out_norm, *up, *down, *down_norm; /* in a block */
    const char *word_dense, *word_norm, *word_bias, *decoder; /* head for words */
    const char *decoder_bias;                                 /* tied to word_bias; NULL: none */
    const char *class_dense, *class_out;                      /* head for classes */
    const char *pooler;     /* of the type without a head; NULL: none */
    const char *const *ignored; /* tensors of other heads, which files may hold; ends with NULL */
    qkv_activation class_act;
    bool exact_word_act;    /* the head for words has GELU, whatever the blocks have */
    bool segments;
    bool after_pad;         /* the first position is the row after the padding token's */
    bool pooled_dropout;    /* before class_dense too */
    double norm_eps;        /* 0: the configuration's */
} family;

typedef enum { HEAD_WORDS, HEAD_CLASSES, HEAD_NONE } bert_head;

/* What a type is, beside what all models have. */
typedef struct {
    qkv_builtin_type builtin;
    const family *family;
    bert_head head;
} kind;

typedef struct {
    qkv_model *base;
    qkv_bert_config *c; /* base->config */
    const family *family;
    bert_head is;
    qkv__stack stack;
    qkv_param *word_table, *position_table, *segment_table;
    qkv_param *norm_weight, *norm_bias;
    /* words: dense, norm, then the word table and a bias; classes: dense, then classes; none: a
     * pooler that is not used */
    qkv_linear_layer dense;
    qkv_param *head_norm_weight, *head_norm_bias;
    qkv_linear_layer head;
} bert;

static const kind *kind_of(const qkv_model_type *type)
{
    return (const kind *)(const void *)type->builtin; /* its first member */
}

/* ---- making ------------------------------------------------------------------------------- */

static qkv_status bert_complete_config(bert *m)
{
    qkv_bert_config *c = m->c;
    if (c->width % c->heads)
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "bert: the heads (%zu) must divide the "
                        "width (%zu)", c->heads, c->width);
    if (!c->ff_width)
        c->ff_width = 4 * c->width;
    if (m->family->norm_eps > 0)
        c->norm_eps = m->family->norm_eps;
    if (m->family->after_pad && (c->pad < 0 || (size_t)c->pad + 1 >= c->positions))
        return qkv_fail(m->base->ctx, QKV_E_ARGUMENT, "%s: positions follow the padding token's "
                        "id: 0 to %zu expected, found %d", m->base->type->name, c->positions - 2,
                        c->pad);
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

/* BertModel's pooler is there for other libraries. */
static void make_pooler(bert *m)
{
    const size_t d = m->c->width;
    if (!m->family->pooler || !qkv_linear_create(&m->dense, m->base->params, "dense", d, d))
        return;
    qkv_param_freeze(m->dense.weight, true);
    qkv_param_freeze(m->dense.bias, true);
}

/* What follows the stack. */
static void make_head(bert *m)
{
    const qkv_bert_config *c = m->c;
    qkv_params *ps = m->base->params;
    bool classifier = m->is == HEAD_CLASSES;
    if (m->is == HEAD_NONE) {
        make_pooler(m);
        return;
    }
    (void)qkv_linear_create(&m->dense, ps, "dense", c->width, c->width);
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
    m->family = kind_of(base->type)->family;
    m->is = kind_of(base->type)->head;
    qkv_status status = bert_complete_config(m);
    if (status)
        return status;
    const qkv_bert_config *c = m->c;
    qkv_block_config config = bert_block_config(c);
    qkv_params *ps = base->params;
    m->word_table = qkv__param_table(qkv__matrix(ps, "words", c->vocab, c->width));
    m->position_table = qkv__matrix(ps, "positions", c->positions, c->width);
    if (m->family->segments)
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
    const family *f = m->family;
    size_t d = c->width;
    double std = c->init_range;
    qkv__visit_linear(v, f->query, p->qkv_weight, p->qkv_bias, 0, d, d, std);
    qkv__visit_linear(v, f->key, p->qkv_weight, p->qkv_bias, d, d, d, std);
    qkv__visit_linear(v, f->value, p->qkv_weight, p->qkv_bias, 2 * d, d, d, std);
    qkv__visit_linear(v, f->out, p->out_weight, p->out_bias, 0, d, d, std);
    qkv__visit_norm(v, f->out_norm, p->norm1_weight, p->norm1_bias, d);
    qkv__visit_linear(v, f->up, p->up_weight, p->up_bias, 0, c->ff_width, d, std);
    qkv__visit_linear(v, f->down, p->down_weight, p->down_bias, 0, d, c->ff_width, std);
    qkv__visit_norm(v, f->down_norm, p->norm2_weight, p->norm2_bias, d);
}

/* Names of the type without a head begin with the part, those of the others with the prefix. */
static const char *name_prefix(const bert *m)
{
    return m->is == HEAD_NONE ? "" : m->family->prefix;
}

static void visit_embeddings(const bert *m, qkv__visit *v)
{
    double std = m->c->init_range;
    snprintf(v->name, sizeof v->name, "%sembeddings.", name_prefix(m));
    qkv__visit_table(v, "word_embeddings.weight", m->word_table, false, std);
    qkv__visit_table(v, "position_embeddings.weight", m->position_table, false, std);
    if (m->segment_table)
        qkv__visit_table(v, "token_type_embeddings.weight", m->segment_table, false, std);
    qkv__visit_norm(v, "LayerNorm", m->norm_weight, m->norm_bias, m->c->width);
    qkv__visit_kind(v, "position_ids", NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
}

static void visit_word_head(const bert *m, qkv__visit *v)
{
    const qkv_bert_config *c = m->c;
    const family *f = m->family;
    qkv__visit_rows(v, f->word_bias, m->head.bias, 0, c->vocab, 0, false, QKV_INIT_ZEROS, 0);
    qkv__visit_linear_layer(v, f->word_dense, &m->dense, c->init_range);
    qkv__visit_norm(v, f->word_norm, m->head_norm_weight, m->head_norm_bias, c->width);
    qkv__visit_table(v, f->decoder, m->word_table, true, 0);
    if (f->decoder_bias)
        qkv__visit_kind(v, f->decoder_bias, m->head.bias, QKV_STATE_TIED, QKV_INIT_NONE, 0);
}

static qkv_status bert_visit(qkv_model *base, qkv_state_entry_fn *fn, void *user)
{
    bert *m = base->self;
    const qkv_bert_config *c = m->c;
    const family *f = m->family;
    qkv__visit v = {.fn = fn, .user = user};
    visit_embeddings(m, &v);
    for (size_t i = 0; i < c->layers; i++) {
        snprintf(v.name, sizeof v.name, "%s%s%zu.", name_prefix(m), f->layer, i);
        bert_visit_block(m, &v, qkv_block_parameters(m->stack.blocks[i]));
    }
    v.name[0] = 0;
    if (m->is == HEAD_WORDS)
        visit_word_head(m, &v);
    if (m->is == HEAD_CLASSES) {
        qkv__visit_linear_layer(&v, f->class_dense, &m->dense, c->init_range);
        qkv__visit_linear_layer(&v, f->class_out, &m->head, c->init_range);
    }
    v.optional = m->is == HEAD_NONE && f->pooler;
    if (v.optional)
        qkv__visit_linear_layer(&v, f->pooler, &m->dense, c->init_range);
    v.optional = false;
    for (size_t i = 0; m->is == HEAD_WORDS && f->ignored[i]; i++)
        qkv__visit_kind(&v, f->ignored[i], NULL, QKV_STATE_IGNORED, QKV_INIT_NONE, 0);
    return v.status;
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Rows of the tables that come before the first position's. */
static size_t bert_first_row(const qkv_bert_config *c, const family *f)
{
    return f->after_pad ? (size_t)c->pad + 1 : 0;
}

size_t qkv_bert_longest(const qkv_model *base)
{
    const bert *m = qkv__model_as(base, NULL, __func__,
                                  QKV_CAN_FILL_MASK | QKV_CAN_CLASSIFY_TEXT | QKV_CAN_EMBED_TEXT);
    return m ? m->c->positions - bert_first_row(m->c, m->family) : 0;
}

static qkv_tensor *no_segments(qkv_tape *t, const qkv_tensor *ids)
{
    size_t shape[] = {qkv_dim(ids, 0), qkv_dim(ids, 1)}, n = shape[0] * shape[1];
    int32_t *zeros = qkv__step_alloc(t, n * sizeof *zeros);
    for (size_t i = 0; zeros && i < n; i++)
        zeros[i] = 0;
    return zeros ? qkv_tensor_ids(t, zeros, 2, shape) : NULL;
}

static qkv_tensor *bert_embed(bert *m, qkv_tape *t, const qkv_bert_input *in)
{
    const qkv_bert_config *c = m->c;
    qkv_tensor *weight = qkv_use(t, m->norm_weight), *bias = qkv_use(t, m->norm_bias);
    qkv_tensor *positions = qkv__positions(t, in->ids, bert_first_row(c, m->family), in->sequences,
                                           in->offsets);
    qkv_tensor *x = qkv_embedding_padded(t, in->ids, qkv_use(t, m->word_table), 1.0, positions,
                                         qkv_use(t, m->position_table), c->pad);
    qkv_tensor *y;
    if (m->segment_table) {
        qkv_tensor *s = in->segments ? in->segments : no_segments(t, in->ids);
        s = qkv_embedding(t, s, qkv_use(t, m->segment_table), 1.0, NULL, NULL);
        y = qkv_residual_norm(t, QKV_NORM_LAYER, s, x, weight, bias, c->norm_eps, NULL);
    } else {
        y = qkv_norm(t, QKV_NORM_LAYER, x, weight, bias, c->norm_eps);
    }
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
    qkv_tensor *x = qkv_linear_forward(&m->dense, t, bert_gather(t, hidden, rows_),
                                       m->family->exact_word_act ? QKV_ACT_GELU : m->c->act);
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
    qkv_tensor *x = bert_gather(t, hidden, rows_);
    if (p > 0 && m->family->pooled_dropout)
        x = qkv_dropout(t, x, p, POOLED_DROPOUT_ID);
    x = qkv_linear_forward(&m->dense, t, x, m->family->class_act);
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
    bert_head is = kind_of(base->type)->head;
    double head = d * d + d * (double)(is == HEAD_CLASSES ? c->classes : c->vocab);
    head = is == HEAD_NONE ? 0 : head;
    return qkv__flops(w->pass, L * block * rows_ + head * w->predictions,
                      4 * L * d * rows_ * w->length);
}

/* Without the head, which a file need not have. */
static double bert_parameter_count(const qkv_model_type *type, const void *config)
{
    const qkv_bert_config *c = config;
    double segments = kind_of(type)->family->segments ? (double)c->segments : 0;
    double d = (double)c->width, ff = c->ff_width ? (double)c->ff_width : 4 * d;
    double table_rows = (double)c->vocab + (double)c->positions + segments;
    return d * (table_rows + (double)c->layers * (4 * d + 2 * ff));
}

/* ---- families ----------------------------------------------------------------------------- */

/* Files of BertForPreTraining hold both heads: what a type has no use for is passed over. */
static const char *const bert_ignored[] = {"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                           "cls.seq_relationship.weight",
                                           "cls.seq_relationship.bias", NULL};
static const char *const roberta_ignored[] = {"roberta.pooler.dense.weight",
                                              "roberta.pooler.dense.bias", NULL};
static const char *const none_ignored[] = {NULL};

/* Names that RoBERTa took over from BERT. */
#define BERT_BLOCK                                                                             \
    .layer = "encoder.layer.", .query = "attention.self.query", .key = "attention.self.key",   \
    .value = "attention.self.value", .out = "attention.output.dense",                          \
    .out_norm = "attention.output.LayerNorm", .up = "intermediate.dense",                      \
    .down = "output.dense", .down_norm = "output.LayerNorm", .pooler = "pooler.dense",         \
    .class_act = QKV_ACT_TANH, .segments = true

static const family bert_family = {
    BERT_BLOCK, .prefix = "bert.", .word_dense = "cls.predictions.transform.dense",
    .word_norm = "cls.predictions.transform.LayerNorm", .word_bias = "cls.predictions.bias",
    .decoder = "cls.predictions.decoder.weight", .decoder_bias = "cls.predictions.decoder.bias",
    .class_dense = "bert.pooler.dense", .class_out = "classifier", .ignored = bert_ignored};
/* Liu et al. 2019. */
static const family roberta_family = {
    BERT_BLOCK, .prefix = "roberta.", .word_dense = "lm_head.dense",
    .word_norm = "lm_head.layer_norm", .word_bias = "lm_head.bias",
    .decoder = "lm_head.decoder.weight", .decoder_bias = "lm_head.decoder.bias",
    .class_dense = "classifier.dense", .class_out = "classifier.out_proj",
    .ignored = roberta_ignored, .exact_word_act = true, .after_pad = true, .pooled_dropout = true};
/* Sanh et al. 2019. */
static const family distilbert_family = {
    .prefix = "distilbert.", .layer = "transformer.layer.", .query = "attention.q_lin",
    .key = "attention.k_lin", .value = "attention.v_lin", .out = "attention.out_lin",
    .out_norm = "sa_layer_norm", .up = "ffn.lin1", .down = "ffn.lin2",
    .down_norm = "output_layer_norm", .word_dense = "vocab_transform",
    .word_norm = "vocab_layer_norm", .word_bias = "vocab_projector.bias",
    .decoder = "vocab_projector.weight", .class_dense = "pre_classifier",
    .class_out = "classifier", .class_act = QKV_ACT_RELU, .ignored = none_ignored,
    .norm_eps = 1e-12};

/* The three types of a family. */
#define FAMILY(name_, own_prefix, table, masked_, classifier_, encoder_)                       \
    static const kind name_##_masked = {                                                       \
        {.can = QKV_CAN_FILL_MASK, .reads_text = true}, &name_##_family, HEAD_WORDS};          \
    static const kind name_##_classifier = {                                                   \
        {.can = QKV_CAN_CLASSIFY_TEXT, .reads_text = true}, &name_##_family, HEAD_CLASSES};    \
    static const kind name_##_encoder = {                                                      \
        {.can = QKV_CAN_EMBED_TEXT, .reads_text = true}, &name_##_family, HEAD_NONE};          \
    static const qkv_model_type name_##_masked_type = {                                        \
        BERT(#name_, own_prefix, table, masked_, name_##_masked)};                             \
    static const qkv_model_type name_##_classifier_type = {                                    \
        BERT(#name_, own_prefix, table, classifier_, name_##_classifier)};                     \
    static const qkv_model_type name_##_encoder_type = {                                       \
        BERT(#name_, own_prefix, table, encoder_, name_##_encoder)};

#define BERT(name_, own_prefix, table, architecture_, kind_)                                   \
    .name = name_, .architecture = architecture_, .prefix = own_prefix, .config = table,       \
    .config_size = sizeof(qkv_bert_config), .self_size = sizeof(bert),                         \
    .parameter_count = bert_parameter_count, .make = bert_make, .visit = bert_visit,           \
    .flops = model_bert_flops, .preset = qkv__bert_preset, .builtin = &kind_.builtin

FAMILY(bert, "bert.", &qkv__bert_config, "BertForMaskedLM", "BertForSequenceClassification",
       "BertModel")
FAMILY(roberta, "roberta.", &qkv__roberta_config, "RobertaForMaskedLM",
       "RobertaForSequenceClassification", "RobertaModel")
FAMILY(distilbert, "distilbert.", &qkv__distilbert_config, "DistilBertForMaskedLM",
       "DistilBertForSequenceClassification", "DistilBertModel")

const qkv_model_type *qkv_bert_masked_type(void) { return &bert_masked_type; }
const qkv_model_type *qkv_bert_classifier_type(void) { return &bert_classifier_type; }
const qkv_model_type *qkv_bert_encoder_type(void) { return &bert_encoder_type; }
const qkv_model_type *qkv_roberta_masked_type(void) { return &roberta_masked_type; }
const qkv_model_type *qkv_roberta_classifier_type(void) { return &roberta_classifier_type; }
const qkv_model_type *qkv_roberta_encoder_type(void) { return &roberta_encoder_type; }
const qkv_model_type *qkv_distilbert_masked_type(void) { return &distilbert_masked_type; }
const qkv_model_type *qkv_distilbert_classifier_type(void)
{
    return &distilbert_classifier_type;
}
const qkv_model_type *qkv_distilbert_encoder_type(void) { return &distilbert_encoder_type; }

const qkv_model_type *qkv_bert_with_head(const qkv_model *of, const qkv_model_type *head)
{
    if (!qkv__model_as(of, NULL, __func__,
                       QKV_CAN_FILL_MASK | QKV_CAN_CLASSIFY_TEXT | QKV_CAN_EMBED_TEXT))
        return NULL;
    const qkv_model_type *type;
    for (size_t i = 0; (type = qkv_model_type_at(NULL, i)); i++)
        if (type->make == bert_make && kind_of(type)->head == kind_of(head)->head &&
            kind_of(type)->family == kind_of(of->type)->family)
            return type;
    return NULL;
}
