/* patching.h - one call of activation patching: what its files share. */
#ifndef QKV_SRC_REPORT_PATCHING_H
#define QKV_SRC_REPORT_PATCHING_H

#include "report/looking.h"

/* A stack of blocks, and what its passes have. */
typedef struct {
    const char *stack;
    size_t axis, T, layers, width;
    qkv_real **stream; /* (layers + 1) the corrupt stream before each layer and after the last */
    qkv_real **kept;   /* (layers) clean activations at the place, (T, size); entries may be NULL */
    size_t stream_count, stream_room, size, heads; /* heads: of the place, or 0 */
} qkv__patch_stack;

typedef struct {
    qkv_pipeline *p;
    const qkv__look_kind *kind;
    const qkv__patch_kind *patch;
    qkv_pipeline_patch_options o;
    qkv_patch *out;
    qkv__looking clean, corrupt;
    qkv__patch_stack stacks[QKV_LOOK_ATTENTIONS];
    size_t stack_count, at, choices, answer, other; /* other == choices: none */
    qkv_real *outputs[2]; /* clean, corrupt: (places or 1, choices) */
    size_t places;
    bool keep_clean, out_of_memory;
    qkv__patch_stack *now;           /* of a pass that patches .. */
    size_t layer, first, count; /* .. positions (or heads) first .. first + count - 1 */
    size_t from;                /* and has positions from this one on */
} qkv__patching;

/* ---- look_patch_answer.c --------------------------------------------------------------------- */

/* j->at, as the options say; *everywhere: where the answers differ most, which passes show. */
qkv_status qkv__patch_where(qkv__patching *j, bool *everywhere);
/* After passes whose outputs are of all places: j->at, and the outputs of it alone. */
void qkv__patch_choose(qkv__patching *j);
/* j->answer and j->other, as the options say. */
qkv_status qkv__patch_answer(qkv__patching *j);
/* The measure of outputs (choices). */
double qkv__patch_measure(const qkv__patching *j, const qkv_real *outputs);
/* Names and outcomes of the result. */
qkv_status qkv__patch_name(qkv__patching *j);

#endif
