/* looks.h - teaching a perceptual network what to look for, where there is no published one: the
 * classes of pictures or, where they have none, the colours that their grey versions had; judging
 * it.
 * Layer: task */
#ifndef QKV_LOOKS_H
#define QKV_LOOKS_H

#include <qkv/augment.h>
#include <qkv/perceptual.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* What a network for pictures of that side would be asked: a configuration to make it with. More
 * than one class: those; else 2 numbers of every place, the mean a and b of Lab there. */
qkv_perceptual_config qkv_looks_config(size_t side, size_t classes);

/* Answer that, for pictures of 3 channels that augment (NULL: nothing) changes. Nothing is held
 * out. train and the model, a qkv_perceptual that answers as many numbers, must outlive the task.
 * On failure out->self is NULL. */
qkv_status qkv_task_looks(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                          const qkv_augment_options *augment, uint64_t seed);

/* ---- judging ------------------------------------------------------------------------------ */

enum { QKV_LOOKS_STRENGTHS = 4 };
const double *qkv_looks_blurs(void);  /* (QKV_LOOKS_STRENGTHS) a Gaussian's deviation, pixels */
const double *qkv_looks_noises(void); /* (QKV_LOOKS_STRENGTHS) deviation, values in [0, 1] */

/* The share of the pictures that the network ranks: each change is further from the picture than
 * the weaker ones, and the weakest is not the picture itself. */
typedef struct {
    double blur, noise;
    size_t pictures;
} qkv_looks_score;

/* pixels: any pictures of 3 channels that are large enough for the network's stages. t is reset and
 * used without recording. */
qkv_status qkv_looks_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                              qkv_looks_score *out);

QKV_END_DECLS
#endif
