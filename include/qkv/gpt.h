/* gpt.h - GPT in two layouts: gpt2 (learned positions, LayerNorm, GELU, biases) and llama
 * (rotary positions, RMSNorm, gated SiLU, grouped heads).
 * Layer: model */
#ifndef QKV_GPT_H
#define QKV_GPT_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

const qkv_model_type *qkv_gpt2_type(void); /* configuration: qkv_gpt_config */
const qkv_model_type *qkv_llama_type(void); /* configuration: qkv_gpt_config */
/* A GPT over image codes, as minGPT in taming-transformers: gpt2 with exact GELU, an output layer
 * that is not tied, and minGPT's tensor names. Configuration: qkv_gpt_config. */
const qkv_model_type *qkv_prior_type(void);

typedef enum {
    QKV_POSITIONS_LEARNED,
    QKV_POSITIONS_SINUSOID, /* Vaswani et al. 2017; saved, not trained */
    QKV_POSITIONS_NONE,     /* saved as zeros */
    QKV_POSITIONS_ROTARY    /* as in llama */
} qkv_position_kind;

/* Configuration. Ranges and defaults: qkv_model_type_config of qkv_gpt2_type() and
 * qkv_llama_type(). */
typedef struct {
    size_t vocab, positions, width, layers, heads;
    size_t kv_heads;   /* 0: heads */
    size_t head_width; /* 0: width / heads */
    size_t ff_width;   /* 0: 4 width (gpt2), 8/3 width rounded up to a multiple of 64 (llama) */
    qkv_position_kind position_kind;
    double rotary_base, norm_eps, init_range;
    double embd_dropout, dropout, attention_dropout;
    qkv_activation act;
    bool attention_bias, ff_bias, tie;
    bool scale_attention; /* scales scores by 1/sqrt(head_width); llama always does */
    bool scale_by_layer;  /* also scales scores by 1/(1 + layer index) */
    int bos, eos, pad; /* token ids; -1: none */
    size_t rows, columns; /* prior: size of the code grid, which is read row by row */
    size_t before;        /* prior: tokens before the codes: a start token, a class, or the codes of
                             another image */
} qkv_gpt_config;

QKV_END_DECLS
#endif
