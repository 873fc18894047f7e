/* vit.h - pictures read as sequences of patches: the Vision Transformer (Dosovitskiy et al. 2020)
 * in Hugging Face's names and configuration.
 * Layer: model */
#ifndef QKV_VIT_H
#define QKV_VIT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* What all models have that cut pictures into patches. */
typedef struct {
    size_t image;    /* a side of the pictures that positions are learnt for, in pixels */
    size_t patch;    /* a side of a patch; divides those of every picture */
    size_t channels; /* of a pixel */
    size_t width, layers, heads;
    size_t ff_width; /* 0: 4 width */
    qkv_activation act;
    bool qkv_bias; /* query, key and value have biases */
    double norm_eps, init_range; /* 0: 1 / sqrt(width) */
    double dropout, attention_dropout;
} qkv_patches_config;

/* model_type "vit", architecture ViTForImageClassification: a first token of its own, learned
 * positions, a pre-norm stack, and a dense layer that reads the class off the first token. The
 * configuration is qkv_vit_config; ranges and defaults: qkv_model_type_config. */
extern const qkv_model_type qkv_vit_type;

typedef struct {
    qkv_patches_config trunk;
    size_t classes;
    size_t stride; /* "encoder_stride": nothing here reads it, files have it */
} qkv_vit_config;

/* Sets width, layers and heads of a named size; false if there is none of that name. */
bool qkv_vit_preset(const char *name, qkv_vit_config *config);
/* Name of the i-th preset, smallest first, or NULL past the last; *summary says its size. */
const char *qkv_vit_preset_name(size_t i, const char **summary);

/* pixels (B, H, W, channels) -> the normed output of the last block, (B, 1 + patches, width): the
 * token that classes are read off, then the patches, row by row. NULL once anything on the tape
 * has failed. */
qkv_tensor *qkv_vit_hidden(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* pixels -> logits (B, classes). */
qkv_tensor *qkv_vit_logits(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

/* FLOPs of a training step on so many pictures of that size: 6 per parameter used in products and
 * token (4 in the patches' layer: pixels get no gradient), 14 T^2 width a layer for attention. */
double qkv_vit_flops(const qkv_model *m, size_t pictures, size_t height, size_t width);

QKV_END_DECLS
#endif
