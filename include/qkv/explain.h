/* explain.h - attention worked through with numbers: the lesson as a page, and the wrong entries of
 * a printed copy of its example.
 * Layer: explain
 *
 *     qkv_explain_page(ctx, &(qkv_explain_options){.heads = 2, .causal = true}, "lesson.html"); */
#ifndef QKV_EXPLAIN_H
#define QKV_EXPLAIN_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

enum { QKV_EXPLAIN_ROWS = 12, QKV_EXPLAIN_WIDTH = 16 }; /* largest sizes of a lesson */

/* The lesson's first state; the page's reader changes it. Zeroed: six words of width 4, one head,
 * scaled, as in the worked example. */
typedef struct {
    const char *const *words; /* names of the rows; NULL: "The cat sat on the mat" */
    size_t rows;              /* of X; 0: 6; with words, as many as these        [1, 12]    6 */
    size_t width;             /* of X and of all weights, even                   [2, 16]    4 */
    size_t heads;             /* divides width                                   [1, 8]     1 */
    bool unscaled;            /* scores are not divided by sqrt(width of a head)        false */
    bool causal;              /* row i sees keys 0 .. i                                  false */
    bool biases;              /* b_Q, b_K, b_V and b_O are added                         false */
    bool positions;           /* sinusoid positions are added to X                       false */
    /* X (rows, width) and weights (width, width), y = x W, read during the call. NULL: numbers that
     * grow by a tenth to the right and downward, from 0.1 (X, W_Q), 0.5 (W_K), 0.9 (W_V);
     * W_O = I. */
    const qkv_real *x, *wq, *wk, *wv, *wo;
} qkv_explain_options;

/* Writes the lesson as one HTML file (page.h), atomically: every matrix and step with its numbers,
 * which follow the switches; sinusoids drawn and their properties measured; the errata. options may
 * be NULL. QKV_E_ARGUMENT for sizes out of range or heads that do not divide the width. */
qkv_status qkv_explain_page(qkv_context *ctx, const qkv_explain_options *options,
                            const char *path);

/* An entry that differs from its right value by more than half of the last digit of the right one
 * (0.005; for PE_1, printed to 4 decimals, 0.00005). */
typedef struct {
    const char *matrix; /* "Q", "K", "V", "scores", "output", "PE_1" */
    size_t row, column; /* from 1 */
    double printed, right;
    bool rounds; /* the right value, rounded to the printed decimals, is the printed one */
} qkv_erratum;

/* How many entries of a printed matrix are wrong. */
typedef struct {
    const char *matrix;
    const char *formula; /* what it was computed by */
    size_t wrong, entries;
} qkv_errata_count;

/* Compares a copy of the worked example that is in circulation, and its PE_1, with values that the
 * library computes. Free with qkv_errata_free. */
typedef struct {
    qkv_context *ctx;
    qkv_erratum *entries; /* wrong ones, matrix by matrix, row by row */
    size_t count;
    qkv_errata_count matrices[6];
    double largest_value, largest_output; /* printed: a weighted mean cannot exceed its values */
} qkv_errata;

/* On failure *out is empty. */
qkv_status qkv_explain_errata(qkv_errata *out, qkv_context *ctx);
void qkv_errata_free(qkv_errata *errata); /* *errata may be zeroed */

QKV_END_DECLS
#endif
