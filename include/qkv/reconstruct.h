/* reconstruct.h - filling in the hidden patches of images: learning it, evaluating it, doing it.
 * Layer: task */
#ifndef QKV_RECONSTRUCT_H
#define QKV_RECONSTRUCT_H

#include <qkv/augment.h>
#include <qkv/mae.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* Images are of the model's size and channels, and the model says how it wants them
 * (qkv_model_set_image_format). A sample is one image, changed as augment says (NULL: not at all);
 * which of its patches are hidden is drawn anew each time it comes along. train, valid (NULL:
 * nothing is held out) and the model, a vit_mae, must outlive the task. On failure out->self is
 * NULL. */
qkv_status qkv_task_reconstruct(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                const qkv_pixels *valid, const qkv_augment_options *augment,
                                uint64_t seed);

/* Of the hidden patches of all images. dB: -10 log10 of the mean squared error of values in
 * [0, 1]. */
typedef struct {
    double psnr;    /* of the model, in dB */
    double loss;    /* what training minimises */
    double mean;    /* dB of each image's mean visible colour */
    double nearest; /* dB of the nearest visible pixel */
    size_t images;
} qkv_reconstruct_score;

/* ratio: share of the patches hidden; below 0: the model's own. Which ones are is the same each
 * time and for every model with as many patches. limit: so many images, evenly over the set (0:
 * all). t is reset and used without recording. */
qkv_status qkv_reconstruct_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                    double ratio, size_t limit, qkv_reconstruct_score *out);

/* One image of the model's shape (height, width, channels) with a share of its patches hidden, in
 * [0, 1): which, says the seed. hidden: with those grey; filled: as the model has it (paste: only
 * those); both the caller's, of the same shape. A model that learnt normed patches is told the mean
 * and standard deviation of the true ones. t is reset and used without recording. */
qkv_status qkv_reconstruct(qkv_model *m, qkv_tape *t, const uint8_t *image, double ratio,
                           uint64_t seed, bool paste, uint8_t *hidden, uint8_t *filled);

QKV_END_DECLS
#endif
