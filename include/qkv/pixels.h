/* pixels.h - sets of images of one size, decoded once into a mapped file; parts of them to train
 * and to evaluate on.
 * Layer: image */
#ifndef QKV_PIXELS_H
#define QKV_PIXELS_H

#include <qkv/image_list.h>
#include <qkv/resize.h>

QKV_BEGIN_DECLS

typedef struct qkv_pixels qkv_pixels;
typedef struct qkv_pixels_writer qkv_pixels_writer;

/* Begins a set of images of height x width, 1 or 3 channels, in a file at path or, with path
 * NULL, in memory. The file is a safetensors file: `images`, U8 (count, height, width, channels);
 * `labels`, I32 (count), -1: none; `names` and `classes`, U8, the images' and the classes' names,
 * each with a 0 behind it. On failure *out is NULL. */
qkv_status qkv_pixels_create(qkv_pixels_writer **out, qkv_context *ctx, const char *path,
                             size_t height, size_t width, size_t channels);
/* The name of the next class: 0, 1, .. */
qkv_status qkv_pixels_add_class(qkv_pixels_writer *w, const char *name);
/* The next image: data (height, width, channels); class_ -1: none. Its class may follow. */
qkv_status qkv_pixels_add(qkv_pixels_writer *w, const uint8_t *data, int32_t class_,
                          const char *name);
/* Ends the file, which exists under its name from now on, and opens it (out may be NULL: not in
 * memory then). The writer is freed either way; after a failure there is no file. */
qkv_status qkv_pixels_finish(qkv_pixels_writer *w, qkv_pixels **out);
void qkv_pixels_abandon(qkv_pixels_writer *w); /* leaves nothing; NULL is allowed */

/* On failure *out is NULL and the context names the file. */
qkv_status qkv_pixels_open(qkv_pixels **out, qkv_context *ctx, const char *path);
void qkv_pixels_close(qkv_pixels *p); /* NULL is allowed */

size_t qkv_pixels_count(const qkv_pixels *p);
size_t qkv_pixels_height(const qkv_pixels *p);
size_t qkv_pixels_width(const qkv_pixels *p);
size_t qkv_pixels_channels(const qkv_pixels *p);
size_t qkv_pixels_classes(const qkv_pixels *p);
const char *qkv_pixels_class_name(const qkv_pixels *p, size_t class_);

/* Of image i: (height, width, channels); its class or -1; where it came from, for people. */
const uint8_t *qkv_pixels_data(const qkv_pixels *p, size_t i);
int32_t qkv_pixels_class(const qkv_pixels *p, size_t i);
const char *qkv_pixels_name(const qkv_pixels *p, size_t i);

/* ---- from images -------------------------------------------------------------------------- */

/* How an image gets another shape. */
typedef enum {
    QKV_FIT_SQUASH, /* all of it, each side by itself */
    QKV_FIT_CROP,   /* the largest part in the middle that has the shape */
    QKV_FITS
} qkv_fit;

typedef struct {
    size_t height, width;     /* 0: those of the first image that can be read      0, 0 */
    size_t channels;          /* 1 or 3; 0: as many as that one has                     3 */
    qkv_fit fit;              /*                                                   squash */
    qkv_resize_filter filter; /*                                                 bilinear */
    uint8_t background[3];    /* red, green, blue: what transparent parts show      white */
} qkv_pixels_options;
qkv_pixels_options qkv_pixels_defaults(void);

/* Gives an image the size and channels that options ask for; 0: leaves it. On failure it is
 * empty. */
qkv_status qkv_image_fit(qkv_image *image, qkv_context *ctx, const qkv_pixels_options *options);

typedef struct {
    size_t done, count, skipped; /* images: looked at, in all, left out */
    const char *bad;             /* why one was left out just now, with its name; or NULL */
} qkv_pixels_event;
/* Returns false to stop. */
typedef bool qkv_pixels_fn(void *user, const qkv_pixels_event *event);

/* Decodes all images, on the context's team, into a set at path (NULL: in memory), with their
 * classes, and opens it. Those that cannot be read, or are larger than qkv_image_defaults allows,
 * are told to event (may be NULL), in order, and left out; when none is left that is an error,
 * with the last one's sentence. Stopped by event: QKV_E_CANCELLED. After a failure *out is NULL
 * and there is no file. options may be NULL. */
qkv_status qkv_pixels_read(qkv_pixels **out, qkv_context *ctx, const qkv_image_list *images,
                           const char *path, const qkv_pixels_options *options,
                           qkv_pixels_fn *event, void *user);

/* ---- parts ---------------------------------------------------------------------------------- */

/* Which images are held out to evaluate on. */
typedef enum {
    QKV_SPLIT_AUTO,  /* by class where images lie sorted by it, as in folders; else the last */
    QKV_SPLIT_LAST,  /* the last ones */
    QKV_SPLIT_CLASS, /* the last ones of each class, equally many */
    QKV_SPLIT_NAME,  /* whole groups whose files' names agree up to the first '-' or '.' (one
                        person's skin tones), in an order drawn from the names alone */
    QKV_SPLITS
} qkv_held_out_by;

/* Numbers of images, rising. Freed with qkv_held_out_free. */
typedef struct {
    qkv_context *ctx;
    size_t *train, *valid;
    size_t train_count, valid_count;
} qkv_held_out;

/* Holds `valid` images out (QKV_SPLIT_NAME: at most so many). labelled: images without a
 * class are in neither part. QKV_E_ARGUMENT when nothing is left to train on or nothing can be
 * held out; then *out is empty. */
qkv_status qkv_pixels_split(qkv_held_out *out, qkv_context *ctx, const qkv_pixels *p, size_t valid,
                            qkv_held_out_by by, bool labelled);
void qkv_held_out_free(qkv_held_out *s); /* a zeroed one is allowed */

/* Mean and standard deviation of each channel over images (count) numbered `images` (NULL:
 * the first count), of values in [0, 1]. */
void qkv_pixels_stats(const qkv_pixels *p, const size_t *images, size_t count, double mean[3],
                      double std[3]);

QKV_END_DECLS
#endif
