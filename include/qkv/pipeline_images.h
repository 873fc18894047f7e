/* pipeline_images.h - image tasks of a pipeline: classification, segmentation, reconstruction,
 * colourisation, encoding and decoding, sampling.
 * Layer: pipeline
 *
 *     const qkv_image_source photo = {.path = "photo.jpg"};
 *     qkv_segmentation s;
 *     if (qkv_pipeline_segment(p, &photo, NULL, &s))
 *         return fail(qkv_context_message(ctx));
 *     qkv_image_write(&s.image, ctx, "classes.png");
 *     qkv_segmentation_free(&s);
 *
 * Each task has an option struct, its table (qkv_..._table) and its defaults; options may be NULL:
 * the defaults. QKV_E_UNSUPPORTED if the model cannot perform the task. On failure results are
 * empty; freeing them is allowed. */
#ifndef QKV_PIPELINE_IMAGES_H
#define QKV_PIPELINE_IMAGES_H

#include <qkv/masks.h>
#include <qkv/pipeline.h>
#include <qkv/infer.h>

QKV_BEGIN_DECLS

/* An input image: a file, or pixels in memory. */
typedef struct {
    const char *path;       /* a PNG or JPEG file; NULL: use image */
    const qkv_image *image; /* not modified */
} qkv_image_source;

/* ---- classification ------------------------------------------------------------------------ */

/* The result for one image. */
typedef struct {
    size_t input;      /* index of the qkv_image_source that is, or contains, the image */
    const char *name;  /* of its file, for messages; "" for pixels in memory */
    const char *error; /* NULL; or why the input cannot be read (other fields are then empty) */
    const qkv_real *probabilities; /* (classes) */
    size_t classes;
} qkv_image_labels;
/* Receives a result, valid during the call. Returns false to stop. */
typedef bool qkv_image_labels_fn(void *user, const qkv_image_labels *found);

/* Classifies images (count) in order. A path may be anything that qkv_image_list_open accepts; then
 * all its images are classified, and unreadable ones are skipped with a note. If nothing in an
 * input is readable, fn receives the error. QKV_E_CANCELLED if fn returned false. */
qkv_status qkv_pipeline_classify_images(qkv_pipeline *p, const qkv_image_source *images,
                                        size_t count, qkv_image_labels_fn *fn, void *user);

/* ---- segmentation --------------------------------------------------------------------------- */

typedef struct {
    bool mask; /* use the colours of the training masks instead of well distinguishable ones
                                                                                          false */
} qkv_pipeline_segment_options;
const qkv_option_table *qkv_pipeline_segment_table(void);
qkv_pipeline_segment_options qkv_pipeline_segment_defaults(void);

typedef struct {
    qkv_context *ctx;
    qkv_image image; /* size of the input; every pixel has its class's colour */
    uint8_t *map;    /* (image.height, image.width) class of each pixel */
    size_t classes;
    size_t pixels[QKV_MASK_CLASSES];     /* number of pixels of each class */
    uint8_t color[QKV_MASK_CLASSES][3]; /* colour of each class in image */
} qkv_segmentation;

qkv_status qkv_pipeline_segment(qkv_pipeline *p, const qkv_image_source *in,
                                const qkv_pipeline_segment_options *options,
                                qkv_segmentation *out);
void qkv_segmentation_free(qkv_segmentation *s);

/* ---- reconstruction -------------------------------------------------------------------------- */

typedef struct {
    double mask;   /* share of patches to mask                             [0, 1)    0.75 */
    bool paste;    /* keep the visible patches of the input                         false */
    uint64_t seed; /* selects the masked patches                                        0 */
} qkv_pipeline_reconstruct_options;
const qkv_option_table *qkv_pipeline_reconstruct_table(void);
qkv_pipeline_reconstruct_options qkv_pipeline_reconstruct_defaults(void);

/* Images with the model's size and channels. */
typedef struct {
    qkv_context *ctx;
    qkv_image image; /* the input: its largest centred part with the model's aspect ratio */
    qkv_image hidden;  /* the model's input; masked patches are grey */
    qkv_image filled;  /* the model's output */
} qkv_reconstruction;

qkv_status qkv_pipeline_reconstruct(qkv_pipeline *p, const qkv_image_source *in,
                                    const qkv_pipeline_reconstruct_options *options,
                                    qkv_reconstruction *out);
void qkv_reconstruction_free(qkv_reconstruction *r);

/* ---- colourisation --------------------------------------------------------------------------- */

typedef enum {
    QKV_GREY_LIGHTNESS, /* a colour's lightness, L of Lab */
    QKV_GREY_WEIGHTS    /* 0.29 red + 0.58 green + 0.11 blue, the grey of old television */
} qkv_grey;

typedef struct {
    qkv_strings hints;     /* colours of pixels, "X,Y,#RRGGBB" each                    none */
    qkv_strings missing;   /* rectangles "X,Y,WIDTH,HEIGHT" that have lost their colours. With any,
                              or a mask, other pixels keep theirs, and are hints       none */
    const char *mask;      /* image of the input's size, light (128 or more) where colours are
                              missing                                                  NULL */
    int grey;              /* qkv_grey: what the missing colours became                0 */
    const char *attention; /* pixel "X,Y": report the attention of its patch           NULL */
    size_t layer;          /* layer of that attention, from 1; 0: the last                0 */
} qkv_pipeline_colorize_options;
const qkv_option_table *qkv_pipeline_colorize_table(void);
qkv_pipeline_colorize_options qkv_pipeline_colorize_defaults(void);

