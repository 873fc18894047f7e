/* colorize.h - colours for grey images, with hints or without: learning to give them, evaluating
 * them, giving them.
 * Layer: task */
#ifndef QKV_COLORIZE_H
#define QKV_COLORIZE_H

#include <qkv/augment.h>
#include <qkv/pixelwise.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

typedef struct {
    double huber; /* errors of a and b, over 110, count squared up to here                  1 */
    size_t hints; /* most hints that training gives; small numbers, and none, are likelier  64 */
    qkv_augment_options augment; /* nothing is mixed                                      none */
} qkv_colorize_options;
const qkv_option_table *qkv_colorize_table(void);
qkv_colorize_options qkv_colorize_defaults(void);

/* Means of a and b over the pixels of images (count; NULL: the first count), for the model's
 * configuration. QKV_E_MEMORY. */
qkv_status qkv_colorize_mean(qkv_context *ctx, const qkv_pixels *p, const size_t *images,
                             size_t count, double mean[2]);

/* Tell a and b of each pixel from lightness and a random number of hints: cells of the image
 * whose mean colour is told. Images have the model's size and 3 channels; train, valid (NULL:
 * nothing is held out) and the model, a qkv_colorizer, must outlive the task. options may be NULL.
 * On failure out->self is NULL. */
qkv_status qkv_task_colorize(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                             const qkv_pixels *valid, const qkv_colorize_options *options,
                             uint64_t seed);

enum { QKV_COLORIZE_HINTS = 10 };
/* Mean squared errors of a and b over all pixels, as 10 log10(255^2 / error) dB. */
typedef struct {
    double psnr;       /* without hints */
    double psnr_hints; /* with 10 random hints, the same for every model */
    double mean;       /* of the training images' mean, without hints */
    double nearest;    /* of the nearest of those hints' colour */
    size_t images;
} qkv_colorize_score;

/* limit: so many images, evenly over all (0: all). t is reset and used without recording. */
qkv_status qkv_colorize_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *images,
                                 size_t limit, qkv_colorize_score *out);

/* What is known: the colour at a pixel. */
typedef struct {
    size_t x, y;
    uint8_t rgb[3];
} qkv_color_hint;

/* An image of any size with 3 channels: its lightness with the model's colours, made at the size
 * that the model knows and stretched over it. A hint beyond the image: QKV_E_ARGUMENT. t is reset
 * and used without recording. On failure *out is empty. */
qkv_status qkv_colorize(qkv_image *out, qkv_model *m, qkv_tape *t, const qkv_image *in,
                        const qkv_color_hint *hints, size_t count);

QKV_END_DECLS
#endif
