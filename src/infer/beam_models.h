/* beam_models.h - the translators of a beam search, which score its tokens together. Each has
 * caches of its own for the hypotheses that run. */
#ifndef QKV_SRC_INFER_BEAM_MODELS_H
#define QKV_SRC_INFER_BEAM_MODELS_H

#include "base/base.h"
#include "qkv/marian.h"

typedef struct {
    qkv_model *model;
    qkv_lm_cache *cache;   /* of the last batch, or NULL; the next one takes its memory */
    qkv_marian_head *head; /* of the tokens to choose among; NULL: all */
    qkv_tensor *memory;    /* the encoder's output, until the first step has read it */
} qkv__beam_model;

typedef struct {
    qkv_context *ctx;
    qkv__beam_model *models; /* (count); the first is the one whose settings hold */
    size_t count, capacity;
} qkv__beam_models;

/* Adds a translator with the vocabulary of the first, and at least its positions. */
qkv_status qkv__beam_models_add(qkv__beam_models *ms, qkv_model *m);

/* Caches for a batch: `rows` hypotheses, `capacity` tokens of each at first, `source` tokens. */
qkv_status qkv__beam_models_begin(qkv__beam_models *ms, size_t rows, size_t capacity,
                                  size_t source);
/* Only these tokens are to be chosen among. */
qkv_status qkv__beam_models_choices(qkv__beam_models *ms, const int32_t *tokens, size_t count);
void qkv__beam_models_end(qkv__beam_models *ms); /* of the batch */
void qkv__beam_models_free(qkv__beam_models *ms);

void qkv__beam_models_encode(qkv__beam_models *ms, qkv_tape *t, const qkv_marian_side *source);
/* Logits (rows, choices) after target's tokens, one a row: the mean of the models'. */
qkv_tensor *qkv__beam_models_logits(qkv__beam_models *ms, qkv_tape *t,
                                    const qkv_marian_side *target, const qkv_marian_side *source);
/* For all caches. */
bool qkv__beam_models_reserve(qkv__beam_models *ms, qkv_tape *t, size_t capacity);
bool qkv__beam_models_select(qkv__beam_models *ms, qkv_tape *t, const size_t *rows, size_t n);

#endif
