/* discriminator.h - the patch discriminator. */
#ifndef QKV_SRC_MODEL_DISCRIMINATOR_H
#define QKV_SRC_MODEL_DISCRIMINATOR_H

#include "nn/conv.h"
#include "qkv/vqgan.h"

enum { QKV__DISCRIMINATOR_LAYERS = 8 }; /* strided convolutions at most */

typedef struct {
    size_t layers;                               /* strided; 0: there is none */
    qkv__conv conv[QKV__DISCRIMINATOR_LAYERS + 2]; /* strided ones, one without, the answer */
    qkv_batch_norm_layer norm[QKV__DISCRIMINATOR_LAYERS + 1]; /* behind all but the first and the
                                                                 last */
} qkv__discriminator;

extern const char qkv__discriminator_prefix[]; /* of its parameters' names and of its rows */

bool qkv__discriminator_make(qkv__discriminator *j, qkv_params *ps, const qkv_vqgan_config *c);
void qkv__discriminator_visit(const qkv__discriminator *j, qkv__visit *v);
qkv_tensor *qkv__discriminator_forward(const qkv__discriminator *j, qkv_tape *t,
                                       qkv_tensor *pixels);
/* passes 2: back to the pixels alone; 3: to the weights alone. */
double qkv__discriminator_flops(const qkv__discriminator *j, double images, size_t height,
                                size_t width, int passes);

#endif
