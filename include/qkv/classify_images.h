/* classify_images.h - learning to choose a class for an image.
 * Layer: task */
#ifndef QKV_CLASSIFY_IMAGES_H
#define QKV_CLASSIFY_IMAGES_H

#include <qkv/augment.h>
#include <qkv/task.h>
#include <qkv/vit.h>

QKV_BEGIN_DECLS

typedef struct {
    double smoothing; /* of the labels                       [0, 1)    0 */
    qkv_augment_options augment;
} qkv_classify_images_options;

/* Images of one size, whose classes are the model's, those of valid among them. A sample is one
 * image, changed as options say; every epoch has another order. The model is a vit or a qkv_cct
 * that knows how it wants images (qkv_model_set_image_format); it, train and valid (NULL: nothing
 * is held out) must outlive the task. Metrics: accuracy, loss. options may be NULL. On failure
 * out->self is NULL. */
qkv_status qkv_task_classify_images(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                                    const qkv_pixels *valid,
                                    const qkv_classify_images_options *options, uint64_t seed);

typedef struct {
    double accuracy;
    double loss; /* mean -log p of the class, nats; labels are not smoothed */
    size_t images;
} qkv_classify_images_score;

/* limit: so many images, evenly over the set (0: all). t is reset and used without recording. */
qkv_status qkv_classify_images_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                                        size_t limit, qkv_classify_images_score *out);

/* Probabilities (n, classes), the caller's, of the images numbered `images` (n). The same. */
qkv_status qkv_classify_images(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels,
                               const size_t *images, size_t n, qkv_real *probs);

QKV_END_DECLS
#endif
