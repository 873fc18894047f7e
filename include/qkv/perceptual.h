/* perceptual.h - LPIPS (Zhang et al. 2018): the distance of two images between the features that a
 * convolutional network computes, with LPIPS's tensor names.
 * Layer: model */
#ifndef QKV_PERCEPTUAL_H
#define QKV_PERCEPTUAL_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "qkv_perceptual": stages of 3 x 3 convolutions with ReLU, and between two stages a
 * pool that halves the image (VGG; Simonyan and Zisserman 2014). Pixels are scaled to [-1, 1]. */
const qkv_model_type *qkv_perceptual_type(void);

/* Configuration. Ranges and defaults (those of VGG16): qkv_model_type_config. */
typedef struct {
    qkv_sizes channels;     /* of each stage */
    qkv_sizes convolutions; /* number in each stage */
    size_t answers; /* outputs of the training head: classes of an image, or values per pixel of the
                       last stage; 0: no head, the network is already trained */
} qkv_perceptual_config;

/* pixels (B, H, W, 3) -> the last stage's output, (B, h, w, channels). NULL once anything on the
 * tape has failed. */
qkv_tensor *qkv_perceptual_features(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* features -> the head's output: of the mean over pixels (B, answers); each: (B, h, w, answers). */
qkv_tensor *qkv_perceptual_answers(qkv_model *m, qkv_tape *t, qkv_tensor *features, bool each);

/* Mean over the images of a and b, both (B, H, W, 3), -> () of
 *     sum over the stages of the mean over pixels of <weights, (u(a) - u(b))^2>,
 * u: a pixel's channels after the stage, scaled to Euclidean norm 1. b gets no gradient. */
qkv_tensor *qkv_perceptual_distance(qkv_model *m, qkv_tape *t, qkv_tensor *a, qkv_tensor *b);

QKV_END_DECLS
#endif
