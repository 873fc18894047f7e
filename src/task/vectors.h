/* vectors.h - what all models that give vectors have: their width, and the vectors themselves. */
#ifndef QKV_SRC_TASK_VECTORS_H
#define QKV_SRC_TASK_VECTORS_H

#include "qkv/model.h"
#include "qkv/pixels.h"

/* Numbers of a vector, of a model with QKV_CAN_EMBED_TEXT, _IMAGES or _BOTH. */
size_t qkv__vector_width(const qkv_model *m);

/* Of those that read texts: ids are below *vocab; a text has at most *length, which stays below the
 * positions where the directory says so. */
void qkv__vector_limits(const qkv_model *m, size_t *vocab, size_t *length);

/* Of those that read images: how they cut them. */
const qkv_patches_config *qkv__vector_trunk(const qkv_model *m);

/* pixels (B, H, W, channels) -> (B, width), not normalised. */
qkv_tensor *qkv__image_vectors(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

/* The model is told how to read images of these channels, and can cut those of the set into
 * patches; else an error, which calls them WHAT images. */
qkv_status qkv__vector_images_check(const qkv_model *m, const qkv_pixels *p, const char *what);

#endif
