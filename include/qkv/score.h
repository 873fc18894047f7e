/* score.h - metrics: BLEU and chrF of translations, accuracy and F1 of classes, PSNR and SSIM of
 * images, the Frechet distance of features.
 * Layer: metrics
 *
 * Add pairs of lines one by one to BLEU and chrF; the score is available at any time:
 *
 *     qkv_bleu *bleu;
 *     qkv_bleu_score score;
 *     if (!qkv_bleu_create(&bleu, ctx, NULL) &&
 *         !qkv_bleu_add(bleu, hypothesis, strlen(hypothesis), reference, strlen(reference)))
 *         qkv_bleu_result(bleu, &score);
 *     qkv_bleu_destroy(bleu);
 *
 * Both equal sacrebleu's scores; docs/score.md has the formulas. Text is UTF-8. A line may end in a
 * newline. A failed add leaves the score unchanged. */
#ifndef QKV_SCORE_H
#define QKV_SCORE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* ---- BLEU (Papineni et al. 2002), with one reference --------------------------------------- */

enum { QKV_BLEU_ORDERS = 4 }; /* n-grams of 1 to 4 words */

/* Zeroed: sacrebleu's defaults. */
typedef struct {
    bool tokenized; /* true: words are separated by blanks, no smoothing, as in multi-bleu;
                       false: mteval's 13a tokens, exponential smoothing        */
    bool lowercase; /* lowercase both sides, as Python's str.lower()            */
} qkv_bleu_options;

typedef struct {
    double bleu;                        /* 0 to 100 */
    double precisions[QKV_BLEU_ORDERS]; /* percent, smoothed; all 0 if no word matches */
    double brevity;                     /* penalty in [0, 1]: exp(1 - ref / hyp), 1 if longer */
    double ratio;                       /* hyp_words / ref_words; 0 without a reference */
    size_t correct[QKV_BLEU_ORDERS];    /* n-grams of the hypothesis found in the reference */
    size_t total[QKV_BLEU_ORDERS];      /* n-grams of the hypothesis */
    size_t hyp_words, ref_words;
} qkv_bleu_score;

typedef struct qkv_bleu qkv_bleu;

/* options may be NULL: the defaults. On failure *out is NULL. */
qkv_status qkv_bleu_create(qkv_bleu **out, qkv_context *ctx, const qkv_bleu_options *options);
qkv_status qkv_bleu_add(qkv_bleu *b, const char *hyp, size_t hyp_len, const char *ref,
                        size_t ref_len);
/* Adds every line of two texts. Different numbers of lines are an error that gives both. */
qkv_status qkv_bleu_add_texts(qkv_bleu *b, const qkv_text_span *hyp, const qkv_text_span *ref);
void qkv_bleu_result(const qkv_bleu *b, qkv_bleu_score *out);
void qkv_bleu_destroy(qkv_bleu *b); /* NULL is allowed */

/* ---- chrF2 (Popovic 2015): characters without blanks, with one reference -------------------- */

enum { QKV_CHRF_ORDERS = 6 }; /* n-grams of 1 to 6 characters; beta = 2 */

typedef struct {
    double chrf;              /* 0 to 100 */
    double precision, recall; /* percent: means over the orders that both sides have */
    size_t matches[QKV_CHRF_ORDERS]; /* n-grams in both */
    size_t hyp[QKV_CHRF_ORDERS];     /* n-grams of hypotheses whose reference has any */
    size_t ref[QKV_CHRF_ORDERS];     /* n-grams of references */
} qkv_chrf_score;

typedef struct qkv_chrf qkv_chrf;

qkv_status qkv_chrf_create(qkv_chrf **out, qkv_context *ctx, bool lowercase);
qkv_status qkv_chrf_add(qkv_chrf *c, const char *hyp, size_t hyp_len, const char *ref,
                        size_t ref_len);
qkv_status qkv_chrf_add_texts(qkv_chrf *c, const qkv_text_span *hyp, const qkv_text_span *ref);
void qkv_chrf_result(const qkv_chrf *c, qkv_chrf_score *out);
void qkv_chrf_destroy(qkv_chrf *c); /* NULL is allowed */

/* ---- classes -------------------------------------------------------------------------------- */

/* predicted, labels: (N). Results are in [0, 1]; 0 if the denominator is 0. */

/* Share of entries where predicted equals labels. */
double qkv_accuracy(const int32_t *predicted, const int32_t *labels, size_t N);

/* F1 of class `positive`: 2 TP / (2 TP + FP + FN). */
double qkv_f1(const int32_t *predicted, const int32_t *labels, size_t N, int32_t positive);

/* Macro F1: the unweighted mean of the F1 of those classes 0 .. classes-1 that occur in predicted
 * or labels. */
double qkv_f1_macro(const int32_t *predicted, const int32_t *labels, size_t N, size_t classes);

/* ---- images ------------------------------------------------------------------------------- */

/* Peak signal-to-noise ratio, 10 log10(255^2 values / squares) dB, of `values` values in [0, 255]
 * with this sum of squared errors. A sum of 0 counts as 1e-9. */
double qkv_psnr(double squares, double values);

/* Structural similarity (Wang et al. 2004) of two images (height, width, channels): the mean over
 * all 11 x 11 windows with Gaussian weights (standard deviation 1.5) and over channels; 1 if they
 * are equal. NaN for images smaller than a window. */
double qkv_ssim(const uint8_t *a, const uint8_t *b, size_t height, size_t width, size_t channels);

/* ---- Frechet distance of features --------------------------------------------------------- */

/* The Frechet distance of two sets of rows, modelled as Gaussians with means m and covariances S
 * (denominator: number of rows - 1):
 *     |m0 - m1|^2 + tr(S0 + S1 - 2 (S0 S1)^(1/2))
 * Symmetric; 0 for equal sets; biased upwards for few rows. With the features of Inception-v3 it is
 * FID (Heusel et al. 2017); with those of other networks it is not. */
typedef struct qkv_frechet qkv_frechet;

/* width: values per row, at most 4096. On failure *out is NULL. */
qkv_status qkv_frechet_create(qkv_frechet **out, qkv_context *ctx, size_t width);
/* Adds rows (n, width) to the first set, or to the second. */
void qkv_frechet_add(qkv_frechet *f, bool second, const qkv_real *rows, size_t n);
/* The distance of the rows so far. QKV_E_ARGUMENT: fewer than 2 rows in a set; QKV_E_NUMERIC: a
 * value is not finite. */
qkv_status qkv_frechet_distance(const qkv_frechet *f, double *out);
void qkv_frechet_destroy(qkv_frechet *f); /* NULL is allowed */

QKV_END_DECLS
#endif
