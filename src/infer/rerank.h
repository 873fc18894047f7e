/* rerank.h - hypotheses rescored by a translator of the other direction. */
#ifndef QKV_SRC_INFER_RERANK_H
#define QKV_SRC_INFER_RERANK_H

#include "base/base.h"
#include "qkv/infer.h"
#include "qkv/task.h"

typedef struct {
    qkv_context *ctx;
    const qkv_reverse *reverse;
    qkv_tape *tape;
    qkv_ids ids;        /* of lines and hypotheses, each with its end */
    size_t *begins;     /* (capacity, 2): where the sides of a pair begin in ids */
    double *log_p;      /* (capacity) */
    qkv_id_pair *pairs; /* (capacity); ids are filled in once all are known */
    size_t count;
} qkv__reranker;

/* Checks the reverse model, and takes room for so many hypotheses. r: zeroed but for ctx and
 * reverse; free it after a failure too. */
qkv_status qkv__rerank_begin(qkv__reranker *r, size_t capacity);
/* Adds the hypotheses of a line to those that are rescored next. */
qkv_status qkv__rerank_add(qkv__reranker *r, const char *line, size_t len,
                           const qkv_translation *found, size_t count);
/* *log_p: log-probabilities of the lines given their hypotheses, in the order in which these were
 * added, each divided by the line's tokens. Valid until the next qkv__rerank_add. */
qkv_status qkv__rerank_log_p(qkv__reranker *r, const double **log_p);
void qkv__rerank_free(qkv__reranker *r);

/* Adds weight times log_p to each score, and sorts by the sums, the best first. */
void qkv__rerank_sort(qkv_translation *found, size_t count, const double *log_p, double weight);

#endif
