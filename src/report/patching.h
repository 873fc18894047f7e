/* patching.h - one call of activation patching: what its files share. */
#ifndef QKV_SRC_REPORT_PATCHING_H
#define QKV_SRC_REPORT_PATCHING_H

#include "report/looking.h"

/* A copy of a tensor of a pass. */
typedef struct {
    qkv_real *data; /* NULL: none */
    int ndim;
    size_t count, shape[QKV_MAX_DIMS];
} qkv__patch_tensor;

/* A place that is patched. */
typedef struct {
    char *name;
    size_t layer; /* of the stack: with it a pass is entered that comes by the place */
    qkv__patch_tensor clean;
} qkv__patch_place;

/* A stack of layers, and what its passes have. */
typedef struct {
    struct qkv__patching *j;
    const char *stack;
    size_t axis, T;
    qkv__patch_tensor *stream; /* the corrupt stream before each layer and after the last */
    size_t stream_count, stream_room;
    qkv__patch_place *places; /* in order of the pass */
    size_t place_count, place_room;
    size_t passed; /* layers, in a pass that is kept */
} qkv__patch_stack;

typedef struct qkv__patching {
    qkv_pipeline *p;
    const qkv__look_kind *kind;
    const qkv__patch_kind *patch;
    const qkv__patch_layers *layers;
    qkv_pipeline_patch_options o;
    qkv_patch *out;
    qkv__looking clean, corrupt;
    qkv__patch_stack stacks[QKV_LOOK_ATTENTIONS];
    size_t stack_count, at, choices, answer, other; /* other == choices: none */
    qkv_real *outputs[2]; /* clean, corrupt: (places or 1, choices) */
    size_t places;
    bool out_of_memory;
    qkv__patch_stack *now;      /* of a pass that patches .. */
    size_t layer, first, count; /* .. its place of that index, at positions (or heads) first ..
                                   first + count - 1 */
    size_t from;                /* and has positions from this one on */
} qkv__patching;

/* ---- patch_pass.c ---------------------------------------------------------------------------- */

/* A pass on each input, whose streams, activations and outputs are kept. */
qkv_status qkv__patch_keep(qkv__patching *j);
/* Whether the place's tensor has the stack's positions. */
bool qkv__patch_fits(const qkv__patching *j, const qkv__patch_stack *s, const qkv__patch_place *x);
/* A pass that patches, as j says: measured (count). */
qkv_status qkv__patch_pass(qkv__patching *j, double *measured);
void qkv__patch_free_stacks(qkv__patching *j);

/* ---- patch_answer.c -------------------------------------------------------------------------- */

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
