/* pixelwise.h - models that output numbers for every pixel: a segmenter's class logits, a
 * colourer's colours.
 * Layer: model */
#ifndef QKV_PIXELWISE_H
#define QKV_PIXELWISE_H

#include <qkv/vit.h>

QKV_BEGIN_DECLS

/* Configuration. The model is vit.h's trunk without a class token; a linear layer maps each patch's
 * token to the outputs of its pixels. With convolutions (3 x 3, ReLU) each patch's features are
 * added to its token, and the token's output to the features of its pixels; two more convolutions
 * then make the outputs. Ranges and defaults: qkv_model_type_config. */
typedef struct {
    qkv_patches_config trunk;
    size_t convolutions, conv_channels; /* before the trunk; 0: none before or after it */
    size_t outputs; /* per pixel: the number of classes; 2 for a colourer */
    /* Colourers: */
    bool tanh;   /* applies tanh to the output colours */
    size_t cell; /* side of the square that a hint colours, pixels; 0: 1/16 of the image's side */
    double mean_a, mean_b; /* means of Lab a and b over the training images, as a baseline */
} qkv_pixelwise_config;

/* model_type "qkv_segmenter": class logits of each pixel. */
const qkv_model_type *qkv_segmenter_type(void);

/* model_type "qkv_colorizer": Lab a / 110 and b / 110 of each pixel, from 4 inputs: (L - 50) / 100;
 * a / 110 and b / 110 where known, else 0; and 1 where known, else 0 (the input of iColoriT, Yun et
 * al. 2023). */
const qkv_model_type *qkv_colorizer_type(void);
enum { QKV_COLORIZER_INPUTS = 4 };

/* pixels (B, H, W, channels) -> the tokens (B, patches, width) of patches, row by row, before
 * positions are added. NULL once anything on the tape has failed. */
qkv_tensor *qkv_pixelwise_embed(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* pixels (B, H, W, channels) -> (B, H, W, outputs). NULL once anything on the tape has failed. */
qkv_tensor *qkv_pixelwise_forward(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

QKV_END_DECLS
#endif
