/* gpt.h - GPT in the layouts that are in use: gpt2 (learned positions, LayerNorm, GELU, biases),
 * llama (rotary positions, RMSNorm, gated SiLU, grouped heads) and those that change llama a
 * little.
 * Layer: model */
#ifndef QKV_GPT_H
#define QKV_GPT_H

#include <qkv/model.h>
#include <qkv/nn.h>

QKV_BEGIN_DECLS

const qkv_model_type *qkv_gpt2_type(void); /* configuration: qkv_gpt_config */
const qkv_model_type *qkv_llama_type(void); /* configuration: qkv_gpt_config */
/* llama with a window of keys that a query sees. Configuration: qkv_gpt_config. */
const qkv_model_type *qkv_mistral_type(void);
/* The same with query, key and value in one matrix of a file, gate and up in another. */
const qkv_model_type *qkv_phi3_type(void);
/* llama with biases of query, key and value, and windows in the last layers. */
const qkv_model_type *qkv_qwen2_type(void);
/* llama with norms of query and key, and windows in the last layers. */
const qkv_model_type *qkv_qwen3_type(void);
/* A GPT over image codes, as minGPT in taming-transformers: gpt2 with exact GELU, an output layer
 * that is not tied, and minGPT's tensor names. Configuration: qkv_gpt_config. */
const qkv_model_type *qkv_prior_type(void);

typedef enum {
    QKV_POSITIONS_LEARNED,
    QKV_POSITIONS_SINUSOID, /* Vaswani et al. 2017; saved, not trained */
    QKV_POSITIONS_NONE,     /* saved as zeros */
    QKV_POSITIONS_ROTARY    /* in all layouts but gpt2 */
} qkv_position_kind;

/* Configuration. Ranges and defaults: qkv_model_type_config of the type. */
typedef struct {
    size_t vocab, positions, width, layers, heads;
    size_t kv_heads;   /* 0: heads */
    size_t head_width; /* 0: width / heads */
    size_t ff_width;   /* 0: 4 width (gpt2), else 8/3 width rounded up to a multiple of 64 */
    qkv_position_kind position_kind;
    qkv_rotary_config rotary; /* rotary.original 0: positions */
    size_t window;      /* mistral, phi3, qwen: keys that a query sees; 0: all */
    bool use_window;    /* qwen: there is one; the others always have it */
    size_t window_from; /* qwen: the first layer with it */
    double norm_eps, init_range;
    double embd_dropout, dropout, attention_dropout;
    qkv_activation act;
    bool attention_bias, ff_bias; /* where the layout leaves it open: llama, qwen3's first */
    bool tie;
    bool scale_attention; /* scales scores by 1/sqrt(head_width); all but gpt2 always do */
    bool scale_by_layer;  /* also scales scores by 1/(1 + layer index) */
    int bos, eos, pad; /* token ids; -1: none */
    size_t rows, columns; /* prior: size of the code grid, which is read row by row */
    size_t before;        /* prior: tokens before the codes: a start token, a class, or the codes of
                             another image */
} qkv_gpt_config;

QKV_END_DECLS
#endif
