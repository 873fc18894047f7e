/* colorize.h - colourisation of grey images, with or without colour hints: training, evaluation,
 * inference.
 * Layer: task */
#ifndef QKV_COLORIZE_H
#define QKV_COLORIZE_H

#include <qkv/augment.h>
#include <qkv/pixelwise.h>
#include <qkv/task.h>

QKV_BEGIN_DECLS

typedef struct {
    double huber; /* Huber loss: delta, on a / 110 and b / 110                              1 */
    size_t hints; /* maximum number of hints in training; 0 and small numbers are likelier 64 */
    qkv_augment_options augment; /* no mixing                                             none */
} qkv_colorize_options;
const qkv_option_table *qkv_colorize_table(void);
qkv_colorize_options qkv_colorize_defaults(void);

/* Means of Lab a and b over the pixels of `count` images (NULL: the first), for the model's
 * configuration. QKV_E_MEMORY. */
qkv_status qkv_colorize_mean(qkv_context *ctx, const qkv_pixels *p, const size_t *images,
                             size_t count, double mean[2]);

/* A task that trains a qkv_colorizer to predict a and b of each pixel from lightness and a random
 * number of hints, cells of the image with their mean colour. Images have the model's size and 3
 * channels. train, valid (NULL: nothing is held out) and the model must outlive the task. options
 * may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_colorize(qkv_task *out, qkv_model *model, const qkv_pixels *train,
                             const qkv_pixels *valid, const qkv_colorize_options *options,
                             uint64_t seed);

enum { QKV_COLORIZE_HINTS = 10 };
/* Mean squared errors of a and b over all pixels, as 10 log10(255^2 / error) dB. */
typedef struct {
    double psnr;       /* without hints */
    double psnr_hints; /* with 10 random hints, the same for every model */
    double mean;       /* baseline: the training images' mean colour */
    double nearest;    /* baseline: the colour of the nearest of the 10 hints */
    size_t images;
} qkv_colorize_score;

/* limit: number of images, evenly spaced (0: all). t is reset and used without recording. */
qkv_status qkv_colorize_evaluate(qkv_model *m, qkv_tape *t, const qkv_pixels *images,
                                 size_t limit, qkv_colorize_score *out);

/* A hint: the colour at a pixel. */
typedef struct {
    size_t x, y;
    uint8_t rgb[3];
} qkv_color_hint;

/* Colours an image with 3 channels and any size. The model predicts a and b at its own size; they
 * are resized and combined with the image's lightness. missing: (height, width) or NULL, not 0
 * where the image has no colours: pixels elsewhere keep theirs, and each cell of which at least
 * half has them becomes a hint, their mean. NULL: no colours are known but the hints'. A hint
 * outside the image: QKV_E_ARGUMENT. t is reset and used without recording. Free *out with
 * qkv_image_free. On failure it is empty. */
qkv_status qkv_colorize(qkv_image *out, qkv_model *m, qkv_tape *t, const qkv_image *in,
                        const uint8_t *missing, const qkv_color_hint *hints, size_t count);

QKV_END_DECLS
#endif
