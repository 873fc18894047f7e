/* marian.h - the encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017), in the
 * layout of Hugging Face's Marian models, its pre-norm variant, and T5.
 * Layer: model */
#ifndef QKV_MARIAN_H
#define QKV_MARIAN_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "marian": a norm after each sublayer (post-norm), as in the paper. */
const qkv_model_type *qkv_marian_type(void);
/* model_type "qkv_translator": marian's tensor names, a norm before each sublayer and after each
 * stack (pre-norm). transformers has no such model. */
const qkv_model_type *qkv_translator_type(void);
/* model_type "t5" (Raffel et al. 2020; v1.1, Shazeer 2020): pre-norm with RMSNorm, no biases,
 * scores that are not scaled, and relative positions in buckets (qkv_relative_config), one table a
 * stack. */
const qkv_model_type *qkv_t5_type(void);

/* Configuration of all types; ranges and defaults: qkv_model_type_config. */
typedef struct {
    size_t vocab, positions, width;
    size_t encoder_layers, decoder_layers, encoder_heads, decoder_heads;
    size_t encoder_ff_width, decoder_ff_width; /* 0: 4 width */
    qkv_activation act; /* t5: follows from feed_forward */
    double init_range; /* 0: 1 / (3 sqrt(width)); t5: factor of its deviations */
    double dropout, attention_dropout, activation_dropout;
    bool scale_embedding; /* multiplies embeddings by sqrt(width) */
    bool share;           /* source and target share an embedding */
    bool tie;             /* the output layer's weight is the target's embedding */
    int pad, eos, start;  /* token ids; start: the decoder's first input */
    /* T5 alone, where one number stands for encoder and decoder, and tie scales the decoder's
     * output by 1 / sqrt(width) too. */
    size_t head_width;        /* need not be width / heads */
    size_t buckets, distance; /* qkv_relative_config */
    double norm_eps;
    int feed_forward;         /* "relu", "gated-gelu", "gelu", "silu", "gated-relu", "gated-silu" */
    bool gated;               /* follows from it */
} qkv_marian_config;

/* Token ids of the source or the target. Zero-initialise; set what applies. */
typedef struct {
    qkv_tensor *ids; /* i32 (B, T) */
    /* Packed sequences, as in qkv_attention_options (then B is 1), or 0 and NULL. */
    size_t sequences;
    const int32_t *offsets;
    const int32_t *lengths; /* (B) number of tokens in each sequence; NULL: T */
    /* Source only, where several target rows read a sequence (beams): rows queries[b] ..
     * queries[b+1]-1 of the flattened target read sequence b. With begins, sequence b is lengths[b]
     * tokens from begins[b] in place of offsets, so sequences that are no longer read can be
     * omitted. NULL: none. */
    const int32_t *queries, *begins;
} qkv_marian_side;

/* The encoder's output (B, S, width). NULL on failure, recorded on the tape. */
qkv_tensor *qkv_marian_encode(qkv_model *m, qkv_tape *t, const qkv_marian_side *source);

/* The decoder's output (B, T, width) for the target's tokens, the first of which is `start`.
 * memory: the encoder's output for the same sequences, with source's lengths or offsets (its ids
 * are not used). With a cache the tokens follow those in it, and only the first call reads
 * memory. */
qkv_tensor *qkv_marian_decode(qkv_model *m, qkv_tape *t, const qkv_marian_side *target,
                              qkv_tensor *memory, const qkv_marian_side *source,
                              qkv_lm_cache *cache);

/* hidden (.., width) -> logits (.., vocab). The loss never holds all logits in memory. */
qkv_tensor *qkv_marian_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden);
qkv_tensor *qkv_marian_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                            const qkv_cross_entropy_options *options);

/* Some rows of the output layer, copied in the bits that it is kept in: the logits of few tokens
 * cost few products. It is of the model's values when it was made. tokens (count >= 1): ids below
 * the vocabulary; column i of the logits (.., count) is that of tokens[i]. On failure *out is
 * NULL. Use no tape that has seen it, before a reset, after it is destroyed. */
typedef struct qkv_marian_head qkv_marian_head;
qkv_status qkv_marian_head_create(qkv_marian_head **out, qkv_model *m, const int32_t *tokens,
                                  size_t count);
void qkv_marian_head_destroy(qkv_marian_head *h); /* NULL is allowed */
qkv_tensor *qkv_marian_head_logits(const qkv_marian_head *h, qkv_tape *t, qkv_tensor *hidden);

/* KV caches for B sentences with up to `capacity` target and `source` source tokens. packed: for B
 * hypotheses of packed sources with `source` tokens in total. Free with qkv_lm_cache_destroy. On
 * failure *out is NULL. */
qkv_status qkv_marian_cache_create(qkv_lm_cache **out, qkv_model *m, size_t B, size_t capacity,
                                   size_t source, bool packed);
/* Empties a packed cache for B other hypotheses of sources with `source` tokens, which spares the
 * time that new memory takes. False where it has no room for them: then it is to be destroyed. */
bool qkv_marian_cache_reset(qkv_lm_cache *c, size_t B, size_t source);

QKV_END_DECLS
#endif
