/* predict.h - prediction of a training step's memory, without allocating it.
 * Layer: train */
#ifndef QKV_PREDICT_H
#define QKV_PREDICT_H

#include <qkv/model.h>
#include <qkv/opt.h>

QKV_BEGIN_DECLS

/* A training step. Its functions run on a meta context, where tensors have shapes but no values,
 * and are REQUIRED. */
typedef struct {
    /* Creates models[0], which is trained, and optionally models[1], which the loss also uses.
     * Both are initially NULL. */
    qkv_status (*make)(void *user, qkv_context *ctx, qkv_model *models[2]);
    /* Records the loss of the whole batch on t. NULL on failure. */
    qkv_tensor *(*loss)(void *user, qkv_tape *t);
    /* Frees everything that make and loss created, including the models, also after a failure. */
    void (*end)(void *user);
    void *user; /* argument of the functions */
    bool recompute; /* as qkv_tape_recompute */
    size_t ranks;   /* over which the optimiser's state is cut (dist.h); loss is that of one rank's
                       samples. 0: one */
    bool keeps;     /* the gradients of several ranks are kept whole, as with several passes of a
                       rank's samples; false: they are sent and dropped, bucket by bucket */
    bool average;   /* keeps an average of the weights, as --ema */
} qkv_predicted_step;

/* Memory of a training step on one rank, bytes. Of several ranks it is rank 0, whose part of the
 * optimiser's state is none smaller than the others'. */
typedef struct {
    size_t parameters;  /* of both models */
    size_t gradients;
    size_t optimizer;   /* state of the optimiser, of this rank */
    size_t averages;    /* average of the weights, of this rank */
    size_t exchange;    /* gradients of other ranks that arrive */
    size_t activations; /* tensors kept for the backward pass, and their gradients, but for those
                           in memory of the parameters' gradients, which a batch in several passes
                           has in the first one alone */
    size_t scratch;     /* maximum scratch memory of a kernel */
    size_t process;     /* the process now, and what other libraries allocate when they compute; of
                           several ranks also what qkv_train measures the machine's limit in */
    size_t total;       /* sum of the above */
} qkv_memory_prediction;

/* Runs forward pass, backward pass, clipping and an update (optimizer NULL: AdamW with its
 * defaults) in a meta context with ctx's threads, instruction sets and bf16: training's code
 * reserves memory and computes nothing. `process` is measured with one product
 * (qkv_machine_product_bytes), so call it early in a process. On failure *out is zeroed and ctx has
 * the message. */
qkv_status qkv_predict_memory(qkv_context *ctx, const qkv_predicted_step *step,
                              const qkv_optimizer_options *optimizer,
                              qkv_memory_prediction *out);

QKV_END_DECLS
#endif
