/* augment.h - batches of images as numbers, each image changed by chance every time it is seen.
 * Layer: image
 *
 * What a sample is follows from (set, options, seed, its number in the run) alone: neither the
 * number of threads nor how samples are cut into batches changes a bit of it. */
#ifndef QKV_AUGMENT_H
#define QKV_AUGMENT_H

#include <qkv/options.h>
#include <qkv/pixels.h>

QKV_BEGIN_DECLS

/* What is done to an image, in this order; zeroed: nothing. Ranges, defaults and flags:
 * qkv_augment_table and, of what mixes images, qkv_mix_table. What lies beyond an image's edge
 * is of the mean colour. A mask goes where its image goes: crop_scale, crop_pad, flip and what
 * randaugment does to places change both, the mask by its nearest pixels; all else changes the
 * image alone. */
typedef struct {
    double crop_scale; /* 0: none. A part of at least this share of the area, of shape 3/4 to 4/3,
                          becomes the image (Szegedy et al. 2015) */
    qkv_resize_filter crop_filter;
    size_t crop_pad;   /* moved by up to so many pixels each way */
    bool flip;         /* left and right exchanged, every other time */
    size_t randaugment;      /* so many changes, each drawn from the 14 of RandAugment (Cubuk et
                                al. 2020): see qkv_augment_names */
    double magnitude;        /* their strength, of 10 */
    double magnitude_spread; /* its standard deviation */
    double erase;  /* probability that a part, 2 to 33 % of the area and of shape 0.3 to 3.3,
                      becomes the mean colour (Zhong et al. 2017) */
    double mixup;  /* 0: none. A sample and its partner are added, weights from Beta(a, a) (Zhang
                      et al. 2018) */
    double cutmix; /* 0: none. A part of the partner, its share from Beta(a, a), lies over the
                      sample (Yun et al. 2019) */
    double mix;    /* probability of one of the two; with both given, either is as likely.
                      Samples 2i and 2i + 1 of a run are partners, each with a share of its own */
} qkv_augment_options;
/* Of one struct: the second changes its own fields alone and is bound after the first. */
const qkv_option_table *qkv_augment_table(void);
const qkv_option_table *qkv_mix_table(void);
qkv_augment_options qkv_augment_defaults(void);
bool qkv_augment_mixes(const qkv_augment_options *o); /* mixup or cutmix */

/* RandAugment's changes, with what the magnitude m makes of them; +-: either, by chance:
 *   identity, autocontrast, equalize    (no strength)
 *   rotate          +-3 m degrees, bilinear
 *   solarize        values of at least 256 - 25.6 m are inverted
 *   color, contrast, brightness, sharpness      factor 1 +- 0.09 m
 *   posterize       8 - floor(0.4 m) bits are kept
 *   shear-x, shear-y            by +-0.03 m
 *   translate-x, translate-y    by +-4.5 m % of the width, the height
 * NULL ends the list. */
const char *const *qkv_augment_names(void);

enum { QKV_BEYOND = -1 }; /* the class of what lies beyond an image's edge */

typedef struct qkv_batches qkv_batches;

typedef struct {
    const size_t *images;    /* the images of an epoch; NULL: the first count of the set */
    size_t count;
    double mean[3], std[3];  /* of each channel, of values in [0, 1]; std above 0 */
    double smoothing;        /* of targets: this share goes to all classes alike, [0, 1) */
    uint64_t seed;
    qkv_augment_options augment;
    const qkv_pixels *masks; /* of the same images, as from qkv_masks_read; NULL: none. Such
                                images are not mixed */
} qkv_batches_options;

/* Batches that go through the images in an order shuffled anew for every epoch. pixels,
 * options->images and options->masks must outlive them. On failure *out is NULL. */
qkv_status qkv_batches_create(qkv_batches **out, qkv_context *ctx, const qkv_pixels *pixels,
                              const qkv_batches_options *options);
void qkv_batches_destroy(qkv_batches *b); /* NULL is allowed */

/* Samples first .. first + n - 1 of the run: x (n, height, width, channels), (value - mean) / std;
 * targets (n, classes), each row sums to 1, may be NULL when nothing is mixed; numbers (n) of the
 * images, may be NULL. An image without a class and targets: QKV_E_ARGUMENT. On the context's
 * team; memory is taken once. */
qkv_status qkv_batches_get(qkv_batches *b, uint64_t first, size_t n, qkv_real *x,
                           qkv_real *targets, size_t *numbers);

/* The same as bytes, (n, height, width, channels), and, each NULL or not, the classes of their
 * pixels, (n, height, width): the masks' or QKV_BEYOND, NULL without masks; and the numbers of the
 * images (n). They are b's, until its next batch. Mixed images: QKV_E_ARGUMENT. */
qkv_status qkv_batches_bytes(qkv_batches *b, uint64_t first, size_t n, const uint8_t **pixels,
                             const int32_t **classes, const size_t **numbers);

/* Images as they are: x (n, height, width, channels), (value - mean) / std, of those numbered
 * images (n). */
void qkv_pixels_values(qkv_real *x, qkv_context *ctx, const qkv_pixels *p, const size_t *images,
                       size_t n, const double mean[3], const double std[3]);

QKV_END_DECLS
#endif
