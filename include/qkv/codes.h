/* codes.h - images as grids of codes: learning them, evaluating them, coding and decoding.
 * Layer: task */
#ifndef QKV_CODES_H
#define QKV_CODES_H

#include <qkv/augment.h>
#include <qkv/perceptual.h>
#include <qkv/task.h>
#include <qkv/vqgan.h>

QKV_BEGIN_DECLS

typedef enum { QKV_GAN_HINGE, QKV_GAN_VANILLA, QKV_GAN_LOSSES } qkv_gan_loss;

/* What is minimised (Esser et al. 2021, and the code that its authors published). Ranges, defaults
 * and flags: qkv_codes_table. */
typedef struct {
    double codebook;    /* weight of the codes' loss */
    double commitment;  /* beta: what z pays against what codes pay for lying apart */
    bool legacy;        /* beta weighs what codes pay, as the authors' code has it */
    double squared;     /* weight of the squared error beside the absolute one */
    double perceptual;  /* weight of the perceptual distance beside the absolute error */
    double adversarial; /* weight of the discriminator, beside the ratio of gradients; 0: none */
    uint64_t disc_start;  /* steps before the discriminator takes part */
    uint64_t disc_ramp;   /* over so many steps its share grows to all of it; 0: at once */
    qkv_gan_loss disc_loss;
    bool second;        /* the discriminator sees images decoded anew after the update */
    double decay; /* codes are running means of what is coded with them, of such a decay a step (van
                     den Oord et al. 2017); 0: gradients move them, as the authors have it */
    bool revive;        /* codes that are not met become what is to be coded */
    qkv_augment_options augment;
} qkv_codes_options;
const qkv_option_table *qkv_codes_table(void);
qkv_codes_options qkv_codes_defaults(void);

/* Learn codes for images of the model's side and colours, with a discriminator in a phase of its
 * own if `adversarial`. lpips: a qkv_perceptual, which is not trained; NULL: the absolute
 * error is all. Of what is held out, the error and the weighed distance choose the model, until the
 * discriminator takes part: from then on the newest is kept. train, valid (NULL: nothing is held
 * out), the models must outlive the task; options may be NULL. On failure out->self is NULL. */
qkv_status qkv_task_codes(qkv_task *out, qkv_model *model, qkv_model *lpips,
                          const qkv_pixels *train, const qkv_pixels *valid,
                          const qkv_codes_options *options, uint64_t seed);

typedef struct {
    double loss;       /* mean absolute error, of values in [-1, 1], and the weighed distance */
    double psnr;       /* dB, of 8-bit values */
    double ssim;       /* see qkv_ssim; NaN where images are too small for it */
    double used;       /* share of the codes that occur */
    double perplexity; /* 2^entropy of their frequencies */
    size_t images;
} qkv_codes_score;

/* limit: so many images, evenly over the set (0: all). lpips as in training, or NULL. t is reset
 * and used without recording. */
qkv_status qkv_codes_evaluate(qkv_model *m, qkv_model *lpips, double perceptual, qkv_tape *t,
                              const qkv_pixels *pixels, size_t limit, qkv_codes_score *out);

/* The share of the images that are found again by what their codes show: of all the images, the
 * nearest to that by squared error is the true one. Time goes with the square of their number. t is
 * reset and used without recording. */
qkv_status qkv_codes_find(qkv_model *m, qkv_tape *t, const qkv_pixels *pixels, double *share);

/* How decoded images look to a network beside the true ones, both of 8-bit values. */
typedef struct {
    double lpips;   /* mean of qkv_perceptual_distance */
    double frechet; /* qkv_frechet_distance of what the network's last stage makes of them, the
                       mean over its pixels: true images first */
    size_t features; /* numbers of such a mean */
    size_t images;
} qkv_codes_likeness;

/* lpips: a qkv_perceptual; the model's images have 3 channels, and there are 2 at least. t is
 * reset and used without recording. */
qkv_status qkv_codes_compare(qkv_model *m, qkv_model *lpips, qkv_tape *t,
                             const qkv_pixels *pixels, qkv_codes_likeness *out);

/* images (n, height, width, colors), sides multiples of qkv_vqgan_factor -> codes (n, height /
 * factor, width / factor); and back. The arrays are the caller's; t is reset and used without
 * recording. */
qkv_status qkv_images_encode(qkv_model *m, qkv_tape *t, const uint8_t *images, size_t n,
                             size_t height, size_t width, int32_t *codes);
/* QKV_E_ARGUMENT for a code that the model does not have, with its place. */
qkv_status qkv_images_decode(qkv_model *m, qkv_tape *t, const int32_t *codes, size_t n,
                             size_t rows, size_t columns, uint8_t *images);

QKV_END_DECLS
#endif
