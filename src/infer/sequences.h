/* sequences.h - the inside of a batch: what batch.c keeps, batch_step.c computes and
 * batch_prefix.c shares. */
#ifndef QKV_INFER_SEQUENCES_H
#define QKV_INFER_SEQUENCES_H

#include "base/base.h"
#include "qkv/batch.h"

/* A sequence, and once it has begun what its slot holds: row i is the token at position base + i,
 * all[from + base + i]. */
typedef struct {
    uint64_t id;
    bool live;
    qkv_ids all; /* the prompt and what was made */
    size_t prompt, tokens; /* of the prompt; to be made at most */
    size_t window;
    qkv_sampling sampling;
    int32_t *stop; /* (stops) */
    size_t stops;
    qkv_rng random;
    size_t from, base, held;
    size_t whole;   /* of these rows the first that were read tiled, from position 0 on: what other
                       sequences may share */
    uint64_t ended; /* when, in steps */
} qkv__sequence;

/* One pass: rows of some slots. */
typedef struct {
    size_t count, rows;
    int32_t *ids;                                   /* (rows) */
    int32_t *offsets, *slots, *past, *first, *positions;
    int32_t *last; /* (count) the row whose logits make a token; -1: none */
} qkv__pass;

struct qkv_batch {
    qkv_context *ctx;
    qkv_model *model;
    qkv_tape *tape;
    qkv_lm_cache *cache;
    qkv_batch_options o;
    bool fixed;             /* the model has a maximum number of positions */
    qkv__sequence *slots;   /* (o.sequences) */
    qkv__sequence *waiting; /* (waiting_count) in the order in which they came */
    size_t waiting_count, waiting_room;
    qkv_batch_event *events; /* (2 o.sequences) */
    size_t event_count;
    qkv__pass pass;
    size_t choosers;  /* threads that choose tokens, each with room of its own */
    qkv_real *logits; /* (choosers, V) */
    int32_t *order;   /* (choosers, 2 V) */
    uint64_t last_id, step;
    qkv_batch_stats stats;
};

/* Tokens of the sequence that the model has not read yet: one at least while it is live. */
static inline size_t qkv__sequence_fresh(const qkv__sequence *s)
{
    return s->all.count - s->from - s->base - s->held;
}

/* Chooses a slot for each waiting sequence that one is free for. */
void qkv__batch_admit(qkv_batch *b);
/* Copies what another slot has of the sequence's prompt. False: another one is about to compute
 * more of it than the slot has, so this one waits. */
bool qkv__batch_share(qkv_batch *b, size_t slot);
/* A sequence's end: its slot is free, what it holds may still be shared. */
void qkv__batch_end(qkv_batch *b, qkv__sequence *s);
void qkv__batch_event(qkv_batch *b, const qkv__sequence *s, qkv_batch_event_kind kind, int32_t id);
void qkv__sequence_free(qkv_context *ctx, qkv__sequence *s);

#endif
