/* sample_codes.h - sampling of code grids from a prior (Esser et al. 2021).
 * Layer: infer */
#ifndef QKV_SAMPLE_CODES_H
#define QKV_SAMPLE_CODES_H

#include <qkv/infer.h>

QKV_BEGIN_DECLS

/* Called before the codes of a place are sampled, with two distributions for each grid (count,
 * vocabulary), each row summing to 1: those the codes are drawn from, and the model's own,
 * softmax(logits) over the codes, before any processor; NULL unless qkv_sample_codes_options asks
 * for it. Returns false to cancel. */
typedef bool qkv_sample_codes_fn(void *user, size_t row, size_t column,
                                 const qkv_real *probabilities, const qkv_real *model);

/* Zeroed: start tokens as conditions, the training size, all codes. */
typedef struct {
    size_t count;              /* grids sampled together; 0: one */
    size_t rows, columns;      /* of a grid; 0: as trained. rows may be fewer. In a larger grid each
                                  code sees a window of the training size around it */
    const int32_t *conditions; /* (count, tokens before a grid); NULL: start tokens (0). Conditions
                                  that are a code grid of the codes' size, larger than trained:
                                  (count, rows, columns) */
    const int32_t *given;      /* (rows, columns) codes fixed in every grid; -1: to be sampled.
                                  NULL: all are sampled */
    size_t codes;              /* sample only codes below this; 0: the whole vocabulary */
    uint64_t seed;
    uint64_t first;            /* number of the first grid; seed and number determine a grid */
    qkv_sampling sampling;
    bool model_distribution;   /* hand the model's own distributions to the callback */
} qkv_sample_codes_options;

/* Samples grids, row by row, into codes (count, rows, columns). m: a qkv_prior. QKV_E_ARGUMENT: a
 * model of another type, or sizes or tokens that do not suit it; QKV_E_NUMERIC: a logit is NaN, or
 * every code is excluded; QKV_E_CANCELLED: fn returned false. fn may be NULL. */
qkv_status qkv_sample_codes(qkv_model *m, const qkv_sample_codes_options *options,
                            qkv_sample_codes_fn *fn, void *user, int32_t *codes);

QKV_END_DECLS
#endif
