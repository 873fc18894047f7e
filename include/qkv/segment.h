/* segment.h - the class of every pixel: learning to tell it, evaluating it, telling it.
 * Layer: task */
#ifndef QKV_SEGMENT_H
#define QKV_SEGMENT_H

#include <qkv/augment.h>
#include <qkv/pixelwise.h>
#include <qkv/masks.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

typedef struct {
    double smoothing;            /* of the classes                        [0, 1)    0 */
    qkv_augment_options augment; /* of images and masks; nothing is mixed      none */
} qkv_segment_options;
const qkv_option_table *qkv_segment_table(void);
qkv_segment_options qkv_segment_defaults(void);

/* Images and the classes of their pixels, as from qkv_masks_read. */
typedef struct {
    const qkv_pixels *images, *classes;
} qkv_segment_data;

/* Tell each pixel's class. Images have the model's size and 3 channels; what train and valid
 * (NULL: nothing is held out) point to and the model, a qkv_segmenter, must outlive the task.
 * What lies beyond a changed image's edge has no class and is not evaluated. options may be NULL.
 * On failure out->self is NULL. */
qkv_status qkv_task_segment(qkv_task *out, qkv_model *model, const qkv_segment_data *train,
                            const qkv_segment_data *valid, const qkv_segment_options *options,
                            uint64_t seed);

typedef struct {
    double miou;     /* mean over the classes of |truth and guess| / |truth or guess|, each counted
                        over all images; a class that neither has does not count */
    double accuracy; /* of the pixels */
    double loss;     /* mean -log p of a pixel's class, nats */
    size_t images;
} qkv_segment_score;

/* limit: so many images, evenly over all (0: all). t is reset and used without recording. */
qkv_status qkv_segment_evaluate(qkv_model *m, qkv_tape *t, const qkv_segment_data *data,
                                size_t limit, qkv_segment_score *out);

/* The class of each pixel of an image of any size with 3 channels: classes (height, width), the
 * caller's. The model sees it at the size it knows. t is reset and used without recording. */
qkv_status qkv_segment(uint8_t *classes, qkv_model *m, qkv_tape *t, const qkv_image *in);

QKV_END_DECLS
#endif
