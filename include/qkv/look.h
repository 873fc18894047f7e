/* look.h - looking inside a forward pass: tensors and attention weights in a file, figures of
 * heads.
 * Layer: look
 *
 *     qkv_capture_options o = qkv_capture_defaults();
 *     o.file = "inside.safetensors";
 *     o.attentions = true;
 *     if (qkv_capture_open(&c, ctx, tape, &o))
 *         return fail(qkv_context_message(ctx));
 *     logits = qkv_lm_hidden(model, tape, ids, 0, NULL, NULL);
 *     qkv_capture_close(c);
 *
 * These functions add probes (tensor.h) to a tape; the fused forward pass is unchanged. They see
 * every model by the names of its places. Python reads the file with
 * safetensors.torch.load_file("inside.safetensors")["attentions.0"]. */
#ifndef QKV_LOOK_H
#define QKV_LOOK_H

#include <qkv/options.h>
#include <qkv/ops.h>
#include <qkv/safetensors.h>

QKV_BEGIN_DECLS

/* ---- names ---------------------------------------------------------------------------------- */

/* A place or an attention of a block: "decoder.3.cross" is stack "decoder", layer 3, part "cross".
 * stack and part point into the full name. */
typedef struct {
    const char *stack;
    size_t stack_length;
    size_t layer;
    const char *part;
} qkv_place;
bool qkv_place_parse(qkv_place *out, const char *name); /* false: not in a block */

/* ---- captures ------------------------------------------------------------------------------- */

/* What a capture stores. Start from qkv_capture_defaults. */
typedef struct {
    const char *file;   /* safetensors file */
    qkv_store store;    /* F32, F16 or BF16                                                  F32 */
    bool attentions;    /* attention weights: "attentions.L", or "encoder_attentions.L",
                           "decoder_attentions.L", "cross_attentions.L" (B, heads, T, S), L from 0,
                           as output_attentions of Hugging Face. Sequences of unequal length:
                           "attentions.L.SEQUENCE" (heads, T, S)                          false */
    bool hidden_states; /* the residual stream: "hidden_states.L" (B, T, width) before layer L, the
                           last after the last layer; "encoder_", "decoder_" as above;
                           Hugging Face's output_hidden_states                            false */
    bool final_norm;    /* the last hidden state is the final norm's output, as Hugging Face has it
                           for gpt2 and llama, not the residual stream                    false */
    bool norms;         /* the residual stream's Euclidean norm at every position, "norms.NAME"
                           (B, T), NAME a place                                           false */
    qkv_strings places; /* patterns of places (qkv_probe_add) whose tensors are stored by name
                                                                                           none */
    bool gradients;     /* gradients of all of these with respect to the objective of the backward
                           pass, as "grad.NAME", beside the values; the tape must record  false */
    int layer, head;    /* of attention weights; -1: all                                  -1, -1 */
    size_t row, rows;   /* of attention weights: queries row .. row + rows - 1; rows 0: to the end
                                                                                           0, 0 */
} qkv_capture_options;
qkv_capture_options qkv_capture_defaults(void);

/* A capture adds probes to a tape and writes what they see to the file. Attention weights are
 * written in tiles and never lie in memory as a whole. A place that is reached again (decoding step
 * by step) gets "@1", "@2", .. behind its name. */
typedef struct qkv_capture qkv_capture;

/* Copies the options. t must outlive the capture. On failure *out is NULL. */
qkv_status qkv_capture_open(qkv_capture **out, qkv_context *ctx, qkv_tape *t,
                            const qkv_capture_options *options);
/* Stores the gradients of tensors. Call it after the backward pass, before the tape's reset. Not
 * needed for gradients of attention weights. */
qkv_status qkv_capture_gradients(qkv_capture *c);
/* Completes the file and removes the tape's probes; c is gone. The first failure since open is
 * returned, and then there is no file. */
qkv_status qkv_capture_close(qkv_capture *c);
void qkv_capture_abandon(qkv_capture *c); /* leaves no file; NULL is allowed */

/* ---- figures of heads ------------------------------------------------------------------------ */

/* Means over the rows of a head's weights w_ij (query i, key j); nats and positions. */
typedef struct {
    const char *attention; /* full name: "h.3.attn" */
    int sequence, head;
    size_t rows, keys;
    double entropy;  /* -sum_j w_ij log w_ij; uniform attention has log(keys) */
    double distance; /* sum_j w_ij |i - j|, for keys that are the queries' own sequence */
    double first, previous, same; /* w_i0, w_i,i-1 (rows from the second on), w_ii */
    double most;     /* max_j w_ij */
} qkv_head_figures;

typedef struct qkv_head_table qkv_head_table;
/* Adds a probe to t that fills a table of all heads of attentions matching `pattern` (NULL: all).
 * On failure *out is NULL. */
qkv_status qkv_head_table_open(qkv_head_table **out, qkv_context *ctx, qkv_tape *t,
                               const char *pattern);
/* Entry i, in order of the pass: attention, sequence, head. false past the end, and if memory ran
 * out during the pass. The name is valid until the table is freed. */
bool qkv_head_table_at(const qkv_head_table *h, size_t i, qkv_head_figures *out);
/* Remove the tape's probes (qkv_probes_clear) before the table, if the tape is used again. */
void qkv_head_table_free(qkv_head_table *h); /* NULL is allowed */

/* ---- maps ----------------------------------------------------------------------------------- */

/* The weights of a head that are at least a given one: of query i keys key[k] with weight[k], k in
 * start[i] .. start[i+1]-1, keys ascending. */
typedef struct {
    const char *attention;
    int sequence, head;
    size_t rows, keys;
    const size_t *start;
    const uint32_t *key;
    const float *weight;
} qkv_head_map;

typedef struct qkv_head_maps qkv_head_maps;
/* Adds a probe to t that keeps weights >= least of all heads of attentions matching `pattern`
 * (NULL: all). A row keeps at most 1 / least of them. On failure *out is NULL. */
qkv_status qkv_head_maps_open(qkv_head_maps **out, qkv_context *ctx, qkv_tape *t,
                              const char *pattern, double least);
/* Entry i, as in qkv_head_table_at. The arrays are valid until the maps are freed. */
bool qkv_head_maps_at(const qkv_head_maps *m, size_t i, qkv_head_map *out);
void qkv_head_maps_free(qkv_head_maps *m); /* NULL is allowed */

/* ---- rollout -------------------------------------------------------------------------------- */

/* Attention rollout (Abnar and Zuidema 2020): R = prod over layers of (A + 1) / 2, A the mean of a
 * layer's heads. Row i is how much of position i comes from each position of the input. */
typedef struct qkv_rollout qkv_rollout;
/* Adds a probe to t, of sequence 0. pattern: the self-attentions of one stack ("h.*.attn"). Needs
 * memory for three (n, n) matrices. On failure *out is NULL. */
qkv_status qkv_rollout_open(qkv_rollout **out, qkv_context *ctx, qkv_tape *t, const char *pattern);
/* The matrix (*n, *n) after the pass. NULL if memory ran out, or if an attention had another
 * number of queries or keys. Valid until r is freed. */
const float *qkv_rollout_matrix(qkv_rollout *r, size_t *n);
void qkv_rollout_free(qkv_rollout *r); /* NULL is allowed */

QKV_END_DECLS
#endif
