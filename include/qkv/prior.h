/* prior.h - a GPT over the codes of images: learning what grids of codes are like, evaluating it
 * (Esser et al. 2021).
 * Layer: task */
#ifndef QKV_PRIOR_H
#define QKV_PRIOR_H

#include <qkv/gpt.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* Grids of codes, row by row, each after what it hangs on: a start token (0), a class, the codes of
 * another image. All arrays are the caller's. */
typedef struct {
    size_t count;
    size_t codes;              /* of a grid */
    size_t columns;            /* of its rows; 0: it is one row */
    size_t before;             /* tokens before it, 1 or more */
    const int32_t *grids;      /* (count, codes) */
    const int32_t *conditions; /* (count, before); NULL: a start token each */
} qkv_code_grids;

/* Tell each code from what stands before it. keep: the share of the codes that training reads as
 * they are; others become any of the vocabulary, which is what is told then nonetheless (pkeep of
 * the authors). train, valid (NULL: nothing is held out) and the model, which predicts tokens and
 * has before + codes - 1 positions at least, must outlive the task. QKV_E_ARGUMENT: grids that do
 * not fit it. On failure out->self is NULL. Metrics: bits_per_code, bits_bigram, loss. */
qkv_status qkv_task_prior(qkv_task *out, qkv_model *model, const qkv_code_grids *train,
                          const qkv_code_grids *valid, double keep, uint64_t seed);

typedef struct {
    double loss;          /* mean -log p of a code, nats */
    double bits_per_code; /* the same in bits */
    size_t codes;         /* scored */
} qkv_prior_score;

/* limit: grids of about so many codes, evenly over all (0: all). t is reset and used without
 * recording. */
qkv_status qkv_prior_evaluate(qkv_model *m, qkv_tape *t, const qkv_code_grids *grids, size_t limit,
                              qkv_prior_score *out);

/* What a prior has to beat: bits per held-out code where a code is told from its left neighbour
 * alone, the shares of the pairs in train interpolated with those of the single codes (add-one),
 * which are all there is in the first column. The weight is the best for the last tenth of train,
 * counted without it. vocab: codes that there are. */
qkv_status qkv_prior_bigram(qkv_context *ctx, const qkv_code_grids *train,
                            const qkv_code_grids *valid, size_t vocab, double *bits);

QKV_END_DECLS
#endif
