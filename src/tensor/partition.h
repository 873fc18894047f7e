/* partition.h - the parameters to train, laid out for ranks: their values and gradients lie in
 * buckets, in the order in which a backward pass ends with them, and a bucket is cut into as many
 * equal chunks as a batch has shards (Rajbhandari et al. 2020: ZeRO).
 *
 * What is added up or drawn from a whole gradient is computed chunk by chunk, or rather piece by
 * piece: a piece is what of a parameter lies in a chunk. So its bits depend on the number of
 * chunks, never on how many of them a rank owns. */
#ifndef QKV_SRC_TENSOR_PARTITION_H
#define QKV_SRC_TENSOR_PARTITION_H

#include "base/base.h"
#include "qkv/tensor.h"

typedef struct {
    size_t param;       /* of qkv_params_at */
    size_t from, count; /* its elements */
    size_t chunk;
    bool first; /* of the parameter */
} qkv__piece;

typedef struct {
    qkv_real *data, *grad; /* (count); of the device. grad may come and go */
    qkv_real *slice; /* this rank's slice of the gradient, where it is kept apart; else NULL */
    size_t slice_from; /* the number of the bucket that it begins with */
    size_t count;
    size_t chunk; /* numbers of a chunk; 0: all of them belong to chunk `home` */
    size_t home;
    size_t first, pieces; /* of the list of pieces */
} qkv__bucket;

typedef struct {
    qkv_params *params;
    size_t chunks, bucket_count, piece_count;
    qkv__bucket *buckets;
    qkv__piece *pieces;  /* by bucket, and in a bucket by place */
    size_t *bucket_of;   /* (parameters) SIZE_MAX: it is frozen, and in none */
    size_t *place_of;    /* (parameters) first number in the bucket */
} qkv__partition;

/* Moves the parameters' values into buckets, and gives all that are not frozen now a gradient's
 * place there, unless gradients come and go (qkv__bucket_take). matrices_whole: the matrices of
 * hidden layers, which Muon updates whole, are each in a bucket of their own that one chunk owns.
 * The memory belongs to params. On failure *out is NULL, and nothing has changed. */
qkv_status qkv__partition_create(qkv__partition **out, qkv_params *params, size_t chunks,
                                 bool matrices_whole, bool come_and_go);
void qkv__partition_destroy(qkv__partition *p); /* NULL is allowed; the parameters stay in place */

/* Of chunks [first, end) of a bucket: the numbers [*from, *to). */
void qkv__bucket_range(const qkv__bucket *b, size_t first, size_t end, size_t *from, size_t *to);

/* What rank `rank` of `ranks` owns, each of which has equally many neighbouring chunks: of a bucket
 * the numbers [*from, *to), of a parameter in a bucket the elements [*from, *to). */
void qkv__bucket_slice(const qkv__partition *p, size_t bucket, size_t ranks, size_t rank,
                       size_t *from, size_t *to);
void qkv__partition_own(const qkv__partition *p, size_t param, size_t ranks, size_t rank,
                        size_t *from, size_t *to);

/* Has any parameter of the bucket a gradient? */
bool qkv__bucket_has_grad(const qkv__partition *p, size_t bucket);
/* The gradients of parameters without one become zeros; they still count as without one. */
void qkv__bucket_complete(const qkv__partition *p, size_t bucket);
/* Exchanges the memory of the bucket's gradients with *other, of the same size. */
void qkv__bucket_swap(const qkv__partition *p, size_t bucket, qkv_real **other);

/* Memory for the bucket's gradients, of its count; and away with it, which returns it. A parameter
 * in the bucket whose gradient is asked for while there is none calls what was set by
 * qkv__params_on_grad_memory. */
void qkv__bucket_take(const qkv__partition *p, size_t bucket, qkv_real *grad);
qkv_real *qkv__bucket_drop(const qkv__partition *p, size_t bucket);

/* y += x, n numbers of the parameters' device. */
void qkv__partition_add(const qkv__partition *p, qkv_real *y, const qkv_real *x, size_t n);
/* Where the gradient of a parameter's element lies, one of those that this rank keeps. */
qkv_real *qkv__partition_grad(const qkv__partition *p, size_t param, size_t element);
/* Where the piece's gradient lies. */
const qkv_real *qkv__piece_grad(const qkv__partition *p, const qkv__piece *piece);
/* Sum of squares of the piece's gradient. */
double qkv__piece_squares(const qkv__partition *p, const qkv__piece *piece);
/* The bucket's values are others than before. */
void qkv__bucket_touch(const qkv__partition *p, size_t bucket);

#endif
