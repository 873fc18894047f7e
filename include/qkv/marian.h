/* marian.h - the encoder-decoder of "Attention Is All You Need" (Vaswani et al. 2017), in the
 * layout of Hugging Face's Marian models, and its pre-norm variant.
 * Layer: model */
#ifndef QKV_MARIAN_H
#define QKV_MARIAN_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/* model_type "marian": norms behind each sublayer, as in the paper. */
extern const qkv_model_type qkv_marian_type;
/* model_type "qkv_translator": the same names, norms before each sublayer and after each stack;
 * transformers has no such model. */
extern const qkv_model_type qkv_translator_type;

/* Configuration of both; ranges and defaults: qkv_model_type_config. */
typedef struct {
    size_t vocab, positions, width;
    size_t encoder_layers, decoder_layers, encoder_heads, decoder_heads;
    size_t encoder_ff_width, decoder_ff_width; /* 0: 4 width */
    qkv_activation act;
    double init_range; /* 0: 1 / (3 sqrt(width)) */
    double dropout, attention_dropout, activation_dropout;
    bool scale_embedding; /* by sqrt(width) */
    bool share;           /* one table for source and target */
    bool tie;             /* the output layer is the target's table */
    int pad, eos, start;  /* token ids; start: the decoder's first input */
} qkv_marian_config;

/* Token ids of one side. Zero-initialise; set what applies. */
typedef struct {
    qkv_tensor *ids; /* i32 (B, T) */
    /* Packed sequences, as in qkv_attention_options (B is 1 then), or 0 and NULL. */
    size_t sequences;
    const int32_t *offsets;
    const int32_t *lengths; /* (B) tokens of each sequence that are real; NULL: all */
    /* Of a source whose sequences are read by several rows of the target each (beams): sequence b
     * by rows queries[b] .. queries[b+1]-1, counted through. With begins (or NULL) sequence b is
     * lengths[b] tokens from begins[b] on, in place of offsets: those that nobody reads any more
     * may be left out. */
    const int32_t *queries, *begins;
} qkv_marian_side;

/* The encoder's output (B, S, width). NULL on failure (the tape says why). */
qkv_tensor *qkv_marian_encode(qkv_model *m, qkv_tape *t, const qkv_marian_side *source);

/* The decoder's output (B, T, width) for the target's tokens so far, the first of which is `start`.
 * memory is the encoder's output for the same sequences, cut up as source says (its ids are not
 * read). With a cache the tokens come after what it holds, and memory is read at the first call
 * only. */
qkv_tensor *qkv_marian_decode(qkv_model *m, qkv_tape *t, const qkv_marian_side *target,
                              qkv_tensor *memory, const qkv_marian_side *source,
                              qkv_lm_cache *cache);

/* hidden (.., width) -> logits (.., vocab); the loss never has them all in memory. */
qkv_tensor *qkv_marian_logits(qkv_model *m, qkv_tape *t, qkv_tensor *hidden);
qkv_tensor *qkv_marian_loss(qkv_model *m, qkv_tape *t, qkv_tensor *hidden, qkv_tensor *targets,
                            const qkv_cross_entropy_options *options);

/* Decoding state of B sentences with up to `capacity` target and `source` source tokens; freed by
 * qkv_lm_cache_destroy. packed: of B hypotheses, and of sources that have `source` tokens together,
 * one after another. On failure *out is NULL. */
qkv_status qkv_marian_cache_create(qkv_lm_cache **out, qkv_model *m, size_t B, size_t capacity,
                                   size_t source, bool packed);

QKV_END_DECLS
#endif
