/* augment.h - batches of images with random augmentation.
 * Layer: image
 *
 * A sample is a function of (set, options, seed, its index in the run), bit by bit. The number of
 * threads and the batch size do not affect it. */
#ifndef QKV_AUGMENT_H
#define QKV_AUGMENT_H

#include <qkv/options.h>
#include <qkv/pixels.h>

QKV_BEGIN_DECLS

/* Augmentations, in the order of application. Zeroed: none. Ranges, defaults and flags:
 * qkv_augment_table, and for mixup and cutmix qkv_mix_table. The mean colour fills pixels beyond
 * the image's edge. crop_scale, crop_pad, flip and the geometric ops of randaugment also apply to
 * the image's mask, with nearest-pixel sampling. The others change the image only. */
typedef struct {
    double crop_scale; /* random resized crop: minimum share of the area, aspect ratio 3/4 to 4/3
                          (Szegedy et al. 2015); 0: none */
    qkv_resize_filter crop_filter;
    size_t crop_pad;   /* random shift in each direction, maximum in pixels */
    bool flip;         /* horizontal flip with probability 1/2 */
    double jitter; /* s: with probability 0.8 brightness, contrast and saturation change by factors
                      in 1 +- 0.8 s, and the hue by up to 0.2 s of the circle, in random order (Chen
                      et al. 2020, appendix A); 0: none */
    double grey;   /* probability of losing all colour */
    size_t randaugment;      /* number of ops per image, drawn from the 14 of RandAugment (Cubuk et
                                al. 2020): see qkv_augment_names */
    double magnitude;        /* strength of the ops, of 10 */
    double magnitude_spread; /* std of the magnitude */
    double erase;  /* random erasing: probability that the mean colour fills a rectangle of 2 to
                      33 % of the area, aspect ratio 0.3 to 3.3 (Zhong et al. 2017) */
    double mixup;  /* a: weights of a sample and its partner from Beta(a, a) (Zhang et al. 2018);
                      0: none */
    double cutmix; /* a: a rectangle of the partner, its share of the area from Beta(a, a), covers
                      the sample (Yun et al. 2019); 0: none */
    double mix;    /* probability of mixing; with both given, mixup and cutmix are equally likely.
                      Samples 2i and 2i + 1 of a run are partners, each with its own share */
} qkv_augment_options;
/* Two tables of one struct. Bind the second after the first; it changes only its own fields. */
const qkv_option_table *qkv_augment_table(void);
const qkv_option_table *qkv_mix_table(void);
qkv_augment_options qkv_augment_defaults(void);
bool qkv_augment_mixes(const qkv_augment_options *o); /* true if mixup or cutmix is set */

/* Names of RandAugment's ops. Their strength at magnitude m; +- is a random sign:
 *   identity, autocontrast, equalize    (no strength)
 *   rotate          +-3 m degrees, bilinear
 *   solarize        inverts values >= 256 - 25.6 m
 *   color, contrast, brightness, sharpness      factor 1 +- 0.09 m
 *   posterize       keeps 8 - floor(0.4 m) bits
 *   shear-x, shear-y            by +-0.03 m
 *   translate-x, translate-y    by +-4.5 m % of the width, the height
 * The list ends with NULL. */
const char *const *qkv_augment_names(void);

enum { QKV_BEYOND = -1 }; /* the class of mask pixels beyond the image's edge */

typedef struct qkv_batches qkv_batches;

typedef struct {
    const size_t *images;    /* (count) indices of an epoch's images; NULL: 0 .. count-1 */
    size_t count;
    double mean[3], std[3];  /* per channel, of values in [0, 1]; std > 0 */
    double smoothing;        /* label smoothing: share spread over all classes, [0, 1) */
    uint64_t seed;
    qkv_augment_options augment;
    size_t views; /* samples i views .. i views + views - 1 are augmentations of one image; 0: 1 */
    const qkv_pixels *masks; /* masks of the images, from qkv_masks_read; NULL: none. Excludes
                                mixup and cutmix */
} qkv_batches_options;

/* Batches of images, shuffled in every epoch. pixels, options->images and options->masks must
 * outlive them. On failure *out is NULL. */
qkv_status qkv_batches_create(qkv_batches **out, qkv_context *ctx, const qkv_pixels *pixels,
                              const qkv_batches_options *options);
void qkv_batches_destroy(qkv_batches *b); /* NULL is allowed */

/* Samples first .. first + n - 1 of the run. Fills x (n, height, width, channels) with (value -
 * mean) / std; targets (n, classes), whose rows sum to 1 (NULL if nothing is mixed: not needed);
 * numbers (n), the images' indices (may be NULL). QKV_E_ARGUMENT if targets is given and an image
 * has no class. Uses the context's threads. Allocates in the first call only. */
qkv_status qkv_batches_get(qkv_batches *b, uint64_t first, size_t n, qkv_real *x,
                           qkv_real *targets, size_t *numbers);

/* qkv_batches_get as bytes (n, height, width, channels). Sets classes, if not NULL, to the pixels'
 * classes (n, height, width), from the masks or QKV_BEYOND, or to NULL without masks; and numbers,
 * if not NULL, to the images' indices (n). b owns the arrays, valid until its next batch.
 * QKV_E_ARGUMENT if images are mixed. */
qkv_status qkv_batches_bytes(qkv_batches *b, uint64_t first, size_t n, const uint8_t **pixels,
                             const int32_t **classes, const size_t **numbers);

/* Images without augmentation: fills x (n, height, width, channels) with (value - mean) / std of
 * the images with indices images (n). */
void qkv_pixels_values(qkv_real *x, qkv_context *ctx, const qkv_pixels *p, const size_t *images,
                       size_t n, const double mean[3], const double std[3]);

QKV_END_DECLS
#endif
