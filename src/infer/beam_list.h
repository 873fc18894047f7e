/* beam_list.h - the tokens that a beam search chooses among, where a shortlist has them. */
#ifndef QKV_SRC_INFER_BEAM_LIST_H
#define QKV_SRC_INFER_BEAM_LIST_H

#include "base/base.h"
#include "qkv/hub.h"
#include "qkv/model.h"
#include "qkv/shortlist.h"

/* Zeroed: all tokens. */
typedef struct {
    const qkv_shortlist *from; /* NULL: none */
    qkv_shortlist_options o;
    qkv_ids tokens; /* of the batch that runs, increasing; none: all */
    int32_t banned[QKV_GENERATION_IDS]; /* (bans) places in tokens */
    size_t bans;
} qkv__beam_list;

/* Gathers what source ids (n) leave to choose among; nothing without a shortlist. k: tokens that
 * are asked for of a row. */
qkv_status qkv__beam_list_begin(qkv__beam_list *l, qkv_model *m, const qkv_generation *g, size_t k,
                                const int32_t *ids, size_t n);
/* Places (n) become tokens; -1 stays. */
void qkv__beam_list_name(const qkv__beam_list *l, int32_t *ids, size_t n);

#endif
