/* batch.h - text generation for many sequences that come and go.
 * Layer: infer
 *
 * A program adds prompts at any time; each step gives every sequence that has read its prompt one
 * token, in one pass over the weights for all of them, and reads on in the prompts of newcomers.
 *
 * A sequence's tokens do not depend on the others. Every number of its forward passes is computed
 * by the same kernels in the same order whoever shares them (qkv_tape_batch_invariant; a text of
 * more than QKV_BATCH_FEW tokens to read is read by attention's tiled path, else by the other), so
 * that its logits have the same bits alone, among others, in any order of arrival, with or without
 * a shared prefix, given the number of threads, instruction set and options. qkv_generate reads
 * prompts with other kernels: its logits agree up to rounding. */
#ifndef QKV_BATCH_H
#define QKV_BATCH_H

#include <qkv/infer.h>

QKV_BEGIN_DECLS

typedef struct qkv_batch qkv_batch;

enum { QKV_BATCH_FEW = 4 };

/* Each field: meaning, [range], default. */
typedef struct {
    size_t sequences; /* at most at once; others wait                        [1, 4096]    8 */
    size_t positions; /* memory of each, in tokens; 0: the model's max positions, and with rotary
                         positions a quarter more                                         0 */
    size_t chunk;     /* tokens of prompts that a step reads at most, over all newcomers, so that
                         the others' tokens are not held up    [2 QKV_BATCH_FEW, 65536] 256 */
    qkv_kv_store kv;  /* how keys and values are stored                           QKV_KV_F32 */
    bool share;       /* prompts that begin alike compute their common prefix once     true */
    bool pack;        /* as qkv_tape_pack: a copy of the weights that products of several rows
                         read faster                                                   true */
} qkv_batch_options;
qkv_batch_options qkv_batch_defaults(void);

/* Sets memory for options->sequences sequences aside. The model (QKV_CAN_GENERATE) must outlive the
 * batch. options may be NULL. On failure *out is NULL: QKV_E_ARGUMENT for options out of range,
 * QKV_E_MEMORY. */
qkv_status qkv_batch_create(qkv_batch **out, qkv_model *m, const qkv_batch_options *options);
void qkv_batch_destroy(qkv_batch *b); /* NULL is allowed */

/* Adds a sequence that continues prompt (n >= 1 ids); prompt and stop tokens are copied. It begins
 * with the next step, or waits until another one ends. With *id (may be NULL) events name it: 1, 2,
 * .. in the order of calls. The options mean what they mean in qkv_generate (seed and index choose
 * the random numbers, not the place in the batch); tape and model_distribution must not be set.
 * QKV_E_ARGUMENT: an id out of range, no tokens, or more positions needed than a sequence has
 * memory for: the prompt's or the window's, the lesser, and of models with rotary positions those
 * to come up to the window. On failure nothing is added. */
qkv_status qkv_batch_add(qkv_batch *b, const int32_t *prompt, size_t n,
                         const qkv_generate_options *options, uint64_t *id);

/* Ends a sequence, which has no event. QKV_E_ARGUMENT: there is none of that id (any more). */
qkv_status qkv_batch_remove(qkv_batch *b, uint64_t id);

typedef enum {
    QKV_BATCH_TOKEN, /* a token was made */
    QKV_BATCH_STOP,  /* the sequence has ended: a stop token, or every token is excluded */
    QKV_BATCH_LENGTH /* the sequence has ended: it has all tokens that were asked for */
} qkv_batch_event_kind;

typedef struct {
    uint64_t sequence;
    qkv_batch_event_kind kind;
    int32_t id; /* TOKEN: the token; else -1 */
} qkv_batch_event;

/* One step for all sequences. QKV_E_NUMERIC: a logit of a sequence is NaN, which the message names;
 * that sequence has ended without an event, the others go on. After QKV_E_MEMORY the step may be
 * tried again. */
qkv_status qkv_batch_step(qkv_batch *b);

/* The events of the last step, in the order of ids; a sequence's last token comes before its end.
 * Returns their number; *out is valid until the next step. */
size_t qkv_batch_events(const qkv_batch *b, const qkv_batch_event **out);

size_t qkv_batch_live(const qkv_batch *b);    /* sequences that have memory */
size_t qkv_batch_waiting(const qkv_batch *b); /* sequences that wait for it */

typedef struct {
    size_t passes;        /* forward passes */
    size_t rows;          /* tokens read by the model */
    size_t prompt_tokens; /* of all prompts that were begun */
    size_t shared_tokens; /* of these, taken from another sequence */
    size_t made;          /* tokens made */
    size_t cache_bytes;   /* of keys and values */
} qkv_batch_stats;
qkv_batch_stats qkv_batch_statistics(const qkv_batch *b);

QKV_END_DECLS
#endif
