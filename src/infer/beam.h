/* beam.h - one sentence of a beam search: hypotheses that run and that are finished. No model is
 * seen here: each step it is given the likeliest next tokens of every hypothesis that runs. */
#ifndef QKV_SRC_INFER_BEAM_H
#define QKV_SRC_INFER_BEAM_H

#include "base/base.h"
#include "qkv/infer.h"

/* A token said after those of another node; all hypotheses of a batch are paths in one tree. */
typedef struct {
    int32_t token, parent; /* parent: a node, or -1 */
} qkv__node;

typedef struct {
    qkv_context *ctx;
    qkv__node *nodes;
    size_t count, capacity;
} qkv__tree;

typedef struct {
    qkv_real score; /* of one that runs: log p so far; of a finished one: the final score */
    qkv_real log_p;
    int32_t node, token;
    size_t from; /* of one that runs: the place that its parent had one step before */
} qkv__beam;

typedef struct {
    size_t running, finished; /* places taken */
    qkv__beam *run, *done;    /* (beams) each; done is sorted, the best first */
    size_t row;               /* of the batch: that of run[0] */
    size_t index;             /* of the sentence among those asked for */
    size_t most;              /* tokens that its answer may have: the step's, or fewer */
    bool over;                /* nothing better can be found */
} qkv__sentence;

/* What a step has to know. */
typedef struct {
    const qkv_generation *g;
    size_t k;                /* tokens given of each hypothesis */
    size_t length;           /* tokens that hypotheses have after this step */
    size_t most;             /* tokens that they may have */
    qkv__beam *candidates;   /* (k) room */
} qkv__beam_step;

/* Goes on with the likeliest of the tokens: log_p and ids (running, k), each row sorted, id -1 for
 * none. Only memory can fail. */
qkv_status qkv__beam_advance(qkv__sentence *x, qkv__tree *tree, const qkv__beam_step *step,
                             const qkv_real *log_p, const int32_t *ids);

size_t qkv__beam_search_beams(const qkv_beam_search *s); /* hypotheses of a sentence, at most */

/* *rank: who searches the next batch; every rank asks for every batch, in their order. A search has
 * the same bits whoever does it. */
qkv_status qkv__beam_search_deal(qkv_beam_search *s, size_t *rank);

#endif
