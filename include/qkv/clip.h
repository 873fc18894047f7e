/* clip.h - CLIP: an encoder of texts and one of images whose vectors lie in one space. Radford et
 * al. 2021; Hugging Face's names and configuration.
 * Layer: model */
#ifndef QKV_CLIP_H
#define QKV_CLIP_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "clip", architecture CLIPModel. Configuration: qkv_clip_config; ranges and defaults:
 * qkv_model_type_config. The text encoder is a causal pre-norm transformer, the image encoder a
 * Vision Transformer with a norm before its blocks as well. */
const qkv_model_type *qkv_clip_type(void);

typedef struct {
    size_t vocab, positions, width, layers, heads;
    size_t ff_width;
    qkv_activation act;
    double norm_eps, attention_dropout;
    int pad, bos; /* token ids, kept for other programs; -1: none */
    int eos;      /* id of the token whose output is the text's: the first one. 2: the greatest id
                     of a text instead, as in the files of 2021 */
} qkv_clip_text_config;

typedef struct {
    qkv_clip_text_config text;
    qkv_patches_config vision; /* dropout, drop_path and qkv_bias are 0, 0 and true */
    size_t projection; /* width of the common space */
    double log_scale;  /* initial logit_scale */
    double init_factor; /* of all initial deviations */
} qkv_clip_config;

/* Most that cosines are multiplied by, exp(logit_scale), in training (Radford et al., 2.5). */
#define QKV_CLIP_MOST_SCALE 100.0

/* The functions below require QKV_CAN_EMBED_BOTH. They return NULL on failure, recorded on the
 * tape. Vectors are not normalised. */

/* ids i32 (1, rows): texts one after another, text i in rows offsets[i] .. offsets[i+1]-1 of
 * `sequences`; or (B, T) with offsets NULL, where ids behind a text's eos do not matter. Returns
 * the texts' vectors (sequences, projection) or (B, projection). */
qkv_tensor *qkv_clip_texts(qkv_model *m, qkv_tape *t, qkv_tensor *ids, size_t sequences,
                           const int32_t *offsets);
/* pixels (B, H, W, channels) -> (B, projection). Positions are interpolated for another size than
 * the configuration's. */
qkv_tensor *qkv_clip_images(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* pixels -> the patches' embeddings (B, patches, width of images), without positions. */
qkv_tensor *qkv_clip_embed(qkv_model *m, qkv_tape *t, qkv_tensor *pixels);
/* logit_scale (1): the logarithm of what cosines are multiplied by. The parameter, for training;
 * NULL, recorded in the context, for models of other kinds. */
qkv_param *qkv_clip_log_scale(qkv_model *m);

QKV_END_DECLS
#endif
