/* vit.h - image classifiers, and encoders without a head: the Vision Transformer (Dosovitskiy et
 * al. 2020) and its kin DeiT (Touvron et al. 2020) and DINOv2 (Oquab et al. 2023) with Hugging
 * Face's names and configuration, and the compact convolutional transformer, whose tokens come from
 * convolutions (CCT, Hassani et al. 2021).
 * Layer: model */
#ifndef QKV_VIT_H
#define QKV_VIT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "vit", architecture ViTForImageClassification: a class token, learned positions, a
 * pre-norm stack, and a linear layer from the class token to logits. */
const qkv_model_type *qkv_vit_type(void);

/* model_type "deit", architectures DeiTForImageClassification, which is vit with one more token
 * behind the class token, and DeiTForImageClassificationWithTeacher, whose logits are the mean of
 * those of two linear layers, from either token. */
const qkv_model_type *qkv_deit_type(void);
const qkv_model_type *qkv_deit_teacher_type(void);

/* model_type "dinov2" and "dinov2_with_registers", architectures Dinov2ForImageClassification and
 * Dinov2WithRegistersForImageClassification: vit with factors of each sublayer's output, the latter
 * with tokens without positions between the class token and the patches; a linear layer from the
 * class token and the mean of the patches to logits. */
const qkv_model_type *qkv_dinov2_type(void);
const qkv_model_type *qkv_dinov2_registers_type(void);

/* model_type "qkv_cct". Convolutions, each followed by ReLU and a pool that halves the image, make
 * the tokens. Blocks are pre-norm, but the second norm's output replaces the stream. A linear layer
 * gives each token a weight; the logits come from the weighted sum of all tokens. Tensor names are
 * the authors'. */
const qkv_model_type *qkv_cct_type(void);

/* The same without what makes logits, architectures ViTModel, DeiTModel, Dinov2Model,
 * Dinov2WithRegistersModel and QkvCompactEncoder: encoders whose output is a vector of the image.
 * The pooler of the first two is loaded and saved where a file has one, but frozen and not used. */
const qkv_model_type *qkv_vit_encoder_type(void);
const qkv_model_type *qkv_deit_encoder_type(void);
const qkv_model_type *qkv_dinov2_encoder_type(void);
const qkv_model_type *qkv_dinov2_registers_encoder_type(void);
const qkv_model_type *qkv_cct_encoder_type(void);
/* The type of the same family as `of`, any of the above, that is an encoder or a classifier:
 * of's own where it is one. NULL: `of` is none of the above. */
const qkv_model_type *qkv_vit_with_head(const qkv_model *of, bool encoder);

/* Configuration of all types; ranges and defaults: qkv_model_type_config. */
typedef struct {
    qkv_patches_config trunk;
    size_t classes;
    size_t stride; /* vit, deit: "encoder_stride" of the files; not used */
    size_t pooled; /* vit, deit: outputs of the pooler; 0: width */
    /* cct, whose patch is always 1 pixel: */
    size_t convolutions;
    size_t conv_channels; /* of all but the last, which has the trunk's width */
    bool positions;       /* learned position embedding; false: none */
} qkv_vit_config;

/* pixels (B, H, W, channels) -> the tokens (B, patches, width) of patches, row by row, before
 * positions and a class token are added. NULL once anything on the tape has failed. */
qkv_tensor *qkv_vit_embed(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* Tokens before the patches: of vit 1, the class token; of deit 2; with registers 1 and those; of
 * cct 0. */
size_t qkv_vit_leads(const qkv_model *m);
/* pixels (B, H, W, channels) -> the normed output of the last block (B, tokens, width): those
 * tokens first, then the patches, row by row. NULL once anything on the tape has failed. */
qkv_tensor *qkv_vit_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* Encoders only. pixels -> the image's vector (B, width): the output of the class token; cct, the
 * weighted sum of all tokens. Not normalised. */
qkv_tensor *qkv_vit_vectors(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* Classifiers only. pixels -> logits (B, classes). */
qkv_tensor *qkv_vit_logits(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

QKV_END_DECLS
#endif
