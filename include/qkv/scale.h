/* scale.h - prediction of training over many ranks: time, messages and cost of an update, from a
 * step of one rank and the alpha-beta model of messages.
 * Layer: train
 *
 *     qkv_scale_step step;
 *     qkv_scale_prediction p;
 *     qkv_scale_cluster on = {.ranks = 64, .bandwidth = 1.25e9, .latency = 20e-6};
 *     qkv_scale_measure(ctx, &what, 4, NULL, 3, &step);
 *     qkv_scale_predict(ctx, &step, &on, &p);         p.step seconds, p.efficiency ..
 *     qkv_scale_step_free(ctx, &step);
 *
 * What is predicted is what qkv_train does over ranks (dist.h): data parallel, every message
 * directly from rank to rank. Memory: qkv_predict_memory with its `ranks`. */
#ifndef QKV_SCALE_H
#define QKV_SCALE_H

#include <qkv/predict.h>

QKV_BEGIN_DECLS

/* Parameters whose gradients are exchanged together. */
typedef struct {
    double bytes;
    double ready; /* share of the backward pass that is over when all are complete [0, 1] */
    bool tied;    /* has a table that embedding and head share: where a rank's samples take
                   * several passes, it is complete at the end of the last one */
} qkv_scale_bucket;

/* A step of one rank. */
typedef struct {
    double samples;           /* that the passes read */
    double forward, backward; /* seconds of the passes */
    double update;            /* seconds: clipping and the optimiser, all parameters */
    double sum;               /* seconds: adding one other rank's gradients of all parameters */
    double transport;         /* seconds of a processor for a byte that TCP sends and one that it
                               * receives; 0: the network has processors of its own (RDMA) */
    qkv_scale_bucket *buckets; /* (bucket_count) in the order in which they are exchanged */
    size_t bucket_count;
} qkv_scale_step;

/* Takes the step `repeats` times on ctx, after one that does not count, and keeps the medians.
 * samples: that its loss reads. optimizer NULL: AdamW's defaults. On failure *out is zeroed and ctx
 * has the message; else qkv_scale_step_free frees it. */
qkv_status qkv_scale_measure(qkv_context *ctx, const qkv_predicted_step *step, double samples,
                             const qkv_optimizer_options *optimizer, size_t repeats,
                             qkv_scale_step *out);

/* The same without taking it, for models larger than this machine: both passes together take
 * `seconds`, the backward pass two thirds of them. The step runs in a meta context. Gradients are
 * complete in the order of that step, evenly over the backward pass, the last at its end. update
 * and sum: the bytes that AdamW and an addition read and write, at the bandwidth of this machine's
 * memory. */
qkv_status qkv_scale_assume(qkv_context *ctx, const qkv_predicted_step *step, double samples,
                            double seconds, qkv_scale_step *out);

void qkv_scale_step_free(qkv_context *ctx, qkv_scale_step *step); /* zeroed is allowed */

/* The machines. */
typedef struct {
    size_t ranks;
    size_t ranks_per_machine; /* divides ranks; they share its bandwidth; 0: one */
    double bandwidth; /* bytes/s that a machine sends, and at the same time receives     > 0 */
    double latency;   /* seconds of an empty message                                  [0, inf) */
    double batch;     /* samples of an update, at least one a rank; 0: ranks * step.samples */
} qkv_scale_cluster;

typedef struct {
    double step;          /* seconds of an update: the sum of the next three */
    double compute;       /* forward and backward passes of a rank's samples */
    double waiting;       /* messages that no backward pass hides */
    double update;        /* sums of gradients, clipping, the optimiser, the work of TCP */
    double samples_per_s; /* of all ranks */
    double efficiency;    /* that, as a share of `ranks` times one rank with as many samples */
    double bytes;         /* that a rank sends in an update, to ranks of other machines */
    double messages;      /* the same */
} qkv_scale_prediction;

/* The formulas are in src/train/scale.c. QKV_E_ARGUMENT, with *out zeroed, for a cluster out of
 * range or a step without samples or buckets. */
qkv_status qkv_scale_predict(qkv_context *ctx, const qkv_scale_step *step,
                             const qkv_scale_cluster *on, qkv_scale_prediction *out);

/* What `updates` updates cost, at a price for a machine and hour, in its currency. */
double qkv_scale_cost(const qkv_scale_cluster *on, const qkv_scale_prediction *p, double updates,
                      double price);

QKV_END_DECLS
#endif
