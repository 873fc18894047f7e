/* code_panels.h - looking at the codes of images: what the panels of VQGANs and priors share. */
#ifndef QKV_SRC_REPORT_CODE_PANELS_H
#define QKV_SRC_REPORT_CODE_PANELS_H

#include "report/looking.h"
#include "qkv/pixels.h"

/* A VQGAN and the codes of the image that is looked at. */
typedef struct {
    qkv__looking *l;
    qkv_context *ctx;
    qkv_tape *tape;
    qkv_model *vqgan;
    const qkv_vqgan_config *config;
    size_t factor;                /* pixels a side of a code */
    size_t rows, columns, places; /* of the grid */
    const int32_t *grid;          /* (rows, columns) */
} qkv__look_codes;

/* t: the VQGAN runs on it. grid must outlive the result. */
qkv__look_codes qkv__look_codes_of(qkv__looking *l, qkv_model *vqgan, qkv_tape *t, size_t rows,
                                   size_t columns, const int32_t *grid);
/* The image that codes (rows, columns) decode to. On failure *out is empty. */
qkv_status qkv__look_codes_decode(const qkv__look_codes *c, const int32_t *codes, qkv_image *out);
/* The place's patch of an image of all codes, factor x factor pixels, to the same place of to. */
void qkv__look_codes_copy(const qkv__look_codes *c, const qkv_image *from, size_t place,
                          qkv_image *to);
/* Panel "codes-grid": the image with the index of every code. */
qkv_status qkv__look_codes_grid(const qkv__look_codes *c, const qkv_image *image);
/* Panel "codes-verdict": what the discriminator says of every patch of both images. */
qkv_status qkv__look_codes_verdict(const qkv__look_codes *c, const qkv_image *input,
                                   const qkv_image *decoded);

/* ---- sets of images, codes_set.c ------------------------------------------------------------- */

enum { QKV__CODE_PATCHES = 8, QKV__CODES_SHOWN = 12 }; /* patches of a code; codes with patches */

/* A patch of an image of a set. */
typedef struct {
    size_t image, place;
    double distance; /* of the encoder's output there to the code's vector; NaN: not known */
} qkv__code_patch;

/* The codes of a set of images, which is the input alone where no set is given. */
typedef struct {
    const qkv__look_codes *c;
    const qkv_pixels *among; /* NULL: the input */
    const qkv_image *input;
    size_t images, used;      /* used: codes that occur */
    int32_t *grids;           /* (images, places) */
    size_t *counts;           /* (codes) how often each occurs */
    int32_t *order;           /* (codes) the most frequent first */
    qkv__code_patch *nearest; /* (codes, QKV__CODE_PATCHES), nearest first; image SIZE_MAX: none */
} qkv__code_set;

/* Images of so many pixels that are encoded or decoded at once. */
size_t qkv__look_codes_batch(size_t pixels);
/* Encodes the images, of the input's size and channels. c, among and input must outlive the set.
 * Freed with qkv__code_set_free, after failure too. */
qkv_status qkv__code_set_read(qkv__code_set *s, const qkv__look_codes *c,
                              const qkv_pixels *among, const qkv_image *input);
void qkv__code_set_free(qkv__code_set *s);
const uint8_t *qkv__code_set_image(const qkv__code_set *s, size_t i);
/* 2 to the entropy of the frequencies of codes. */
double qkv__code_set_perplexity(const size_t *counts, size_t codes);
/* Up to QKV__CODE_PATCHES patches that have the code, of as many images as there are: the count. */
size_t qkv__code_set_where(const qkv__code_set *s, int32_t code,
                           qkv__code_patch out[QKV__CODE_PATCHES]);

/* Panels "codes-usage" and "codes-together". */
qkv_status qkv__look_codes_usage(const qkv__code_set *s);
qkv_status qkv__look_codes_together(const qkv__code_set *s);
/* Panels "codes-alone", "codes-where", "codes-nearest", codes_sheets.c. */
qkv_status qkv__look_codes_sheets(const qkv__code_set *s);

#endif
