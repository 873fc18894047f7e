/* pixels.h - sets of images of one size, decoded once into a memory-mapped file, and their split
 * into training and held-out images.
 * Layer: image */
#ifndef QKV_PIXELS_H
#define QKV_PIXELS_H

#include <qkv/image_list.h>
#include <qkv/resize.h>

QKV_BEGIN_DECLS

typedef struct qkv_pixels qkv_pixels;
typedef struct qkv_pixels_writer qkv_pixels_writer;

/* Creates a writer for a set of images height x width with 1 or 3 channels. path NULL: in memory.
 * The file is a safetensors file: `images`, U8 (count, height, width, channels); `labels`, I32
 * (count), -1: no class; `names` and `classes`, U8: the images' and the classes' names, each
 * followed by a 0 byte. On failure *out is NULL. */
qkv_status qkv_pixels_create(qkv_pixels_writer **out, qkv_context *ctx, const char *path,
                             size_t height, size_t width, size_t channels);
/* Adds a class name: of class 0, then 1, .. */
qkv_status qkv_pixels_add_class(qkv_pixels_writer *w, const char *name);
/* Adds an image: data (height, width, channels). class_ -1: none. Classes may be added later. */
qkv_status qkv_pixels_add(qkv_pixels_writer *w, const uint8_t *data, int32_t class_,
                          const char *name);
/* Completes the file under its name and opens it. out may be NULL, but not in memory. Always frees
 * the writer. On failure no file remains. */
qkv_status qkv_pixels_finish(qkv_pixels_writer *w, qkv_pixels **out);
void qkv_pixels_abandon(qkv_pixels_writer *w); /* frees w, leaves no file; NULL is allowed */

/* On failure *out is NULL and the message names the file. */
qkv_status qkv_pixels_open(qkv_pixels **out, qkv_context *ctx, const char *path);
void qkv_pixels_close(qkv_pixels *p); /* NULL is allowed */

size_t qkv_pixels_count(const qkv_pixels *p);
size_t qkv_pixels_height(const qkv_pixels *p);
size_t qkv_pixels_width(const qkv_pixels *p);
size_t qkv_pixels_channels(const qkv_pixels *p);
size_t qkv_pixels_classes(const qkv_pixels *p);
bool qkv_pixels_labelled(const qkv_pixels *p); /* 2 classes or more, and each image has one */
const char *qkv_pixels_class_name(const qkv_pixels *p, size_t class_);
const char *const *qkv_pixels_class_names(const qkv_pixels *p); /* all */

/* Image i: its bytes (height, width, channels); its class, or -1; its source, for messages. */
const uint8_t *qkv_pixels_data(const qkv_pixels *p, size_t i);
int32_t qkv_pixels_class(const qkv_pixels *p, size_t i);
const char *qkv_pixels_name(const qkv_pixels *p, size_t i);

/* ---- conversion of images ------------------------------------------------------------------ */

/* How an image gets another aspect ratio. */
typedef enum {
    QKV_FIT_SQUASH, /* scale each side separately */
    QKV_FIT_CROP,   /* crop to the largest centred part with the aspect ratio */
    QKV_FITS
} qkv_fit;

typedef struct {
    size_t height, width;     /* 0: those of the first readable image              0, 0 */
    size_t channels;          /* 1 or 3; 0: those of the first readable image         3 */
    qkv_fit fit;              /*                                                   squash */
    size_t resize;            /* the shorter side, squashed both, becomes so long, and the middle
                                 is cut to the size, in whole pixels as Hugging Face's image
                                 processors do it; 0: what is kept fills the size          0 */
    qkv_resize_filter filter; /*                                                 bilinear */
    uint8_t background[3];    /* red, green, blue behind transparent pixels         white */
} qkv_pixels_options;
qkv_pixels_options qkv_pixels_defaults(void);

/* Converts an image to the size and channels in options; 0: unchanged. On failure the image is
 * empty. */
qkv_status qkv_image_fit(qkv_image *image, qkv_context *ctx, const qkv_pixels_options *options);

typedef struct {
    size_t done, count, skipped; /* images: processed, total, skipped */
    const char *bad;             /* error of an image skipped now, with its name; or NULL */
} qkv_pixels_event;
/* Receives progress. Returns false to cancel. */
typedef bool qkv_pixels_fn(void *user, const qkv_pixels_event *event);

/* Decodes all images, with their classes, in the context's threads into a set at path (NULL: in
 * memory) and opens it. Images that are unreadable or exceed qkv_image_defaults are reported to
 * event (may be NULL), in order, and skipped; if none is left, the last error is returned.
 * QKV_E_CANCELLED if event returned false. On failure *out is NULL and no file remains. options may
 * be NULL. */
qkv_status qkv_pixels_read(qkv_pixels **out, qkv_context *ctx, const qkv_image_list *images,
                           const char *path, const qkv_pixels_options *options,
                           qkv_pixels_fn *event, void *user);

/* ---- training and held-out images ----------------------------------------------------------- */

/* How held-out images are selected. */
typedef enum {
    QKV_SPLIT_AUTO,  /* CLASS if the images are sorted by class, as in folders; else LAST */
    QKV_SPLIT_LAST,  /* the last images */
    QKV_SPLIT_CLASS, /* the last images of each class, equally many */
    QKV_SPLIT_NAME,  /* whole groups whose file names agree up to the first '-' or '.' (skin tones
                        of a person, say), in an order derived from the names */
    QKV_SPLITS
} qkv_held_out_by;

/* Indices of images, increasing. Free with qkv_held_out_free. */
typedef struct {
    qkv_context *ctx;
    size_t *train, *valid;
    size_t train_count, valid_count;
} qkv_held_out;

/* Holds out `valid` images (QKV_SPLIT_NAME: at most). labelled: both parts exclude images without a
 * class. QKV_E_ARGUMENT if no images remain to train on or none can be held out. On failure *out is
 * empty. */
qkv_status qkv_pixels_split(qkv_held_out *out, qkv_context *ctx, const qkv_pixels *p, size_t valid,
                            qkv_held_out_by by, bool labelled);
void qkv_held_out_free(qkv_held_out *s); /* *s may be zeroed */

/* Mean and standard deviation of each channel, of values in [0, 1], over images (count) (NULL: the
 * first count). */
void qkv_pixels_stats(const qkv_pixels *p, const size_t *images, size_t count, double mean[3],
                      double std[3]);

QKV_END_DECLS
#endif
