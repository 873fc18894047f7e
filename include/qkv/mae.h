/* mae.h - masked images: an encoder that sees some patches, a decoder that fills in the others
 * (He et al. 2021), in Hugging Face's names and configuration.
 * Layer: model */
#ifndef QKV_MAE_H
#define QKV_MAE_H

#include <qkv/vit.h>

QKV_BEGIN_DECLS

/* model_type "vit_mae", architecture ViTMAEForPreTraining. The encoder is a vit with fixed 2-D
 * sinusoids for positions; ranges and defaults of qkv_mae_config: qkv_model_type_config. */
extern const qkv_model_type qkv_mae_type;

typedef struct {
    qkv_patches_config trunk; /* the encoder */
    size_t decoder_width, decoder_layers, decoder_heads;
    size_t decoder_ff_width;
    double mask_ratio; /* share of the patches that training hides                 [0, 1) */
    bool norm_pix;     /* learns each patch less its mean, over its standard deviation */
} qkv_mae_config;

/* ---- which patches are seen --------------------------------------------------------------- */

/* Of every image all patches, numbered row by row, in some order; the first `kept` are seen. */
typedef struct {
    size_t images, patches, kept; /* 1 <= kept <= patches */
    const int32_t *order;           /* (images, patches), the caller's; outlives the step */
} qkv_mae_masks;

/* patches (1 - ratio), rounded down, but 1 at least. */
size_t qkv_mae_kept(size_t patches, double ratio);
/* The order (patches) of rising noise (patches); of equal ones the lower number first. */
void qkv_mae_order(int32_t *order, const qkv_real *noise, size_t patches);
/* An order (patches) that depends on (seed, sample) alone, all equally likely. */
void qkv_mae_shuffle(int32_t *order, size_t patches, uint64_t seed, uint64_t sample);

/* ---- the network; NULL once anything on the tape has failed --------------------------------- */

/* pixels (B, H, W, channels) -> the encoder's normed output (B, 1 + kept, width): the first token,
 * then the patches that are seen, in their order. */
qkv_tensor *qkv_mae_encode(qkv_model *m, qkv_tape *t, qkv_tensor *pixels,
                           const qkv_mae_masks *masks);
/* That -> the decoder's normed output (B, 1 + patches, decoder width), row by row again. */
qkv_tensor *qkv_mae_decode(qkv_model *m, qkv_tape *t, qkv_tensor *encoded,
                           const qkv_mae_masks *masks);
/* That -> every patch as it is learnt (B, patches, patch * patch * channels): rows, columns,
 * channels of a patch. */
qkv_tensor *qkv_mae_patches(qkv_model *m, qkv_tape *t, qkv_tensor *decoded);
/* What the patches of pixels should be: themselves, or normed when the model learns that (less the
 * mean, over the root of 1e-6 and the variance of n - 1 degrees of freedom). */
qkv_tensor *qkv_mae_targets(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* Mean squared error of the hidden patches -> (); 0 when none is. */
qkv_tensor *qkv_mae_loss(qkv_model *m, qkv_tape *t, qkv_tensor *decoded, qkv_tensor *pixels,
                         const qkv_mae_masks *masks);

QKV_END_DECLS
#endif
