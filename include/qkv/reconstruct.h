/* reconstruct.h - masked autoencoders: training task, evaluation, reconstruction.
 * Layer: task */
#ifndef QKV_RECONSTRUCT_H
#define QKV_RECONSTRUCT_H

#include <qkv/augment.h>
#include <qkv/mae.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

/* A task that trains a vit_mae with an image format (qkv_model_set_image_format). Images have the
 * model's size and channels. A sample is one image, augmented as augment says (NULL: not at all),
 * with newly drawn masked patches. train, valid (NULL: nothing is held out) and the model must
 * outlive the task. On failure out->self is NULL. */
qkv_status qkv_task_reconstruct(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                const qkv_pixels *valid, const qkv_augment_options *augment,
                                uint64_t seed);

/* Scores of the masked patches of all images. dB: -10 log10 of the mean squared error of values in
 * [0, 1]. */
typedef struct {
    double psnr;    /* dB of the model */
    double loss;    /* the training loss */
    double mean;    /* dB of a baseline: each image's mean visible colour */
    double nearest; /* dB of a baseline: the nearest visible pixel */
    size_t images;
} qkv_reconstruct_score;

/* ratio: share of patches to mask; < 0: the model's mask_ratio. The masks are the same in every
 * call and for every model with this number of patches. limit: number of images, evenly spaced (0:
 * all). t is reset and used without recording. */
qkv_status qkv_reconstruct_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                    double ratio, size_t limit, qkv_reconstruct_score *out);

/* Masks a share `ratio`, in [0, 1), of the patches of an image of the model's shape (height, width,
 * channels), chosen by seed, and reconstructs them. hidden: the image with grey masked patches;
 * filled: the model's output (paste: only in masked patches). Both are the caller's, of the image's
 * shape. A norm_pix model receives the true patches' mean and std. t is reset and used without
 * recording. */
qkv_status qkv_reconstruct(qkv_model *m, qkv_tape *t, const uint8_t *image, double ratio,
                           uint64_t seed, bool paste, uint8_t *hidden, uint8_t *filled);

QKV_END_DECLS
#endif
