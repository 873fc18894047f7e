/* vqgan.h - VQGAN: a convolutional encoder and decoder with a codebook between them, which turn an
 * image into a code grid and back, and the discriminator of real and decoded patches (Esser et al.
 * 2021), with the names of taming-transformers.
 * Layer: model */
#ifndef QKV_VQGAN_H
#define QKV_VQGAN_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "qkv_vqgan". Pixels are scaled to [-1, 1]. */
const qkv_model_type *qkv_vqgan_type(void);

/* Configuration. Ranges and defaults (those of the published f16 model): qkv_model_type_config. */
typedef struct {
    size_t channels;      /* of the first level; a multiple of 32 */
    qkv_sizes multiples;  /* factor of channels at each level; levels halve the image */
    size_t blocks;        /* per level of the encoder; the decoder has one more per level */
    qkv_sizes attention;  /* sides of the levels with attention after each block, */
    size_t image;         /* for images of this side; other sides are allowed */
    size_t colors;        /* channels of a pixel, 1 or 3 */
    size_t z_channels;    /* channels between encoder and codebook */
    size_t code_width;    /* width of a codebook vector */
    size_t codes;
    double dropout;
    size_t disc_channels; /* discriminator: of its first layer; at most 8 times as many later */
    size_t disc_layers;    /* discriminator: strided convolutions; 0: no discriminator */
} qkv_vqgan_config;

/* Side in pixels of the square that a code covers; divides the sides of every image. */
size_t qkv_vqgan_factor(const qkv_model *m);

/* ---- the network; NULL once anything on the tape has failed --------------------------------- */

/* pixels (B, H, W, colors) -> vectors to quantise (B, H / factor, W / factor, code width). */
qkv_tensor *qkv_vqgan_encode(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* z, from encode -> the nearest codes, i32 (B, H / factor, W / factor). */
qkv_tensor *qkv_vqgan_codes(qkv_model *m, qkv_tape *t, qkv_tensor *z);
/* codes -> their vectors (.., code width). */
qkv_tensor *qkv_vqgan_vectors(qkv_model *m, qkv_tape *t, qkv_tensor *codes);
/* vectors (B, h, w, code width) -> pixels (B, factor h, factor w, colors), not clipped. */
qkv_tensor *qkv_vqgan_decode(qkv_model *m, qkv_tape *t, qkv_tensor *vectors);
/* pixels -> the discriminator's logits (B, h, w, 1), one per patch; larger: more real. */
qkv_tensor *qkv_vqgan_discriminate(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

/* The weight of the last layer, where adaptive loss weights compare gradients. */
qkv_param *qkv_vqgan_last(qkv_model *m);
/* True if the parameter belongs to the discriminator. */
bool qkv_vqgan_is_discriminator(const qkv_param *p);
/* The codebook (codes, code width). */
qkv_param *qkv_vqgan_codebook(qkv_model *m);
/* (codes), frozen, initially zero, not saved with the model: recent frequency of each code, updated
 * by the training task. Zeros: training initialises the codebook from vectors of a batch. Ones:
 * training keeps the codebook. */
qkv_param *qkv_vqgan_usage(qkv_model *m);

QKV_END_DECLS
#endif
