/* vit.h - images read as sequences of tokens: the Vision Transformer (Dosovitskiy et al. 2020) in
 * Hugging Face's names and configuration, and the compact one with convolutions in place of
 * patches (Hassani et al. 2021).
 * Layer: model */
#ifndef QKV_VIT_H
#define QKV_VIT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "vit", architecture ViTForImageClassification: a first token of its own, learned
 * positions, a pre-norm stack, and a linear layer that reads the class off the first token. */
extern const qkv_model_type qkv_vit_type;

/* model_type "qkv_cct": convolutions, each with ReLU and a pool that halves the image, make the
 * tokens; blocks are pre-norm, but their second norm takes the stream's place; the class is read
 * off a mixture of all tokens, with weights that a linear layer gives them. Names of tensors as in
 * the authors' files. */
extern const qkv_model_type qkv_cct_type;

/* The configuration of both types; ranges and defaults: qkv_model_type_config. */
typedef struct {
    qkv_patches_config trunk;
    size_t classes;
    size_t stride; /* vit, "encoder_stride": nothing here reads it, files have it */
    /* cct, whose patch is always 1 pixel: */
    size_t convolutions;
    size_t conv_channels; /* of all but the last, which has the trunk's width */
    bool positions;       /* learned; else none */
} qkv_vit_config;

/* pixels (B, H, W, channels) -> the normed output of the last block, (B, tokens, width): of a vit
 * first the token that classes are read off, then the patches, row by row. NULL once anything on
 * the tape has failed. */
qkv_tensor *qkv_vit_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* pixels -> logits (B, classes). */
qkv_tensor *qkv_vit_logits(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

QKV_END_DECLS
#endif
