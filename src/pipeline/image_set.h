/* image_set.h - sets of images from a user's files, as the pipelines and training jobs read
 * them. */
#ifndef QKV_SRC_PIPELINE_IMAGE_SET_H
#define QKV_SRC_PIPELINE_IMAGE_SET_H

#include "base/base.h"
#include "qkv/model.h"
#include "qkv/pixels.h"

/* Images, and the class of each of their pixels or NULL. */
typedef struct {
    qkv_pixels *images, *classes;
} qkv__image_set;
void qkv__image_set_close(qkv__image_set *s); /* an empty one is allowed */

/* Reports the reading of images to the context's listener: a qkv_pixels_fn with its state. */
typedef struct {
    qkv_context *ctx;
    size_t skipped, count;
} qkv__reading;
void qkv__reading_begin(qkv__reading *r, qkv_context *ctx, const qkv_image_list *images);
bool qkv__reading_event(void *user, const qkv_pixels_event *event);
void qkv__reading_end(const qkv__reading *r, const char *path); /* notes how many were left out */

/* The part in the middle of an image, side x side. Pixels stay what they are: mean 0, standard
 * deviation 1. */
qkv_image_format qkv__images_square(size_t side, size_t channels);

/* The channels of the first image at the path that can be read; both sides are its shorter one,
 * at most `most` pixels; cropped unless it is a square. */
qkv_status qkv__images_format(qkv_image_format *out, qkv_context *ctx, const char *path,
                              size_t most);

/* How images become such. */
qkv_pixels_options qkv__pixels_options(const qkv_image_format *format);

/* Decodes all images at the path into memory, as the format says. Those that cannot be read are
 * named and left out. On failure *out is NULL. */
qkv_status qkv__images_load(qkv_pixels **out, qkv_context *ctx, const char *path,
                            const qkv_image_format *format);

/* The images of those numbers (NULL: the first count) in a file at path (NULL: in memory), with
 * the classes that the model's labels of the same name have (m NULL: without classes). where: the
 * data, for the sentence when an image has no class, or one that the model does not know. */
qkv_status qkv__pixels_copy(qkv_pixels **out, qkv_context *ctx, const char *path,
                            const qkv_pixels *from, const size_t *numbers, size_t count,
                            const qkv_model *m, const char *where);

/* Decodes all images at the path into memory, with classes as above. */
qkv_status qkv__pixels_load(qkv_pixels **out, qkv_context *ctx, const char *path,
                            const qkv_image_format *format, const qkv_model *m);

#endif
