/* pipeline_images.h - images through a model directory: labels, classes of pixels, filling in,
 * colours, codes, images drawn from a prior.
 * Layer: pipeline
 *
 *     const qkv_image_source photo = {.path = "photo.jpg"};
 *     qkv_segmentation s;
 *     if (qkv_pipeline_segment(p, &photo, NULL, &s))
 *         return fail(qkv_context_message(ctx));
 *     qkv_image_write(&s.image, ctx, "classes.png");
 *     qkv_segmentation_free(&s);
 *
 * Options are structs that a table describes (qkv_..._table) and defaults fill; NULL stands for the
 * defaults. A model that does not do what is asked is QKV_E_UNSUPPORTED. On failure results are
 * empty, and freeing them is allowed. */
#ifndef QKV_PIPELINE_IMAGES_H
#define QKV_PIPELINE_IMAGES_H

#include <qkv/masks.h>
#include <qkv/pipeline.h>
#include <qkv/infer.h>

QKV_BEGIN_DECLS

/* An image in a file or in memory. */
typedef struct {
    const char *path;       /* a PNG or JPEG file; NULL: in memory */
    const qkv_image *image; /* only read */
} qkv_image_source;

/* ---- labels -------------------------------------------------------------------------------- */

/* What is found of one image. */
typedef struct {
    size_t input;      /* number of the qkv_image_source that it is or that holds it */
    const char *name;  /* of its file, for people; "" of pixels in memory */
    const char *error; /* NULL; or why the input cannot be read, and the rest is empty */
    const qkv_real *probabilities; /* (classes) */
    size_t classes;
} qkv_image_labels;
/* Valid during the call. Returns false to stop. */
typedef bool qkv_image_labels_fn(void *user, const qkv_image_labels *found);

/* Labels images (count) in order. A path may also be what qkv_image_list_open lists: all its
 * images are labelled, and those that cannot be read are noted and left out. An input of which
 * nothing can be read is told to fn and passed over. QKV_E_CANCELLED when fn returns false. */
qkv_status qkv_pipeline_classify_images(qkv_pipeline *p, const qkv_image_source *images,
                                        size_t count, qkv_image_labels_fn *fn, void *user);

/* ---- classes of pixels ---------------------------------------------------------------------- */

typedef struct {
    bool mask; /* colours as in the masks that the model was trained on, not ones that differ well
                                                                                          false */
} qkv_pipeline_segment_options;
const qkv_option_table *qkv_pipeline_segment_table(void);
qkv_pipeline_segment_options qkv_pipeline_segment_defaults(void);

typedef struct {
    qkv_context *ctx;
    qkv_image image; /* of the image's size: every pixel in its class's colour */
    uint8_t *map;    /* (image.height, image.width): its class */
    size_t classes;
    size_t pixels[QKV_MASK_CLASSES];     /* of each class */
    uint8_t color[QKV_MASK_CLASSES][3]; /* of each class, in image */
} qkv_segmentation;

qkv_status qkv_pipeline_segment(qkv_pipeline *p, const qkv_image_source *in,
                                const qkv_pipeline_segment_options *options,
                                qkv_segmentation *out);
void qkv_segmentation_free(qkv_segmentation *s);

/* ---- filling in ------------------------------------------------------------------------------ */

typedef struct {
    double mask;   /* share of the patches hidden                          [0, 1)    0.75 */
    bool paste;    /* visible patches stay as they are                              false */
    uint64_t seed; /* says which are hidden                                             0 */
} qkv_pipeline_reconstruct_options;
const qkv_option_table *qkv_pipeline_reconstruct_table(void);
qkv_pipeline_reconstruct_options qkv_pipeline_reconstruct_defaults(void);

/* All of the model's size and channels. */
typedef struct {
    qkv_context *ctx;
    qkv_image image; /* the part in the middle that has the shape */
    qkv_image hidden;  /* what the model saw; hidden patches are grey */
    qkv_image filled;  /* what it makes of that */
} qkv_reconstruction;

qkv_status qkv_pipeline_reconstruct(qkv_pipeline *p, const qkv_image_source *in,
                                    const qkv_pipeline_reconstruct_options *options,
                                    qkv_reconstruction *out);
void qkv_reconstruction_free(qkv_reconstruction *r);

/* ---- colours --------------------------------------------------------------------------------- */

typedef struct {
    qkv_strings hints;     /* colours at pixels, "X,Y,#RRGGBB" each                    none */
    const char *attention; /* the patch at the pixel "X,Y" is asked where it looked    NULL */
    size_t layer;          /* in which layer, from 1; 0: the last                         0 */
} qkv_pipeline_colorize_options;
const qkv_option_table *qkv_pipeline_colorize_table(void);
qkv_pipeline_colorize_options qkv_pipeline_colorize_defaults(void);

