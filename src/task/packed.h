/* packed.h - texts one after another, as an encoder reads them without padding. */
#ifndef QKV_SRC_TASK_PACKED_H
#define QKV_SRC_TASK_PACKED_H

#include "base/base.h"
#include "qkv/model.h"
#include "qkv/records.h"

/* Zeroed but for ctx: empty. Memory grows to the largest batch and stays. */
typedef struct {
    qkv_context *ctx;
    int32_t *ids, *segments; /* (rows) */
    int32_t *offsets;        /* (sequences + 1): where each text begins; the last: rows */
    size_t rows, sequences;
    size_t row_room, segment_room, sequence_room;
    bool failed; /* no memory: calls do nothing until it is cleared */
} qkv__packed;

void qkv__packed_free(qkv__packed *p);
void qkv__packed_clear(qkv__packed *p);
/* Puts n ids at the end of the text that is being built, and ends it. */
void qkv__packed_add(qkv__packed *p, const int32_t *ids, size_t n, int32_t segment);
void qkv__packed_end(qkv__packed *p);
/* Adds a field of a record as a text. */
void qkv__packed_field(qkv__packed *p, const qkv_records *r, size_t record, size_t field);
/* Adds a record's fields as one text: field 0 is segment 0, field 1 (if `fields` is 2) is 1. */
void qkv__packed_record(qkv__packed *p, const qkv_records *r, size_t record, size_t fields);

/* BERT's output (1, rows, width); p must stay as it is until the step ends. NULL on failure. */
qkv_tensor *qkv__packed_hidden(const qkv__packed *p, qkv_model *m, qkv_tape *t);

/* BERT's configuration has room for all these records: ids, lengths. `what` names them in the
 * sentence: "training". */
qkv_status qkv__packed_check(const qkv_model *m, const qkv_records *r, size_t fields,
                             const char *what);

#endif
