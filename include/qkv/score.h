/* score.h - how good an answer is: BLEU and chrF of translations, accuracy and F1 of classes,
 * structural similarity of images, the Frechet distance of features.
 * Layer: metrics
 *
 * BLEU and chrF take pairs of lines one by one and can be asked for the score at any time:
 *
 *     qkv_bleu *bleu;
 *     qkv_bleu_score score;
 *     if (!qkv_bleu_create(&bleu, ctx, NULL) &&
 *         !qkv_bleu_add(bleu, hypothesis, strlen(hypothesis), reference, strlen(reference)))
 *         qkv_bleu_result(bleu, &score);
 *     qkv_bleu_destroy(bleu);
 *
 * Both equal sacrebleu's figures; docs/score.md has the formulas. Text is UTF-8, and a line may
 * end in its newline. A failing add leaves the score as it was. */
#ifndef QKV_SCORE_H
#define QKV_SCORE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* ---- BLEU (Papineni et al. 2002): words, one reference ------------------------------------- */

enum { QKV_BLEU_ORDERS = 4 }; /* n-grams of 1 to 4 words */

/* Zeroed: sacrebleu's defaults. */
typedef struct {
    bool tokenized; /* words are what blanks separate, nothing is smoothed: multi-bleu's figure;
                       false: mteval's 13a tokens, exponential smoothing        */
    bool lowercase; /* of both sides, as Python's str.lower()                   */
} qkv_bleu_options;

typedef struct {
    double bleu;                        /* 0 to 100 */
    double precisions[QKV_BLEU_ORDERS]; /* percent, smoothed; all 0 when no word is right */
    double brevity;                     /* penalty in [0, 1]: exp(1 - ref / hyp), 1 if longer */
    double ratio;                       /* hyp_words / ref_words; 0 without a reference */
    size_t correct[QKV_BLEU_ORDERS];    /* n-grams of the hypothesis that the reference has */
    size_t total[QKV_BLEU_ORDERS];      /* n-grams of the hypothesis */
    size_t hyp_words, ref_words;
} qkv_bleu_score;

typedef struct qkv_bleu qkv_bleu;

/* options may be NULL: the defaults. On failure *out is NULL. */
qkv_status qkv_bleu_create(qkv_bleu **out, qkv_context *ctx, const qkv_bleu_options *options);
qkv_status qkv_bleu_add(qkv_bleu *b, const char *hyp, size_t hyp_len, const char *ref,
                        size_t ref_len);
/* Every line of two texts; a different number of them is an error that names both. */
qkv_status qkv_bleu_add_texts(qkv_bleu *b, const qkv_text_span *hyp, const qkv_text_span *ref);
void qkv_bleu_result(const qkv_bleu *b, qkv_bleu_score *out);
void qkv_bleu_destroy(qkv_bleu *b); /* NULL is allowed */

/* ---- chrF2 (Popovic 2015): characters without blanks, one reference ------------------------- */

enum { QKV_CHRF_ORDERS = 6 }; /* n-grams of 1 to 6 characters; recall counts beta = 2 times */

typedef struct {
    double chrf;              /* 0 to 100 */
    double precision, recall; /* percent: means over the orders that occur on both sides */
    size_t matches[QKV_CHRF_ORDERS]; /* n-grams that both have */
    size_t hyp[QKV_CHRF_ORDERS];     /* n-grams of hypotheses whose reference has some */
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

/* predicted, labels: (N). All results are in [0, 1], and 0 where nothing was to be found. */

/* The share of equal entries. */
double qkv_accuracy(const int32_t *predicted, const int32_t *labels, size_t N);

/* F1 of one class, 2 TP / (2 TP + FP + FN): with two classes the one that is looked for. */
double qkv_f1(const int32_t *predicted, const int32_t *labels, size_t N, int32_t positive);

/* The plain mean of the F1 of the classes 0 .. classes-1 that occur, predicted or true: each
 * counts alike, however rare. */
double qkv_f1_macro(const int32_t *predicted, const int32_t *labels, size_t N, size_t classes);

/* ---- images ------------------------------------------------------------------------------- */

/* Peak signal-to-noise ratio, 10 log10(255^2 values / squares) dB, of so many values from 0 to 255
 * whose errors' squares add up to so much; what is exactly right counts as 1e-9 would. */
double qkv_psnr(double squares, double values);

/* Structural similarity (Wang et al. 2004) of two images (height, width, channels): the mean over
 * all 11 x 11 windows with Gaussian weights (standard deviation 1.5) and over the channels, 1 when
 * they are equal. NaN for images that no window fits into. */
double qkv_ssim(const uint8_t *a, const uint8_t *b, size_t height, size_t width, size_t channels);

/* ---- what a network makes of images ------------------------------------------------------- */

/* The Frechet distance of two sets of rows, which are taken for Gaussians with their means m and
 * covariances S (divided by one less than the rows there are):
 *     |m0 - m1|^2 + tr(S0 + S1 - 2 (S0 S1)^(1/2))
 * 0 for equal sets; which is first does not matter; few rows make it larger. Of the features that
 * Inception-v3 has of images it is FID (Heusel et al. 2017), of another network's it is not. */
typedef struct qkv_frechet qkv_frechet;

/* width: numbers in a row, at most 4096. On failure *out is NULL. */
qkv_status qkv_frechet_create(qkv_frechet **out, qkv_context *ctx, size_t width);
/* rows: (n, width) more of the first set or of the second. */
void qkv_frechet_add(qkv_frechet *f, bool second, const qkv_real *rows, size_t n);
/* Of all rows so far. QKV_E_ARGUMENT: fewer than 2 in a set; QKV_E_NUMERIC: not all are finite. */
qkv_status qkv_frechet_distance(const qkv_frechet *f, double *out);
void qkv_frechet_destroy(qkv_frechet *f); /* NULL is allowed */

QKV_END_DECLS
#endif
