/* vqgan_tower.h - encoder or decoder of a VQGAN. */
#ifndef QKV_SRC_MODEL_VQGAN_TOWER_H
#define QKV_SRC_MODEL_VQGAN_TOWER_H

#include "nn/conv.h"
#include "qkv/vqgan.h"

enum { QKV__TOWER_BLOCKS = 8 }; /* of a level, at most */

typedef struct {
    qkv_param *weight, *bias; /* (C) */
    size_t channels;
} qkv__group;

typedef struct {
    qkv__group norm1, norm2;
    qkv__conv conv1, conv2, skip; /* skip.weight NULL: what comes in is added as it is */
    uint32_t dropout_id;
} qkv__residual;

typedef struct {
    qkv__group norm;
    qkv_param *weight, *bias; /* (3 C, C): query, key, value */
    qkv__conv out;
} qkv__pixel_attention;

typedef struct {
    size_t count; /* of blocks */
    qkv__residual block[QKV__TOWER_BLOCKS];
    bool attends;
    qkv__pixel_attention attention[QKV__TOWER_BLOCKS];
    bool scales;
    qkv__conv scale; /* behind the blocks: halves the image, or follows its doubling */
} qkv__level;

typedef struct {
    const qkv_vqgan_config *c;
    const char *name; /* "encoder" */
    bool upward;      /* the decoder: from the last level to the first */
    qkv__conv in, out;
    qkv__level level[QKV_SIZES]; /* by size of image, the largest first */
    qkv__residual first, second; /* in the middle, attention between them */
    qkv__pixel_attention middle;
    qkv__group norm;
} qkv__tower;

/* name: "encoder", "decoder"; must outlive it, as must c. *blocks counts those made so far: each
 * has a dropout site of its own. False, and the context says why, when it cannot be made. */
bool qkv__tower_make(qkv__tower *h, qkv_params *ps, const qkv_vqgan_config *c, const char *name,
                     bool upward, uint32_t *blocks);
void qkv__tower_visit(const qkv__tower *h, qkv__visit *v);
/* In inference each layer's memory is released as soon as the next has it. qkv_tape_enter begins it
 * at layer i ("encoder.3"), in order of its places from 0, with x as what the layer is given. */
qkv_tensor *qkv__tower_forward(const qkv__tower *h, qkv_tape *t, qkv_tensor *x);
/* Of so many images of so many pixels each, at the side of the images. passes: as of
 * qkv__conv_flops; 3: all gradients but the encoder's images'. */
double qkv__tower_flops(const qkv__tower *h, double images, double pixels, int passes);

#endif
