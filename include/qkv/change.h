/* change.h - changing what a forward pass computes: scaling, ablating and steering at places.
 * Layer: look
 *
 *     qkv_changes *c;
 *     qkv_changes_create(&c, ctx);
 *     qkv_changes_add_text(c, "h.3.attn.z head=2 zero");
 *     qkv_changes_apply(c, tape);
 *     logits = qkv_lm_hidden(model, tape, ids, 0, NULL, NULL);
 *     qkv_probes_clear(tape);
 *     qkv_changes_destroy(c);
 *
 * Changes are probes that write (tensor.h): they hold for every pass of the tape, decoding with a
 * cache included, and gradients flow through them. Probes that are added later see what they made.
 * Activation steering: Turner et al. 2023, "Activation Addition"; ablation by the mean: Wang et al.
 * 2022, "Interpretability in the Wild". */
#ifndef QKV_CHANGE_H
#define QKV_CHANGE_H

#include <qkv/look.h>

QKV_BEGIN_DECLS

/* What x (B, T, width) or (B, T, heads, width) at matching places becomes, at the positions and
 * head that are chosen: scale x + times vector, or scale m + times vector with m the mean of x over
 * the positions of the pass. Start from qkv_change_defaults. */
typedef struct {
    const char *place;      /* pattern of places (qkv_probe_add): "h.3.attn.z", "*.ff.out" */
    int head;               /* -1: all                                                        -1 */
    size_t first, count;    /* positions; a pass of one position follows the one before, as in
                               decoding, others begin at 0. count 0: to the end             0, 0 */
    bool mean;              /*                                                             false */
    double scale;           /*                                                                 1 */
    const qkv_real *vector; /* (width): a row of the chosen part of x. NULL: none           NULL */
    size_t width;           /*                                                                 0 */
    double times;           /*                                                                 1 */
} qkv_change;
qkv_change qkv_change_defaults(void);

typedef struct qkv_changes qkv_changes;
/* On failure *out is NULL. */
qkv_status qkv_changes_create(qkv_changes **out, qkv_context *ctx);
void qkv_changes_destroy(qkv_changes *c); /* after the tapes' probes; NULL is allowed */

/* Adds a change; place and vector are copied. */
qkv_status qkv_changes_add(qkv_changes *c, const qkv_change *change);
/* Adds a change written as a place and words behind it, separated by spaces:
 *     head=N            of a place with heads
 *     at=N, at=N..M     positions N, or N to M, from 0
 *     zero, scale=X     times 0, or X
 *     mean              what is there becomes its mean over the positions of the pass
 *     add=FILE          plus a vector: of a .npy file or text, or FILE.safetensors:TENSOR. Rows of
 *                       a tensor (.., width) are averaged
 *     times=X           .. X times the vector
 * QKV_E_ARGUMENT: malformed, or nothing is changed; the file's errors. */
qkv_status qkv_changes_add_text(qkv_changes *c, const char *text);
size_t qkv_changes_count(const qkv_changes *c);

/* Adds the probes to a tape, for sequences that begin at position 0; the tape must not outlive c
 * with them. A pass in which a change does
 * not fit its tensor fails with a sentence. */
qkv_status qkv_changes_apply(qkv_changes *c, qkv_tape *t);
/* How many tensors change i was made to, since it was added. 0 after a pass: no place matches. */
size_t qkv_changes_made(const qkv_changes *c, size_t i);
const char *qkv_changes_place(const qkv_changes *c, size_t i);

QKV_END_DECLS
#endif
