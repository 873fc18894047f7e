/* bag.c - a text's classes from the mean of its words' vectors, through one linear layer. */
#include "qkv/bag.h"

#include "model/model.h"
#include "tensor/make.h"

#define CONFIG qkv_bag_config
#include "model/config_rows.h"

static const qkv_option rows[] = {
    SIZE_ROW("vocab_size", vocab, 1, "30522", "tokens in the vocabulary"),
    SIZE_ROW("hidden_size", width, 1, "64", "width of a word's vector"),
    SIZE_ROW("num_labels", classes, 1, "2", "classes"),
};
static const qkv_option_table table = {"Bag of words", rows, sizeof rows / sizeof *rows,
                                       sizeof(CONFIG)};

typedef struct {
    qkv_param *words; /* (vocab, width) */
    qkv_linear_layer head;
} bag;

static qkv_status make(qkv_model *m)
{
    const qkv_bag_config *c = qkv_model_config(m);
    bag *b = qkv_model_self(m);
    b->words = qkv_param_create(m->params, "words.weight", 2, (size_t[]){c->vocab, c->width});
    (void)qkv_linear_create(&b->head, m->params, "head", c->width, c->classes);
    return QKV_OK; /* a parameter that was not made fails the model */
}

qkv_tensor *qkv_bag_logits(qkv_model *m, qkv_tape *t, const int32_t *ids, const int32_t *offsets,
                           size_t texts)
{
    bag *b = qkv__model_of(m, t, __func__, qkv_bag_type());
    if (!b || qkv_tape_status(t))
        return NULL;
    /* Row i of shares is 1 / length at the text's words: its product with their vectors is the
     * mean. */
    size_t n = (size_t)offsets[texts], shape[] = {texts, n};
    qkv_tensor *shares = qkv_tensor_from(t, NULL, 2, shape);
    qkv_real *share = shares ? qkv_tensor_fill(shares) : NULL;
    if (!share)
        return NULL;
    for (size_t i = 0; i < texts * n; i++)
        share[i] = 0;
    for (size_t i = 0; i < texts; i++)
        for (int32_t k = offsets[i]; k < offsets[i + 1]; k++)
            share[i * n + (size_t)k] = (qkv_real)(1.0 / (double)(offsets[i + 1] - offsets[i]));
    qkv_tensor *vectors = qkv_embedding(t, qkv_tensor_ids(t, ids, 1, &n), qkv_use(t, b->words), 1,
                                        NULL, NULL);
    return qkv_linear_forward(&b->head, t, qkv_matmul(t, shares, false, vectors, false),
                              QKV_ACT_NONE);
}

static double parameter_count(const qkv_model_type *type, const void *config)
{
    (void)type;
    const qkv_bag_config *c = config;
    return (double)c->width * ((double)c->vocab + (double)c->classes);
}

static double flops(const qkv_model *m, const qkv_workload *w)
{
    const qkv_bag_config *c = qkv_model_config(m);
    double of_text = (w->length + (double)c->classes) * (double)c->width;
    return qkv__flops(w->pass, w->samples * of_text, 0);
}

static const qkv_builtin_type builtin = {.reads_text = true};

static const qkv_model_type bag_type = {
    .name = "qkv_bag", .architecture = "QkvBagOfWords", .config = &table,
    .config_size = sizeof(qkv_bag_config), .self_size = sizeof(bag),
    .parameter_count = parameter_count, .make = make, .flops = flops, .builtin = &builtin};

const qkv_model_type *qkv_bag_type(void) { return &bag_type; }
