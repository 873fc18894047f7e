/* perceptual.h - how much two images look alike: the distance between what a network of
 * convolutions makes of them (LPIPS, Zhang et al. 2018), under the names of its files.
 * Layer: model */
#ifndef QKV_PERCEPTUAL_H
#define QKV_PERCEPTUAL_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "qkv_perceptual": stages of 3 x 3 convolutions, each with ReLU, and a pool that halves
 * the image between two stages (VGG; Simonyan and Zisserman 2014). Pixels are in [-1, 1]. */
extern const qkv_model_type qkv_perceptual_type;

/* Ranges and defaults, which are VGG16's: qkv_model_type_config. */
typedef struct {
    qkv_sizes channels;     /* of each stage */
    qkv_sizes convolutions; /* in each stage */
    size_t answers; /* what training asks of it: classes of an image, or numbers of its deepest
                       pixels; 0: nothing, it came ready */
} qkv_perceptual_config;

/* pixels (B, H, W, 3) -> the last stage's output, (B, h, w, channels). NULL once anything on the
 * tape has failed. */
qkv_tensor *qkv_perceptual_features(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* That -> (B, answers), of the mean over all pixels, or each: (B, h, w, answers). */
qkv_tensor *qkv_perceptual_answers(qkv_model *m, qkv_tape *t, qkv_tensor *features, bool each);

/* Mean over the images of a and b, both (B, H, W, 3), of
 *     sum over the stages of the mean over pixels of <weights, (u(a) - u(b))^2>,
 * u: a pixel's channels behind the stage, brought to length 1. Nothing flows back into b. -> () */
qkv_tensor *qkv_perceptual_distance(qkv_model *m, qkv_tape *t, qkv_tensor *a, qkv_tensor *b);

QKV_END_DECLS
#endif
