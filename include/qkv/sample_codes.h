/* sample_codes.h - grids of codes out of a prior, one code after another (Esser et al. 2021).
 * Layer: infer */
#ifndef QKV_SAMPLE_CODES_H
#define QKV_SAMPLE_CODES_H

#include <qkv/infer.h>

QKV_BEGIN_DECLS

/* Called before a place's codes are drawn, with what they are drawn from: (count, vocabulary),
 * each row summing to 1. false stops. */
typedef bool qkv_sample_codes_fn(void *user, size_t row, size_t column,
                                 const qkv_real *probabilities);

/* Zeroed: start tokens, the trained size, every code. */
typedef struct {
    size_t count;              /* grids made side by side; 0: one */
    size_t rows, columns;      /* of a grid; 0: as trained. Rows may be fewer; of what is larger,
                                  each code sees a window of the trained size about it */
    const int32_t *conditions; /* (count, tokens before a grid); NULL: start tokens (0). Where they
                                  are a grid like the codes', and that is larger than trained:
                                  (count, rows, columns) */
    const int32_t *given;      /* (rows, columns), codes that every grid has there; -1: to be
                                  drawn. NULL: none is given */
    size_t codes;              /* only those below are drawn; 0: the whole vocabulary */
    uint64_t seed;
    uint64_t first;            /* number of the first grid: seed and number give the grid */
    qkv_sampling sampling;
} qkv_sample_codes_options;

/* Draws grids, row by row, into codes (count, rows, columns). m: a qkv_prior. QKV_E_ARGUMENT: a
 * model of another type, sizes or tokens that do not fit it; QKV_E_NUMERIC: a logit is not a
 * number, or nothing can be drawn; QKV_E_CANCELLED when fn said so. fn may be NULL. */
qkv_status qkv_sample_codes(qkv_model *m, const qkv_sample_codes_options *options,
                            qkv_sample_codes_fn *fn, void *user, int32_t *codes);

QKV_END_DECLS
#endif
