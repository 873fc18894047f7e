/* mae.h - masked autoencoders: an encoder of visible patches, a decoder of the masked patches
 * (He et al. 2021), in Hugging Face's names and configuration.
 * Layer: model */
#ifndef QKV_MAE_H
#define QKV_MAE_H

#include <qkv/vit.h>

QKV_BEGIN_DECLS

/* model_type "vit_mae", architecture ViTMAEForPreTraining. The encoder is a vit with fixed 2-D
 * sinusoids as positions. Ranges and defaults of qkv_mae_config: qkv_model_type_config. */
const qkv_model_type *qkv_mae_type(void);

typedef struct {
    qkv_patches_config trunk; /* the encoder */
    size_t decoder_width, decoder_layers, decoder_heads;
    size_t decoder_ff_width;
    double mask_ratio; /* share of the patches that training masks                 [0, 1) */
    bool norm_pix;     /* the targets are patches minus their mean, divided by their std */
} qkv_mae_config;

/* ---- visible patches ---------------------------------------------------------------------- */

/* For each image an order of its patches (numbered row by row). The first `kept` are visible. */
typedef struct {
    size_t images, patches, kept; /* 1 <= kept <= patches */
    const int32_t *order;           /* (images, patches), the caller's; must outlive the step */
} qkv_mae_masks;

/* Number of visible patches: patches (1 - ratio), rounded down, at least 1. */
size_t qkv_mae_kept(size_t patches, double ratio);
/* Fills order (patches): the patches by increasing noise (patches), lower number first if equal. */
void qkv_mae_order(int32_t *order, const qkv_real *noise, size_t patches);
/* Fills order (patches) with a uniformly random permutation, a function of (seed, sample). */
void qkv_mae_shuffle(int32_t *order, size_t patches, uint64_t seed, uint64_t sample);

/* ---- the network; NULL once anything on the tape has failed --------------------------------- */

/* pixels (B, H, W, channels) -> the tokens (B, patches, width) of patches, row by row, before
 * positions are added. */
qkv_tensor *qkv_mae_embed(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* pixels (B, H, W, channels) -> the encoder's normed output (B, 1 + kept, width): the class token,
 * then the visible patches in their order. */
qkv_tensor *qkv_mae_encode(qkv_model *m, qkv_tape *t, qkv_tensor *pixels,
                           const qkv_mae_masks *masks);
/* encoded -> the decoder's normed output (B, 1 + patches, decoder width), patches row by row. */
qkv_tensor *qkv_mae_decode(qkv_model *m, qkv_tape *t, qkv_tensor *encoded,
                           const qkv_mae_masks *masks);
/* decoded -> predicted patches (B, patches, patch * patch * channels), each in order row, column,
 * channel. */
qkv_tensor *qkv_mae_patches(qkv_model *m, qkv_tape *t, qkv_tensor *decoded);
/* The targets: the patches of pixels; with norm_pix minus their mean and divided by
 * sqrt(variance + 1e-6), where the variance is unbiased (n - 1). */
qkv_tensor *qkv_mae_targets(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* Mean squared error of the masked patches -> (); 0 if no patch is masked. */
qkv_tensor *qkv_mae_loss(qkv_model *m, qkv_tape *t, qkv_tensor *decoded, qkv_tensor *pixels,
                         const qkv_mae_masks *masks);

QKV_END_DECLS
#endif
