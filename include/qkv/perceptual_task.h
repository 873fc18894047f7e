/* perceptual_task.h - teaching a perceptual network what to look for, where there is no published
 * one: the classes of images or, where they have none, the colours that their grey versions had;
 * evaluating it.
 * Layer: task */
#ifndef QKV_PERCEPTUAL_TASK_H
#define QKV_PERCEPTUAL_TASK_H

#include <qkv/augment.h>
#include <qkv/perceptual.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* What a network for images of that side would be asked: a configuration to make it with. More
 * than one class: those; else 2 numbers of every place, the mean a and b of Lab there. */
qkv_perceptual_config qkv_perceptual_task_config(size_t side, size_t classes);

/* Answer that, for images of 3 channels that augment (NULL: nothing) changes. Nothing is held
 * out. train and the model, a qkv_perceptual that answers as many numbers, must outlive the task.
 * On failure out->self is NULL. */
qkv_status qkv_task_perceptual(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                               const qkv_augment_options *augment, uint64_t seed);

/* ---- evaluating ------------------------------------------------------------------------------ */

enum { QKV_PERCEPTUAL_STRENGTHS = 4 };
const double *qkv_perceptual_blurs(void); /* (QKV_PERCEPTUAL_STRENGTHS) a Gaussian's standard
                                             deviation, pixels */
const double *qkv_perceptual_noises(void); /* (QKV_PERCEPTUAL_STRENGTHS) standard deviation, values
                                              in [0, 1] */

/* The share of the images that the network ranks: each change is further from the image than
 * the weaker ones, and the weakest is not the image itself. */
typedef struct {
    double blur, noise;
    size_t images;
} qkv_perceptual_score;

/* pixels: any images of 3 channels that are large enough for the network's stages. t is reset and
 * used without recording. */
qkv_status qkv_perceptual_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                   qkv_perceptual_score *out);

QKV_END_DECLS
#endif
