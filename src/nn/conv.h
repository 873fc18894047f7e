/* conv.h - convolutions as layers: weight, bias, their rows in PyTorch's names and order. What
 * VQGAN, its discriminator and its perceptual network are made of. */
#ifndef QKV_SRC_NN_CONV_H
#define QKV_SRC_NN_CONV_H

#include "nn/state_entries.h"

typedef struct {
    qkv_param *weight; /* (out, window, window, in); of windows of 1 pixel (out, in) */
    qkv_param *bias;   /* (out) or NULL */
    size_t in, out, window;
} qkv__conv;

/* False, and the context says why, when one of its parameters cannot be made. */
bool qkv__conv_make(qkv__conv *c, qkv_params *ps, const char *name, size_t in, size_t out,
                    size_t window, bool bias);
/* Rows name.weight (out, in, window, window) and name.bias. standard deviation 0: both as PyTorch
 * begins, uniform in +-1 / sqrt(in window window) (He et al. 2015 with a = sqrt 5); else of the
 * weights, drawn from a normal distribution, with zeros for biases. */
void qkv__visit_conv(qkv__visit *v, const char *name, const qkv__conv *c, double std);
/* options as of qkv_conv2d; windows of 1 pixel, a linear layer on each, take none. */
qkv_tensor *qkv__conv_forward(const qkv__conv *c, qkv_tape *t, qkv_tensor *x,
                              const qkv_conv_options *options);
extern const qkv_conv_options qkv__conv_same; /* 3 x 3 that keeps the image's size */

/* FLOPs on so many outputs, pixels and images together. passes: 1, and one more for each gradient
 * that is wanted, of the weights and of what comes in. */
double qkv__conv_flops(const qkv__conv *c, double pixels, int passes);

#endif
