/* bag.h - labels of texts from the mean of their words' vectors, in whatever order they come:
 * fastText without n-grams (Joulin et al. 2016).
 * Layer: model */
#ifndef QKV_BAG_H
#define QKV_BAG_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "qkv_bag"; configuration: qkv_bag_config. */
const qkv_model_type *qkv_bag_type(void);

/* Ranges and defaults: qkv_model_type_config. */
typedef struct {
    size_t vocab, width, classes;
} qkv_bag_config;

/* Texts one after another, text i from ids[offsets[i]] to ids[offsets[i+1]-1]; none is empty ->
 * logits (texts, classes). Both arrays stay as they are until the step ends. NULL once anything on
 * the tape has failed. */
qkv_tensor *qkv_bag_logits(qkv_model *m, qkv_tape *t, const int32_t *ids, const int32_t *offsets,
                           size_t texts);

/* Learn the labels of records of 3 fields (qkv_corpus_add_labelled). train, valid (NULL: nothing is
 * held out) and the model must outlive the task. On failure out->self is NULL. */
struct qkv_task;
struct qkv_records;
qkv_status qkv_task_bag(struct qkv_task *out, qkv_model *model, const struct qkv_records *train,
                        const struct qkv_records *valid, uint64_t seed);

/* loss, mean -log p of the label, and accuracy on at most `limit` records, evenly (0: all). t is
 * reset and used without recording. */
typedef struct {
    double loss, accuracy;
    size_t texts;
} qkv_bag_score;
qkv_status qkv_bag_evaluate(qkv_model *m, qkv_tape *t, const struct qkv_records *records,
                            size_t limit, qkv_bag_score *out);

/* The likeliest class of a text, and the probabilities of all (classes of the configuration).
 * QKV_E_UNSUPPORTED for another kind of model, QKV_E_ARGUMENT for a text without tokens. */
struct qkv_pipeline;
qkv_status qkv_pipeline_bag(struct qkv_pipeline *p, const char *text, size_t len, size_t *best,
                            qkv_real *probabilities);

QKV_END_DECLS
#endif
