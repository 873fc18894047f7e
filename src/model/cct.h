/* cct.h - the beginning and the end of the compact Vision Transformer. */
#ifndef QKV_SRC_MODEL_CCT_H
#define QKV_SRC_MODEL_CCT_H

#include "model/model.h"
#include "qkv/vit.h"

enum { QKV__CONVOLUTIONS = 8 };

typedef struct {
    const qkv_vit_config *c;
    qkv_param *convolution[QKV__CONVOLUTIONS]; /* (outputs, 3, 3, inputs) each */
    qkv_linear_layer pool;                     /* (1, width), (1) */
} qkv__cct;

/* Fills in the derived fields, those of the trunk but for its last check. */
qkv_status qkv__cct_complete(qkv_context *ctx, qkv_vit_config *c);
size_t qkv__cct_side(const qkv_vit_config *c, size_t pixels); /* tokens along a side of an image */
qkv_status qkv__cct_make(qkv__cct *x, qkv_model *m, const qkv_vit_config *c);
/* Rows of what this file makes: the convolutions', and the pool's. */
void qkv__cct_visit(const qkv__cct *x, qkv__visit *v);
void qkv__cct_visit_block(qkv__visit *v, const qkv_block *b, double std); /* "blocks.0." is there */
/* pixels (B, H, W, channels) -> (B, rows, columns, width). */
qkv_tensor *qkv__cct_tokens(const qkv__cct *x, qkv_tape *t, qkv_tensor *pixels);
/* x (B, n, width) -> (B, width), the mixture. */
qkv_tensor *qkv__cct_pool(const qkv__cct *x, qkv_tape *t, qkv_tensor *tokens);
double qkv__cct_flops(const qkv_vit_config *c, qkv_pass pass, double images, size_t height,
                      size_t width);

#endif
