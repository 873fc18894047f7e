/* augment_steps.h - the steps of augmentation: changes of an image, and mixtures of two. */
#ifndef QKV_SRC_IMAGE_AUGMENT_STEPS_H
#define QKV_SRC_IMAGE_AUGMENT_STEPS_H

#include "base/base.h"
#include "qkv/augment.h"

/* ---- augment_ops.c: one change of an image, as Pillow makes it ------------------------------- */

/* out and in have one size, 1 or 3 channels, and memory of their own. fill: the colour of what
 * comes from beyond the edge. */
typedef void qkv__image_op_fn(qkv_image *out, const qkv_image *in, double value,
                              const uint8_t fill[3]);
qkv__image_op_fn qkv__autocontrast; /* each channel stretched to 0 .. 255; value unused */
qkv__image_op_fn qkv__equalize;    /* each channel's histogram made flat; value unused */
qkv__image_op_fn qkv__solarize;    /* values >= value are inverted */
qkv__image_op_fn qkv__posterize;   /* value bits are kept, rounded up */
qkv__image_op_fn qkv__saturate;    /* 0: grey, 1: as it is, above: more colour */
qkv__image_op_fn qkv__contrast;    /* 0: the mean grey */
qkv__image_op_fn qkv__brightness;  /* 0: black */
qkv__image_op_fn qkv__hue;         /* moved by a share of the colour circle, brightness kept */
qkv__image_op_fn qkv__sharpness;   /* 0: smoothed, 2: sharpened */

/* Where the pixels of a changed image come from, x and y between pixels' corners:
 * x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]. */
typedef void qkv__place_fn(double m[6], const qkv_image *of, double value);
qkv__place_fn qkv__rotate;         /* degrees, counter-clockwise, about the middle */
qkv__place_fn qkv__shear_x;        /* rows move left by value * their number */
qkv__place_fn qkv__shear_y;
qkv__place_fn qkv__translate_x;    /* left, a share of the width */
qkv__place_fn qkv__translate_y;

/* Is the place that m has for the middle of pixel (x, y) inside of? Then at is that place. */
bool qkv__place(double at[2], const double m[6], const qkv_image *of, size_t x, size_t y);
/* Bilinear. */
void qkv__transform(qkv_image *out, const qkv_image *in, const double m[6],
                    const uint8_t fill[3]);

/* ---- augment.c: what models get ------------------------------------------------------------ */

/* For value v of channel c: (v / 255 - mean) / std. */
typedef struct {
    qkv_real of[3][256];
} qkv__values;

void qkv__values_make(qkv__values *t, const double mean[3], const double std[3]);
/* `size` values of C channels. */
void qkv__values_put(qkv_real *x, const uint8_t *data, size_t size, size_t C,
                     const qkv__values *t);

/* ---- augment_image.c: what happens to one sample --------------------------------------------- */

/* Memory for one thread's work. */
typedef struct {
    qkv_context *ctx; /* of this thread alone */
    qkv_image spare;
    int32_t *from;       /* (height, width) of the sample made last: the number of the pixel that
                            each was, or -1 when it lies beyond the edge; NULL: nobody asks */
    int32_t *spare_from; /* the same size */
} qkv__augmenter;

/* Changes `from` as the options say, by the numbers of r, into out; both have one size. */
qkv_status qkv__augment(qkv_image *out, const qkv_image *from, const qkv_augment_options *o,
                        const uint8_t fill[3], qkv_rng *r, qkv__augmenter *a);

/* ---- mix.c: mixup and cutmix --------------------------------------------------------------- */

/* What a sample is made of. Rows top .. bottom - 1 and columns left .. right - 1 are its partner's
 * (an empty box: none); all else is the sample's with weight keep and the partner's with
 * 1 - pixel_keep. */
typedef struct {
    double keep;       /* the sample's share of the target */
    double pixel_keep; /* of its pixels outside the box: 1, but for mixup */
    size_t top, bottom, left, right;
} qkv__mixture;

qkv__mixture qkv__draw_mixture(const qkv_augment_options *o, size_t height, size_t width,
                               qkv_rng *r);
double qkv__rng_beta(qkv_rng *r, double a); /* Beta(a, a), a > 0 */

/* The tables themselves, for lists that are constant. */
extern const qkv_option_table qkv__augment_table, qkv__mix_table;

#endif
