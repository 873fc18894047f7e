/* discriminator.h - the patch discriminator. */
#ifndef QKV_SRC_MODEL_DISCRIMINATOR_H
#define QKV_SRC_MODEL_DISCRIMINATOR_H

#include "nn/conv.h"
#include "qkv/vqgan.h"

enum { QKV__JUDGE_LAYERS = 8 }; /* strided convolutions at most */

typedef struct {
    size_t layers;                               /* strided; 0: there is none */
    qkv__conv conv[QKV__JUDGE_LAYERS + 2];       /* strided ones, one without, the answer */
    qkv_batch_norm_layer norm[QKV__JUDGE_LAYERS + 1]; /* behind all but the first and the last */
} qkv__judge_net;

extern const char qkv__judge_prefix[]; /* of its parameters' names and of its rows */

bool qkv__judge_make(qkv__judge_net *j, qkv_params *ps, const qkv_vqgan_config *c);
void qkv__judge_visit(const qkv__judge_net *j, qkv__visit *v);
qkv_tensor *qkv__judge_forward(const qkv__judge_net *j, qkv_tape *t, qkv_tensor *pixels);
/* frozen: back to the pixels alone; else to the weights alone. */
double qkv__judge_flops(const qkv__judge_net *j, double pictures, size_t height, size_t width,
                        bool frozen);

#endif
