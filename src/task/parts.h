/* parts.h - the parts that an evaluation falls into, which ranks share: cuts of records, a
 * classifier's guesses, rows that every rank is to have. */
#ifndef QKV_SRC_TASK_PARTS_H
#define QKV_SRC_TASK_PARTS_H

#include "dist/map.h"
#include "qkv/records.h"

/* Records, evaluated part by part. */
typedef struct {
    const qkv_records *records;
    const size_t *numbers; /* (count) which records; NULL: evenly over all */
    size_t count;
    size_t *begins, parts; /* (parts + 1) places among the count; freed with qkv_free */
} qkv__record_parts;

/* The number of the i-th record of the count. */
size_t qkv__record_number(const qkv__record_parts *p, size_t i);
/* Fills in begins and parts: a record that brings a part to `rows` ids of the fields from `field`
 * on is its last. */
qkv_status qkv__record_parts_cut(qkv__record_parts *p, qkv_context *ctx, size_t field,
                                 size_t fields, size_t rows);

/* qkv__dist_map for classifiers: a part gives its loss in out[0] and a guess for each of its items,
 * `most` or fewer, behind it. begins (parts + 1): where parts begin among the count; NULL: all but
 * the last have `most` items. guesses (count); *loss: the sum. */
qkv_status qkv__map_guesses(qkv_context *ctx, size_t parts, size_t most, const size_t *begins,
                            size_t count, qkv__dist_part_fn *part, void *user, int32_t *guesses,
                            double *loss);

/* Parts [*from, *to) of `parts`: a stretch for each rank, by the order of ranks. */
void qkv__own_stretch(const qkv_context *ctx, size_t parts, size_t *from, size_t *to);
/* Rows [from, to) are those of this rank's stretch, `bytes` each; all ranks get all rows. status:
 * of making them; every rank fails if one does. */
qkv_status qkv__share_rows(qkv_context *ctx, qkv_status status, void *rows, size_t from, size_t to,
                           size_t bytes);

#endif