/* A patch that the chosen patch attends to. */
typedef struct {
    size_t x, y;   /* the pixel in its centre */
    double weight; /* attention weight, mean over the heads */
    bool itself;   /* it is the chosen patch */
} qkv_attended;

typedef struct {
    qkv_context *ctx;
    qkv_image image;     /* the input's lightness with the model's colours; what is not missing is
                            the input's */
    qkv_image seen;      /* the input as the model saw it: missing colours are grey; empty unless a
                            part is missing */
    qkv_image attention; /* image, enlarged and dimmed by the attention weights; empty if no
                            attention was requested */
    qkv_attended attended[5]; /* patches with a weight >= 0.01, largest first */
    size_t attended_count;
} qkv_colorization;

qkv_status qkv_pipeline_colorize(qkv_pipeline *p, const qkv_image_source *in,
                                 const qkv_pipeline_colorize_options *options,
                                 qkv_colorization *out);
void qkv_colorization_free(qkv_colorization *c);

/* ---- encoding and decoding ------------------------------------------------------------------- */

/* The code grid of an image. Free with qkv_code_grid_free. */
typedef struct {
    qkv_context *ctx;
    size_t rows, columns;
    int32_t *codes; /* (rows, columns) */
    char *name;     /* file it was loaded from, for messages; NULL: none */
} qkv_code_grid;

/* Loads integers >= 0, (rows, columns), from an .npy file or comma-separated text. */
qkv_status qkv_code_grid_load(qkv_code_grid *out, qkv_context *ctx, const char *path);
qkv_status qkv_code_grid_save(const qkv_code_grid *g, const char *path); /* as an .npy file */
void qkv_code_grid_free(qkv_code_grid *g);

/* Encodes an image of any size with a VQGAN. Crops the edges, equally on both sides, to a whole
 * number of codes. */
qkv_status qkv_pipeline_encode(qkv_pipeline *p, const qkv_image_source *in, qkv_code_grid *out);
/* Decodes a code grid. Free *out with qkv_image_free. */
qkv_status qkv_pipeline_decode(qkv_pipeline *p, const qkv_code_grid *in, qkv_image *out);

/* ---- sampling from a prior ---------------------------------------------------------------- */

enum { QKV_SAMPLE_NEXT = 64 }; /* maximum of show_next */

typedef struct {
    size_t count;         /* number of images                              [1, 1e4]    16 */
    const char *class_;   /* class name, or number if there are no names; NULL: all in turn */
    qkv_image_source condition; /* condition image, if the prior was trained with one        none */
    qkv_image_source complete; /* image whose upper part is kept                          none */
    double keep;          /* share of `complete` to keep, in whole rows of codes [0, 1)   0.5 */
    size_t height, width; /* pixels; 0: as trained; width at least as trained           0, 0 */
    size_t show_next;     /* number of most likely codes to report    [0, QKV_SAMPLE_NEXT] 0 */
    const char *at;       /* their place in the grid, "ROW,COLUMN"; NULL: the first place that is
                             sampled, or the centre of whole images                    NULL */
    uint64_t seed;        /* determines the images                                       0 */
    qkv_sampling sampling; /* default: temperature 1, all codes */
} qkv_pipeline_sample_options;
const qkv_option_table *qkv_pipeline_sample_table(void);
qkv_pipeline_sample_options qkv_pipeline_sample_defaults(void);

/* A candidate for the next code. */
typedef struct {
    int32_t code;
    double probability; /* the model's own, softmax(logits) over the codes: not changed by
                           temperature, top_k and top_p */
    bool drawn;         /* it is the one that the image has there */
} qkv_next_code;

typedef struct {
    qkv_context *ctx;
    size_t count;
    size_t rows, columns;           /* of the code grid of an image */
    size_t height, width, channels; /* of an image, pixels */
    int32_t *codes;                 /* (count, rows, columns) */
    uint8_t *images;                /* (count, height, width, channels) */
    size_t row, column;             /* show_next: the place in the grid */
    size_t shown;                   /* show_next: row length of `next` */
    qkv_next_code *next;            /* (count, shown), most likely first; NULL if shown is 0 */
    size_t *next_count;             /* (count) number of valid entries in each row of next */
    qkv_next_code *drawn;           /* (count) what each image has there, in next or not */
    /* All images in a roughly square sheet; with show_next a row for each: the image as sampled up
     * to the place, then the patches that the candidates make there. */
    qkv_image sheet;
} qkv_sampled_images;

/* Samples images from a prior, row by row from the top. For images larger than in training the
 * prior sees a window of the training size around each code. */
qkv_status qkv_pipeline_sample_images(qkv_pipeline *p, const qkv_pipeline_sample_options *options,
                                      qkv_sampled_images *out);
void qkv_sampled_images_free(qkv_sampled_images *s);

QKV_END_DECLS
#endif
