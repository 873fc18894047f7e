/* ranks.h - an update over several ranks, or over several shards of a batch on one.
 *
 * The batch is cut into shards; a rank has as many as every other, one after another. A shard's
 * gradient is computed alone, shards are added up as a binary tree, and what is computed from the
 * sum is computed chunk by chunk (tensor/partition.h). So the bits depend on the number of shards,
 * not on that of ranks, where both are powers of two. Each rank keeps the optimiser's state and
 * the averages of its chunks alone, and where it can the gradients (ZeRO-1 and ZeRO-2,
 * Rajbhandari et al. 2020). */
#ifndef QKV_SRC_TRAIN_RANKS_H
#define QKV_SRC_TRAIN_RANKS_H

#include "opt/state.h"
#include "qkv/task.h"
#include "train/exchange.h"

typedef struct qkv__ranks qkv__ranks;

/* Lays the parameters out for this context's ranks and so many shards, a multiple of the ranks.
 * passes: of a shard. Where a rank has one shard done in one pass, its gradients are sent and
 * dropped bucket by bucket, and it keeps its own chunks alone (ZeRO-2). On failure *out is NULL. */
qkv_status qkv__ranks_create(qkv__ranks **out, qkv_params *params, size_t shards, size_t passes,
                             qkv_optimizer_kind kind);
void qkv__ranks_destroy(qkv__ranks *r); /* NULL is allowed */

/* (parameters) what this rank keeps state of, for optimisers and averages. */
const qkv__own *qkv__ranks_own(const qkv__ranks *r);
/* Is the parameter's state cut over the ranks? */
bool qkv__ranks_cuts(const qkv__ranks *r, size_t param);
/* The range of a parameter that a rank owns. */
qkv__own qkv__ranks_own_of(const qkv__ranks *r, size_t param, int rank);

/* The parameters of rank 0 become those of all. */
qkv_status qkv__ranks_broadcast(qkv__ranks *r);
/* All get the values that each rank has of its own chunks. */
qkv_status qkv__ranks_share(qkv__ranks *r);

/* ---- an update ------------------------------------------------------------------------------ */

/* Number of shards of this rank, and the samples [*from, *to) of a batch that are its i-th's. */
size_t qkv__ranks_shards(const qkv__ranks *r);
void qkv__ranks_shard(const qkv__ranks *r, size_t i, size_t batch, size_t *from, size_t *to);

/* Gradients come from the passes of this tape. */
void qkv__ranks_listen(qkv__ranks *r, qkv_tape *t);

/* Before the shards of a phase. */
void qkv__ranks_begin(qkv__ranks *r);

/* Before the last backward pass of a shard: gradients that are complete go out at once if it is the
 * rank's last shard. */
void qkv__ranks_last_pass(qkv__ranks *r, size_t shard);
/* After the passes of a shard, with its loss and the terms of it. */
qkv_status qkv__ranks_end_shard(qkv__ranks *r, size_t shard, double loss, const qkv_terms *terms);

typedef struct {
    double loss; /* of the batch */
    qkv_terms terms;
    double norm; /* of its gradient */
} qkv__ranks_sums;

/* After the passes: status is this rank's; all fail if one does. Waits for the slowest. */
qkv_status qkv__ranks_agree(qkv__ranks *r, qkv_status status);

/* Ends a phase on which all agree: sums over all shards, then one update of the parameters, on
 * every rank. Sums of squares are left for qkv__ranks_squares. */
qkv_status qkv__ranks_finish(qkv__ranks *r, qkv_optimizer *optimizer,
                             const qkv_optimizer_step_args *args, qkv__ranks_sums *out);

/* Sum of squares of a parameter's last gradient, the sum's over all shards. */
double qkv__ranks_squares(const qkv__ranks *r, size_t param);

/* What updates have spent on others so far: seconds that this rank waited for slower ones, and for
 * messages; how much of the gradients had arrived when backward passes ended, 0 to 1. */
typedef struct {
    double slowest, messages, hidden;
} qkv__ranks_cost;
qkv__ranks_cost qkv__ranks_cost_of(const qkv__ranks *r);

#endif
