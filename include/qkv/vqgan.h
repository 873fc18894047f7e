/* vqgan.h - images to a grid of codes and back: an encoder and a decoder of convolutions about a
 * table of codes, and the discriminator that tells patches of real images from decoded ones
 * (Esser et al. 2021), in the names of taming-transformers.
 * Layer: model */
#ifndef QKV_VQGAN_H
#define QKV_VQGAN_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "qkv_vqgan". Pixels are in [-1, 1]. */
extern const qkv_model_type qkv_vqgan_type;

/* Ranges and defaults, which are the published f16 model's: qkv_model_type_config. */
typedef struct {
    size_t channels;      /* of the first level; a multiple of 32 */
    qkv_sizes multiples;  /* of them, of each level; the image is halved between two levels */
    size_t blocks;        /* in a level of the encoder; the decoder's have one more */
    qkv_sizes attention;  /* sides of the levels whose blocks are followed by attention .. */
    size_t image;         /* .. where images have this side; others may have any */
    size_t colors;        /* channels of a pixel, 1 or 3 */
    size_t z_channels;    /* between encoder and codes */
    size_t code_width;    /* of a code's vector */
    size_t codes;
    double dropout;
    size_t disc_channels; /* the discriminator's first; at most 8 times as many in its others */
    size_t disc_layers;    /* its strided convolutions; 0: there is none */
} qkv_vqgan_config;

/* A side of the pixels that one code stands for: images' sides are multiples of it. */
size_t qkv_vqgan_factor(const qkv_model *m);

/* ---- the network; NULL once anything on the tape has failed --------------------------------- */

/* pixels (B, H, W, colors) -> what is to be coded, (B, H / factor, W / factor, code width). */
qkv_tensor *qkv_vqgan_encode(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* That -> the nearest codes, i32 (B, H / factor, W / factor). */
qkv_tensor *qkv_vqgan_codes(qkv_model *m, qkv_tape *t, qkv_tensor *z);
/* Codes -> their vectors, (.., code width). */
qkv_tensor *qkv_vqgan_vectors(qkv_model *m, qkv_tape *t, qkv_tensor *codes);
/* Vectors (B, h, w, code width) -> pixels (B, factor h, factor w, colors), not clipped. */
qkv_tensor *qkv_vqgan_decode(qkv_model *m, qkv_tape *t, qkv_tensor *vectors);
/* pixels -> how real the discriminator takes each patch to be, (B, h, w, 1). */
qkv_tensor *qkv_vqgan_discriminate(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

/* The weight of the last layer, at which the losses' gradients are weighed. */
qkv_param *qkv_vqgan_last(qkv_model *m);
/* Whether a parameter is the discriminator's. */
bool qkv_vqgan_is_discriminator(const qkv_param *p);
/* The table of codes (codes, code width). */
qkv_param *qkv_vqgan_codebook(qkv_model *m);
/* (codes), frozen, zeros at first and no part of the model's files: how often training has met each
 * code lately. Whoever trains keeps it. Zeros: training begins with codes drawn from a batch; ones:
 * with those that there are. */
qkv_param *qkv_vqgan_usage(qkv_model *m);

QKV_END_DECLS
#endif
