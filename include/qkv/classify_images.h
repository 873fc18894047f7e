/* classify_images.h - image classification: training task, evaluation, inference.
 * Layer: task */
#ifndef QKV_CLASSIFY_IMAGES_H
#define QKV_CLASSIFY_IMAGES_H

#include <qkv/augment.h>
#include <qkv/task.h>
#include <qkv/vit.h>

QKV_BEGIN_DECLS

typedef struct {
    double smoothing; /* label smoothing                     [0, 1)    0 */
    qkv_augment_options augment;
} qkv_classify_images_options;

/* A task that trains a vit or qkv_cct with an image format (qkv_model_set_image_format). Images
 * have one size; their classes are the model's, and valid's classes are among them. A sample is one
 * augmented image, shuffled in every epoch. train, valid (NULL: nothing is held out) and the model
 * must outlive the task. Metrics: accuracy, loss. options may be NULL. On failure out->self is
 * NULL. */
qkv_status qkv_task_classify_images(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                    const qkv_pixels *valid,
                                    const qkv_classify_images_options *options, uint64_t seed);

typedef struct {
    double accuracy;
    double loss; /* mean -log p of the class, nats, without label smoothing */
    size_t images;
} qkv_classify_images_score;

/* limit: number of images, evenly spaced (0: all). t is reset and used without recording. */
qkv_status qkv_classify_images_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                        size_t limit, qkv_classify_images_score *out);

/* Class probabilities, into the caller's probs (n, classes), of the images with indices images (n).
 * t is reset and used without recording. */
qkv_status qkv_classify_images(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                               const size_t *images, size_t n, qkv_real *probs);

QKV_END_DECLS
#endif
