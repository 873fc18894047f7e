/* segment.h - semantic segmentation: training, evaluation, inference.
 * Layer: task */
#ifndef QKV_SEGMENT_H
#define QKV_SEGMENT_H

#include <qkv/augment.h>
#include <qkv/pixelwise.h>
#include <qkv/masks.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

typedef struct {
    double smoothing;            /* label smoothing                       [0, 1)    0 */
    qkv_augment_options augment; /* of images and masks; no mixing             none */
} qkv_segment_options;
const qkv_option_table *qkv_segment_table(void);
qkv_segment_options qkv_segment_defaults(void);

/* Images and the classes of their pixels, from qkv_masks_read. */
typedef struct {
    const qkv_pixels *images, *classes;
} qkv_segment_data;

/* A task that trains a qkv_segmenter. Images have the model's size and 3 channels. The sets in
 * train and valid (NULL: nothing is held out) and the model must outlive the task. Pixels beyond
 * the edge of an augmented image have no class and are not scored. options may be NULL. On failure
 * out->self is NULL. */
qkv_status qkv_task_segment(qkv_task *out, qkv_model *model, const qkv_segment_data *train,
                            const qkv_segment_data *valid, const qkv_segment_options *options,
                            uint64_t seed);

typedef struct {
    double miou;     /* mean over the classes of intersection / union, each summed over all images;
                        classes in neither truth nor prediction are left out */
    double accuracy; /* share of the pixels */
    double loss;     /* mean -log p of a pixel's class, nats */
    size_t images;
} qkv_segment_score;

/* limit: number of images, evenly spaced (0: all). t is reset and used without recording. */
qkv_status qkv_segment_evaluate(qkv_model *m, qkv_tape *t, const qkv_segment_data *data,
                                size_t limit, qkv_segment_score *out);

/* Predicts the class of each pixel of an image with 3 channels and any size, which is resized for
 * the model. Fills the caller's classes (height, width). t is reset and used without recording. */
qkv_status qkv_segment(uint8_t *classes, qkv_model *m, qkv_tape *t, const qkv_image *in);

QKV_END_DECLS
#endif
