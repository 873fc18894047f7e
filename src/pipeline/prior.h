/* prior.h - a prior on the codes of images with the models that code them, as `train imagine`
 * leaves them in its directory: the prior in DIR, the VQGAN whose codes it knows in DIR/vqgan and,
 * where these hang on the codes of another, that one in DIR/condition. */
#ifndef QKV_SRC_PIPELINE_PRIOR_H
#define QKV_SRC_PIPELINE_PRIOR_H

#include "pipeline/codec.h"
#include "qkv/augment.h"
#include "qkv/prior.h"
#include "qkv/image.h"
#include "qkv/pixels.h"

#define QKV__PRIOR_VQGAN "vqgan"
#define QKV__PRIOR_CONDITION "condition"

typedef struct {
    qkv_context *ctx;
    qkv_model *prior; /* whoever opened it owns it */
    qkv_model *vqgan, *condition; /* condition NULL: a class or nothing */
    qkv_tape *tape;
    size_t factor, colors; /* of vqgan: pixels a side of a code, channels */
    size_t rows, columns;  /* of a grid of codes */
    size_t before;         /* tokens before it */
} qkv__prior;

/* The models in a prior's directory that code images for it. */
qkv_status qkv__prior_open(qkv__prior *p, qkv_model *prior, const char *dir);
/* The models that code, for images of height x width pixels (0: the VQGAN's own size). condition
 * NULL: none. */
qkv_status qkv__prior_codecs(qkv__prior *p, qkv_context *ctx, const char *vqgan,
                             const char *condition, size_t height, size_t width);
/* The numbers of tokens must be what the prior says. */
qkv_status qkv__prior_fits(const qkv__prior *p, const char *dir);
void qkv__prior_close(qkv__prior *p); /* a zeroed one is allowed; not the prior */

/* What images (n, height, width, colors) are to the prior. tokens: (n, before + rows x columns),
 * from conditions and codes. classes (n): what the first token says, where there are classes. */
qkv_status qkv__prior_tokens(qkv__prior *p, const uint8_t *images, size_t n,
                             const int32_t *classes, int32_t *tokens);

/* How a set of images is coded. */
typedef struct {
    size_t views;                /* of each: as it is, then changed .. */
    qkv_augment_options augment; /* .. in this way */
    bool classes;                /* the first token is an image's class */
    uint64_t seed;               /* of the changes */
} qkv__coding;
/* tokens: (images, views, before + rows x columns). Shows how far it is. */
qkv_status qkv__prior_code(qkv__prior *p, const qkv_pixels *pixels, const qkv__coding *o,
                           int32_t *tokens);
/* The condition's codes of an image, stretched to rows x columns of them. */
qkv_status qkv__prior_condition(qkv__prior *p, const qkv_image *image, size_t rows,
                                size_t columns, int32_t *codes);
/* Rows, and columns, that the condition was trained on. */
size_t qkv__prior_condition_side(const qkv__prior *p);

/* Grids in a file of qkv__codes_save, (count, before + codes). Freed with qkv__grid_set_free. */
typedef struct {
    qkv_code_grids g;
    qkv_context *ctx;
    int32_t *grids, *conditions;
} qkv__grid_set;
qkv_status qkv__grid_set_load(qkv__grid_set *out, qkv_context *ctx, const char *path,
                              const qkv_model *prior);
/* tokens (count, before + codes) are read only. */
qkv_status qkv__grid_set_take(qkv__grid_set *out, qkv_context *ctx, const int32_t *tokens,
                              size_t count, const qkv_model *prior);
void qkv__grid_set_free(qkv__grid_set *g); /* a zeroed one is allowed */

#endif
