/* perceptual_task.h - training a perceptual network where no published one is available, and its
 * evaluation. The network predicts classes or, for images without classes, the colours of their
 * grey versions.
 * Layer: task */
#ifndef QKV_PERCEPTUAL_TASK_H
#define QKV_PERCEPTUAL_TASK_H

#include <qkv/augment.h>
#include <qkv/perceptual.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* The configuration of a network for images of this side. classes > 1: it predicts the class;
 * otherwise 2 values per pixel of the last stage, the mean Lab a and b there. */
qkv_perceptual_config qkv_perceptual_task_config(size_t side, size_t classes);

/* A task that trains the network, a qkv_perceptual from qkv_perceptual_task_config, for images of 3
 * channels. augment: applied to the images; NULL: none. Nothing is held out. train and the model
 * must outlive the task. On failure out->self is NULL. */
qkv_status qkv_task_perceptual(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                               const qkv_augment_options *augment, uint64_t seed);

/* ---- evaluating ------------------------------------------------------------------------------ */

enum { QKV_PERCEPTUAL_STRENGTHS = 4 };
const double *qkv_perceptual_blurs(void); /* (QKV_PERCEPTUAL_STRENGTHS) std of a Gaussian blur,
                                             pixels */
const double *qkv_perceptual_noises(void); /* (QKV_PERCEPTUAL_STRENGTHS) std of Gaussian noise,
                                              of values in [0, 1] */

/* Share of the images whose distances the network ranks correctly: each strength is farther from
 * the image than the weaker ones, and the weakest has a distance above 0. */
typedef struct {
    double blur, noise;
    size_t images;
} qkv_perceptual_score;

/* pixels: images of 3 channels, large enough for the network's stages. t is reset and used without
 * recording. */
qkv_status qkv_perceptual_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                   qkv_perceptual_score *out);

QKV_END_DECLS
#endif
