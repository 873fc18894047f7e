/* lesson.h - the lesson's matrices, and what its parts share. */
#ifndef QKV_SRC_EXPLAIN_LESSON_H
#define QKV_SRC_EXPLAIN_LESSON_H

#include "base/base.h"
#include "qkv/explain.h"
#include "qkv/page.h"
#include "qkv/tensor.h"

extern const char qkv__file_lesson_css[];
extern const char qkv__file_lesson_js[];

/* The steps in their order; each is a section of the page. */
typedef enum {
    QKV__STEP_INPUT,
    QKV__STEP_PROJECT,
    QKV__STEP_SCORES,
    QKV__STEP_SCALE,
    QKV__STEP_MASK,
    QKV__STEP_SOFTMAX,
    QKV__STEP_HEADS,
    QKV__STEP_OUTPUT,
    QKV__STEPS
} qkv__lesson_step;

enum {
    QKV__LESSON_HEADS = 8,
    QKV__LESSON_MATRICES = 24 + 8 * QKV__LESSON_HEADS,
    QKV__LESSON_KEY = 40,
    QKV__LESSON_TITLE = 64
};

typedef struct {
    char key[QKV__LESSON_KEY];     /* "scores_1" */
    char title[QKV__LESSON_TITLE]; /* its formula */
    qkv__lesson_step step;
    qkv_tensor *x; /* (rows, columns) */
    bool by_words, words_across; /* rows, columns are words */
    bool weights;                /* cells are coloured from 0 to 1 */
} qkv__lesson_matrix;

typedef struct {
    qkv_context *ctx;
    qkv_tape *t;
    qkv_explain_options o; /* with nothing left to default but matrices */
    qkv__lesson_matrix matrices[QKV__LESSON_MATRICES];
    size_t count;
    double difference; /* largest between the steps' outputs and the fused op's */
} qkv__lesson;

/* Computes all steps on a tape of its own. On failure nothing is left. */
qkv_status qkv__lesson_create(qkv__lesson *l, qkv_context *ctx, const qkv_explain_options *options);
void qkv__lesson_destroy(qkv__lesson *l); /* *l may be zeroed */

/* The matrix of a key; NULL: there is none. */
const qkv__lesson_matrix *qkv__lesson_find(const qkv__lesson *l, const char *key);

/* Sections of the page. */
void qkv__lesson_sinusoids(qkv_page *p, qkv_context *ctx);
void qkv__lesson_errata(qkv_page *p, qkv_context *ctx);

#endif
