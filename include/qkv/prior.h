/* prior.h - priors, GPTs over image codes: the training task and its evaluation
 * (Esser et al. 2021).
 * Layer: task */
#ifndef QKV_PRIOR_H
#define QKV_PRIOR_H

#include <qkv/gpt.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* Code grids, read row by row, each after its condition: a start token (0), a class, or the codes
 * of another image. All arrays are the caller's. */
typedef struct {
    size_t count;
    size_t codes;              /* per grid */
    size_t columns;            /* of a grid; 0: one row */
    size_t before;             /* tokens of a condition, >= 1 */
    const int32_t *grids;      /* (count, codes) */
    const int32_t *conditions; /* (count, before); NULL: start tokens */
} qkv_code_grids;

/* A task that predicts each code from the codes before it. keep: share of the input codes that
 * training leaves; the others are replaced by random codes, with unchanged targets (the authors'
 * pkeep). train, valid (NULL: nothing is held out) and the model must outlive the task; the model
 * is a language model with at least before + codes - 1 positions. QKV_E_ARGUMENT if the grids do
 * not suit it. On failure out->self is NULL. Metrics: bits_per_code, bits_bigram, loss. */
qkv_status qkv_task_prior(qkv_task *out, qkv_model *model, const qkv_code_grids *train,
                          const qkv_code_grids *valid, double keep, uint64_t seed);

typedef struct {
    double loss;          /* mean -log p of a code, nats */
    double bits_per_code; /* the loss in bits */
    size_t codes;         /* number of codes scored */
} qkv_prior_score;

/* limit: approximate number of codes, in whole grids, evenly spaced (0: all). t is reset and used
 * without recording. */
qkv_status qkv_prior_evaluate(qkv_model *m, qkv_tape *t, const qkv_code_grids *grids, size_t limit,
                              qkv_prior_score *out);

/* Baseline: bits per held-out code of a bigram model of the left neighbour. Its probabilities are
 * the pair frequencies in train, interpolated with add-one single-code frequencies, which are used
 * alone in the first column. The interpolation weight is fitted on the last tenth of train with
 * counts from the rest. vocab: number of codes. */
qkv_status qkv_prior_bigram(qkv_context *ctx, const qkv_code_grids *train,
                            const qkv_code_grids *valid, size_t vocab, double *bits);

QKV_END_DECLS
#endif
