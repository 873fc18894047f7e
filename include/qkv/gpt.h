/* gpt.h - GPT in two layouts: gpt2 (learned positions, LayerNorm, GELU, biases) and llama
 * (rotary positions, RMSNorm, gated SiLU, grouped heads).
 * Layer: model */
#ifndef QKV_GPT_H
#define QKV_GPT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

extern const qkv_model_type qkv_gpt2_type;  /* configuration: qkv_gpt_config */
extern const qkv_model_type qkv_llama_type; /* configuration: qkv_gpt_config */
/* Over the codes of images, as taming-transformers' minGPT: gpt2 with exact GELU, an output layer
 * of its own and other names. Configuration: qkv_gpt_config. */
extern const qkv_model_type qkv_prior_type;

typedef enum {
    QKV_POSITIONS_LEARNED,
    QKV_POSITIONS_SINUSOID, /* the paper's, in a table that is saved but not trained */
    QKV_POSITIONS_NONE,     /* saved as a table of zeros */
    QKV_POSITIONS_ROTARY    /* llama's */
} qkv_position_kind;

/* Ranges and defaults: qkv_model_type_config(&qkv_gpt2_type) and (&qkv_llama_type). */
typedef struct {
    size_t vocab, positions, width, layers, heads;
    size_t kv_heads;   /* 0: as heads */
    size_t head_width; /* 0: width / heads */
    size_t ff_width;   /* 0: 4 width (gpt2), 8/3 width rounded up to 64 (llama) */
    qkv_position_kind position_kind;
    double rotary_base, norm_eps, init_range;
    double embd_dropout, dropout, attention_dropout;
    qkv_activation act;
    bool attention_bias, ff_bias, tie;
    bool scale_attention; /* scores by 1/sqrt(head_width), as llama always does */
    bool scale_by_layer;  /* and by 1/(1 + index of the layer) */
    int bos, eos, pad; /* token ids; -1: none */
    size_t rows, columns; /* of a prior: the grid of codes, row by row .. */
    size_t before;        /* .. and the tokens before it: a start token or a class, or the codes of
                             another image */
} qkv_gpt_config;

QKV_END_DECLS
#endif
