/* pixelwise.h - images in, numbers for every pixel out: a class each (segmenting), or the colour
 * that a grey image lacks.
 * Layer: model */
#ifndef QKV_PIXELWISE_H
#define QKV_PIXELWISE_H

#include <qkv/vit.h>

QKV_BEGIN_DECLS

/* The trunk of vit.h without a first token; a linear layer on each patch's token makes the numbers
 * of its pixels. With convolutions (3 x 3, ReLU) a pixel sees its surroundings first: what they say
 * of a patch's pixels is added to its token, and what the token says to each of them, before two
 * more make the numbers. Ranges and defaults: qkv_model_type_config. */
typedef struct {
    qkv_patches_config trunk;
    size_t convolutions, conv_channels; /* before the trunk; 0: none before or behind it */
    size_t outputs; /* of a pixel: classes; a colourer's are 2 */
    /* Of colourers: */
    bool tanh;   /* colours end in a tanh */
    size_t cell; /* a side in pixels of what a hint colours; 0: a 16th of the image's */
    double mean_a, mean_b; /* the training images', of Lab: what knows nothing else would say */
} qkv_pixelwise_config;

/* model_type "qkv_segmenter": logits of each pixel's class. */
extern const qkv_model_type qkv_segmenter_type;

/* model_type "qkv_colorizer": a pixel's a and b of Lab, over 110, from 4 numbers of each pixel:
 * its (L - 50) / 100; a and b, over 110, where they are known, else 0; whether they are, 1 or 0
 * (the input of iColoriT, Yun et al. 2023). */
extern const qkv_model_type qkv_colorizer_type;
enum { QKV_COLORIZER_INPUTS = 4 };

/* pixels (B, H, W, channels) -> (B, H, W, outputs). NULL once anything on the tape has failed. */
qkv_tensor *qkv_pixelwise_forward(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);

QKV_END_DECLS
#endif
