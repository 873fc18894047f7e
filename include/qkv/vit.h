/* vit.h - image classifiers, and encoders without a head: the Vision Transformer (Dosovitskiy et
 * al. 2020) with Hugging Face's names and configuration, and the compact convolutional transformer,
 * whose tokens come from convolutions (CCT, Hassani et al. 2021).
 * Layer: model */
#ifndef QKV_VIT_H
#define QKV_VIT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "vit", architecture ViTForImageClassification: a class token, learned positions, a
 * pre-norm stack, and a linear layer from the class token to logits. */
const qkv_model_type *qkv_vit_type(void);

/* model_type "qkv_cct". Convolutions, each followed by ReLU and a pool that halves the image, make
 * the tokens. Blocks are pre-norm, but the second norm's output replaces the stream. A linear layer
 * gives each token a weight; the logits come from the weighted sum of all tokens. Tensor names are
 * the authors'. */
const qkv_model_type *qkv_cct_type(void);

/* The same without what makes logits, architectures ViTModel and QkvCompactEncoder: encoders whose
 * output is a vector of the image. ViTModel's pooler is loaded and saved, but frozen and not
 * used. */
const qkv_model_type *qkv_vit_encoder_type(void);
const qkv_model_type *qkv_cct_encoder_type(void);

/* Configuration of all types; ranges and defaults: qkv_model_type_config. */
typedef struct {
    qkv_patches_config trunk;
    size_t classes;
    size_t stride; /* vit: "encoder_stride" of the files; not used */
    /* cct, whose patch is always 1 pixel: */
    size_t convolutions;
    size_t conv_channels; /* of all but the last, which has the trunk's width */
    bool positions;       /* learned position embedding; false: none */
} qkv_vit_config;

/* pixels (B, H, W, channels) -> the tokens (B, patches, width) of patches, row by row, before
 * positions and a class token are added. NULL once anything on the tape has failed. */
qkv_tensor *qkv_vit_embed(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* pixels (B, H, W, channels) -> the normed output of the last block (B, tokens, width). vit: the
 * class token first, then the patches, row by row. NULL once anything on the tape has failed. */
qkv_tensor *qkv_vit_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* Encoders only. pixels -> the image's vector (B, width): vit, the output of the class token; cct,
 * the weighted sum of all tokens. Not normalised. */
qkv_tensor *qkv_vit_vectors(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* Classifiers only. pixels -> logits (B, classes). */
qkv_tensor *qkv_vit_logits(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

QKV_END_DECLS
#endif
