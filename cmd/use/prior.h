/* prior.h - a prior on the codes of pictures with the models that code them, as `train imagine`
 * leaves them in its directory: the prior in DIR, the VQGAN whose codes it knows in DIR/vqgan and,
 * where these hang on the codes of another, that one in DIR/condition. */
#ifndef QKV_CMD_USE_PRIOR_H
#define QKV_CMD_USE_PRIOR_H

#include "use/coder.h"
#include "qkv/augment.h"
#include "qkv/grids.h"
#include "qkv/image.h"
#include "qkv/pixels.h"

#define CLI_PRIOR_VQGAN "vqgan"
#define CLI_PRIOR_CONDITION "condition"

typedef struct {
    cli *c;
    qkv_model *prior; /* whoever opened it owns it */
    qkv_model *vqgan, *condition; /* condition NULL: a class or nothing */
    qkv_tape *tape;
    size_t factor, colors; /* of vqgan: pixels a side of a code, channels */
    size_t rows, columns;  /* of a grid of codes */
    size_t before;         /* tokens before it */
} cli_prior;

/* What is in the directory, prior and all. */
qkv_status cli_prior_open(cli_prior *p, cli *c, const char *dir);
/* The models that code, for pictures of height x width pixels (0: the VQGAN's own size). condition
 * NULL: none. */
qkv_status cli_prior_coders(cli_prior *p, cli *c, const char *vqgan, const char *condition,
                            size_t height, size_t width);
/* The numbers of tokens must be what the prior says. */
qkv_status cli_prior_fits(const cli_prior *p, const char *dir);
void cli_prior_close(cli_prior *p); /* a zeroed one is allowed; not the prior */

/* The picture, cut to height x width pixels, in the VQGAN's channels. */
qkv_status cli_prior_read(const cli_prior *p, const char *path, size_t height, size_t width,
                          qkv_image *out);

/* What pictures (n, height, width, colors) are to the prior. tokens: (n, before + rows x columns),
 * from conditions and codes. classes (n): what the first token says, where there are classes. */
qkv_status cli_prior_tokens(cli_prior *p, const uint8_t *pictures, size_t n, const int32_t *classes,
                            int32_t *tokens);

/* How a set of pictures is coded. */
typedef struct {
    size_t views;                /* of each: as it is, then changed .. */
    qkv_augment_options augment; /* .. in this way */
    bool classes;                /* the first token is a picture's class */
    uint64_t seed;               /* of the changes */
} cli_coding;
/* tokens: (pictures, views, before + rows x columns). Shows how far it is. */
qkv_status cli_prior_code(cli_prior *p, const qkv_pixels *pixels, const cli_coding *o,
                          int32_t *tokens);
/* The condition's codes of a picture, stretched to rows x columns of them. */
qkv_status cli_prior_condition(cli_prior *p, const qkv_image *picture, size_t rows, size_t columns,
                               int32_t *codes);
size_t cli_prior_condition_side(const cli_prior *p); /* rows, and columns, that it was trained on */

/* Grids in a file of cli_codes_save, (count, before + codes); to be freed with cli_grids_free. */
typedef struct {
    qkv_grids g;
    qkv_context *ctx;
    int32_t *grids, *conditions;
} cli_grids;
qkv_status cli_grids_load(cli_grids *out, qkv_context *ctx, const char *path,
                          const qkv_model *prior);
/* tokens (count, before + codes) are read only. */
qkv_status cli_grids_take(cli_grids *out, qkv_context *ctx, const int32_t *tokens, size_t count,
                          const qkv_model *prior);
void cli_grids_free(cli_grids *g); /* a zeroed one is allowed */

#endif