/* A patch that another one attended to. */
typedef struct {
    size_t x, y;   /* the pixel in its middle */
    double weight; /* mean over the heads */
    bool itself;   /* it is the one that was asked */
} qkv_attended;

typedef struct {
    qkv_context *ctx;
    qkv_image image;     /* the image's lightness in the model's colours */
    qkv_image attention; /* the same, larger, dimmed where the patch did not look; empty when none
                            was asked */
    qkv_attended attended[5]; /* patches with a weight of 0.01 or more, the largest first */
    size_t attended_count;
} qkv_colorization;

qkv_status qkv_pipeline_colorize(qkv_pipeline *p, const qkv_image_source *in,
                                 const qkv_pipeline_colorize_options *options,
                                 qkv_colorization *out);
void qkv_colorization_free(qkv_colorization *c);

/* ---- codes ----------------------------------------------------------------------------------- */

/* An image's codes. Freed with qkv_code_grid_free. */
typedef struct {
    qkv_context *ctx;
    size_t rows, columns;
    int32_t *codes; /* (rows, columns) */
    char *name;     /* the file they come from, for sentences; NULL: none */
} qkv_code_grid;

/* Whole numbers from 0 on, (rows, columns), in a NumPy file or as rows with commas. */
qkv_status qkv_code_grid_load(qkv_code_grid *out, qkv_context *ctx, const char *path);
qkv_status qkv_code_grid_save(const qkv_code_grid *g, const char *path); /* as a NumPy file */
void qkv_code_grid_free(qkv_code_grid *g);

/* The codes that a VQGAN has for an image of any size. Pixels at the edges that do not make up a
 * whole code are left out, as many on either side. */
qkv_status qkv_pipeline_encode(qkv_pipeline *p, const qkv_image_source *in, qkv_code_grid *out);
/* The image that codes stand for; freed with qkv_image_free. */
qkv_status qkv_pipeline_decode(qkv_pipeline *p, const qkv_code_grid *in, qkv_image *out);

/* ---- images drawn from a prior ------------------------------------------------------------ */

enum { QKV_SAMPLE_NEXT = 64 }; /* most codes of a place that are shown */

typedef struct {
    size_t count;         /* images                                        [1, 1e4]    16 */
    const char *class_;   /* its name, or number where classes have none; NULL: each in turn */
    qkv_image_source condition; /* what they hang on, where that was learnt                  none */
    qkv_image_source complete; /* the upper part is this image's                          none */
    double keep;          /* share of it that stays, in whole rows of codes     [0, 1)   0.5 */
    size_t height, width; /* pixels; 0: as trained, which the width is at least         0, 0 */
    size_t show_next;     /* find the likeliest codes of a place       [0, QKV_SAMPLE_NEXT] 0 */
    const char *at;       /* that place, "ROW,COLUMN"; NULL: the first that is drawn or, of whole
                             images, the middle                                       NULL */
    uint64_t seed;        /* a seed gives the same images                                0 */
    qkv_sampling sampling; /* temperature 1, of all codes */
} qkv_pipeline_sample_options;
const qkv_option_table *qkv_pipeline_sample_table(void);
qkv_pipeline_sample_options qkv_pipeline_sample_defaults(void);

/* A code that may come next. */
typedef struct {
    int32_t code;
    double probability;
} qkv_next_code;

typedef struct {
    qkv_context *ctx;
    size_t count;
    size_t rows, columns;           /* of an image's codes */
    size_t height, width, channels; /* of its pixels */
    int32_t *codes;                 /* (count, rows, columns) */
    uint8_t *images;                /* (count, height, width, channels) */
    size_t row, column;             /* the place that show_next is about */
    size_t shown;                   /* show_next: how many codes each has room for */
    qkv_next_code *next;            /* (count, shown), the likeliest first; NULL when 0 */
    size_t *next_count;             /* (count): how many there are */
    /* All images in a square or nearly so; with show_next a row each: what there is of it at the
     * place, and the patches that these codes make there. */
    qkv_image sheet;
} qkv_sampled_images;

/* Draws images from a prior on codes, row by row from the top. Those larger than the prior
 * learnt from are drawn through a window of that size about each code. */
qkv_status qkv_pipeline_sample_images(qkv_pipeline *p, const qkv_pipeline_sample_options *options,
                                      qkv_sampled_images *out);
void qkv_sampled_images_free(qkv_sampled_images *s);

QKV_END_DECLS
#endif
