/* codes.h - image codes: training a VQGAN, evaluating it, encoding and decoding.
 * Layer: task */
#ifndef QKV_CODES_H
#define QKV_CODES_H

#include <qkv/augment.h>
#include <qkv/perceptual.h>
#include <qkv/task.h>
#include <qkv/vqgan.h>

QKV_BEGIN_DECLS

typedef enum { QKV_GAN_HINGE, QKV_GAN_VANILLA, QKV_GAN_LOSSES } qkv_gan_loss;

/* The training loss (Esser et al. 2021, and its authors' code). Ranges, defaults and flags:
 * qkv_codes_table. */
typedef struct {
    double codebook;    /* weight of the codebook loss, which includes commitment */
    double commitment;  /* beta: weight of the commitment term (on z) against the codebook term */
    bool legacy;        /* beta weighs the codebook term instead, as in the authors' code */
    double squared;     /* weight of the squared error, added to the absolute error */
    double perceptual;  /* weight of the perceptual distance, added to the absolute error */
    double adversarial; /* weight of the adversarial loss, times the ratio of gradients; 0: none */
    uint64_t disc_start;  /* step at which the discriminator starts */
    uint64_t disc_ramp;   /* steps over which its weight grows from 0 to full; 0: at once */
    qkv_gan_loss disc_loss;
    bool second;        /* the discriminator sees images decoded again after the update */
    double decay; /* > 0: codes are moving averages of their vectors with this decay per step (van
                     den Oord et al. 2017); 0: gradients train them, as in the authors' code */
    bool revive;        /* replace unused codes by vectors of the batch */
    qkv_augment_options augment;
} qkv_codes_options;
const qkv_option_table *qkv_codes_table(void);
qkv_codes_options qkv_codes_defaults(void);

/* A task that trains a VQGAN on images of the model's side and channels; if `adversarial` is set,
 * also its discriminator, in a second phase. lpips: a qkv_perceptual, not trained; NULL: no
 * perceptual distance. The best model has the least error plus weighted distance on held-out data;
 * once the discriminator starts, the newest is kept. train, valid (NULL: nothing is held out) and
 * the models must outlive the task. options may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_codes(qkv_task *out, qkv_model *model, qkv_model *lpips,
                          const qkv_pixels *train, const qkv_pixels *valid,
                          const qkv_codes_options *options, uint64_t seed);

typedef struct {
    double loss;       /* mean absolute error, of values in [-1, 1], plus the weighted distance */
    double psnr;       /* dB, of 8-bit values */
    double ssim;       /* qkv_ssim; NaN if the images are too small */
    double used;       /* share of the codebook that occurs */
    double perplexity; /* 2^entropy of the code frequencies */
    size_t images;
} qkv_codes_score;

/* limit: number of images, evenly spaced (0: all). lpips as in training, or NULL. t is reset and
 * used without recording. */
qkv_status qkv_codes_evaluate(qkv_model *m, qkv_model *lpips, double perceptual, qkv_tape *t,
                              const qkv_pixels *pixels, size_t limit, qkv_codes_score *out);

/* Sets *share to the share of images whose decoded version is nearer, by squared error, to the
 * original than to any other image of the set. Time is quadratic in the number of images. t is
 * reset and used without recording. */
qkv_status qkv_codes_find(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels, double *share);

/* Similarity of decoded images to the originals, as 8-bit values, according to a network. */
typedef struct {
    double lpips;   /* mean of qkv_perceptual_distance */
    double frechet; /* qkv_frechet_distance, originals first, of the network's last-stage features,
                       averaged over pixels */
    size_t features; /* width of these features */
    size_t images;
} qkv_codes_likeness;

/* lpips: a qkv_perceptual. The model's images have 3 channels; there are at least 2. t is reset and
 * used without recording. */
qkv_status qkv_codes_compare(qkv_model *m, qkv_model *lpips, qkv_tape *t,
                             const qkv_pixels *pixels, qkv_codes_likeness *out);

/* encode: images (n, height, width, colors) -> codes (n, height / factor, width / factor); sides
 * are multiples of factor, qkv_vqgan_factor. decode: the reverse. The arrays are the caller's. t is
 * reset and used without recording. */
qkv_status qkv_images_encode(qkv_model *m, qkv_tape *t, const uint8_t *images, size_t n,
                             size_t height, size_t width, int32_t *codes);
/* QKV_E_ARGUMENT, with the position in the message, for a code out of range. */
qkv_status qkv_images_decode(qkv_model *m, qkv_tape *t, const int32_t *codes, size_t n,
                             size_t rows, size_t columns, uint8_t *images);

QKV_END_DECLS
#endif
