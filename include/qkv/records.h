/* records.h - a memory-mapped file of records, each a few sequences of ids (sentence pairs,
 * labelled texts), and packed batches of records.
 * Layer: text */
#ifndef QKV_RECORDS_H
#define QKV_RECORDS_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

typedef struct qkv_records qkv_records;
typedef struct qkv_records_writer qkv_records_writer;

/* Creates a writer for records of `fields` >= 1 sequences. path NULL: in memory. The file is a
 * safetensors file: `tokens`, I32, contains all sequences one after another; `offsets`, I64
 * (records, fields + 1), each sequence's start and the record's end. On failure *out is NULL. */
qkv_status qkv_records_create(qkv_records_writer **out, qkv_context *ctx, const char *path,
                              size_t fields);
/* Appends a sequence. Order: all fields of the first record, then the second's. n may be 0. */
qkv_status qkv_records_add(qkv_records_writer *w, const int32_t *ids, size_t n);
/* Completes the file under its name and opens it. out may be NULL, but not in memory. Always frees
 * the writer. On failure no file remains. */
qkv_status qkv_records_finish(qkv_records_writer *w, qkv_records **out);
void qkv_records_abandon(qkv_records_writer *w); /* frees w, leaves no file; NULL is allowed */

/* On failure *out is NULL and the message names the file. */
qkv_status qkv_records_open(qkv_records **out, qkv_context *ctx, const char *path);
void qkv_records_close(qkv_records *r); /* NULL is allowed */

size_t qkv_records_count(const qkv_records *r);
size_t qkv_records_fields(const qkv_records *r);
size_t qkv_records_ids(const qkv_records *r, size_t field); /* ids in the field of all records */
int32_t qkv_records_max(const qkv_records *r, size_t field); /* the largest id; -1: no ids */
/* Sets *ids to the record's field and returns its length. Valid while r is open. */
size_t qkv_records_get(const qkv_records *r, size_t record, size_t field, const int32_t **ids);

/* ---- packed batches ------------------------------------------------------------------------- */

/* Batches of whole records, shuffled in every epoch, of at most `budget` ids in all fields
 * together. A longer record is a batch of its own. Batch n is a function of (records, budget, seed,
 * n). Batches do not cross the end of an epoch. */
typedef struct qkv_packed_batches qkv_packed_batches;

/* records must outlive the batches and not be empty. On failure *out is NULL. */
qkv_status qkv_packed_batches_create(qkv_packed_batches **out, qkv_context *ctx,
                                     const qkv_records *records, size_t budget, uint64_t seed);
void qkv_packed_batches_destroy(qkv_packed_batches *p); /* NULL is allowed */
/* Sets *records to the indices of the batch's records, valid until the next call, and returns their
 * number. Consecutive batches are fast. */
size_t qkv_packed_batches_get(qkv_packed_batches *p, uint64_t pack, const uint64_t **records);
size_t qkv_packed_batches_per_epoch(const qkv_packed_batches *p); /* of the first epoch; other
                                                                     epochs differ by a few */

QKV_END_DECLS
#endif
