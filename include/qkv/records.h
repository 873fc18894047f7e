/* records.h - a mapped file of records, each some sequences of ids: sentence pairs, labelled
 * texts; and the packed batches of them that training reads.
 * Layer: text */
#ifndef QKV_RECORDS_H
#define QKV_RECORDS_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

typedef struct qkv_records qkv_records;
typedef struct qkv_records_writer qkv_records_writer;

/* Begins records of `fields` >= 1 sequences each, in a file at path or, with path NULL, in memory.
 * The file is a safetensors file: `tokens`, I32, holds all sequences one after another; `offsets`,
 * I64 (records, fields + 1), where each begins and the record ends. On failure *out is NULL. */
qkv_status qkv_records_create(qkv_records_writer **out, qkv_context *ctx, const char *path,
                              size_t fields);
/* The next sequence: first record's first field, its second, ..; n may be 0. */
qkv_status qkv_records_add(qkv_records_writer *w, const int32_t *ids, size_t n);
/* Ends the file, which exists under its name from now on, and opens it (out may be NULL: not in
 * memory then). The writer is freed either way; after a failure there is no file. */
qkv_status qkv_records_finish(qkv_records_writer *w, qkv_records **out);
void qkv_records_abandon(qkv_records_writer *w); /* leaves nothing; NULL is allowed */

/* On failure *out is NULL and the context names the file. */
qkv_status qkv_records_open(qkv_records **out, qkv_context *ctx, const char *path);
void qkv_records_close(qkv_records *r); /* NULL is allowed */

size_t qkv_records_count(const qkv_records *r);
size_t qkv_records_fields(const qkv_records *r);
size_t qkv_records_ids(const qkv_records *r, size_t field); /* of all records, that field's */
int32_t qkv_records_max(const qkv_records *r, size_t field); /* the largest id; -1: there is none */
/* Points *ids at the record's field and returns its length; valid while r is open. */
size_t qkv_records_get(const qkv_records *r, size_t record, size_t field, const int32_t **ids);

/* ---- packed batches ------------------------------------------------------------------------- */

/* Records in an order shuffled anew for every epoch, cut into batches of up to `budget` ids, all
 * fields counted (a longer record is a batch of its own). What batch number n holds is a function
 * of (records, budget, seed, n) alone; batches never cross an epoch's end. */
typedef struct qkv_packed_batches qkv_packed_batches;

/* records must outlive the batches and hold at least one. On failure *out is NULL. */
qkv_status qkv_packed_batches_create(qkv_packed_batches **out, qkv_context *ctx,
                                     const qkv_records *records, size_t budget, uint64_t seed);
void qkv_packed_batches_destroy(qkv_packed_batches *p); /* NULL is allowed */
/* Points *records at the numbers of the pack's records, valid until the next call, and returns
 * how many; going through batches in order is cheap. */
size_t qkv_packed_batches_get(qkv_packed_batches *p, uint64_t pack, const uint64_t **records);
size_t qkv_packed_batches_per_epoch(const qkv_packed_batches *p); /* in the first one: others differ
                                                                     by a few */

QKV_END_DECLS
#endif
