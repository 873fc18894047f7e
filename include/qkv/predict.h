/* predict.h - the memory that a training step takes, known without taking it.
 * Layer: train */
#ifndef QKV_PREDICT_H
#define QKV_PREDICT_H

#include <qkv/model.h>
#include <qkv/opt.h>

QKV_BEGIN_DECLS

/* A training step. Its functions are called on a meta context, where tensors have shapes and no
 * values. All are REQUIRED. */
typedef struct {
    /* Makes models[0], which is trained, and models[1], which the loss uses beside it (NULL at
     * first: there is none). */
    qkv_status (*make)(void *user, qkv_context *ctx, qkv_model *models[2]);
    /* The loss of the whole batch, recorded on t. NULL on failure. */
    qkv_tensor *(*loss)(void *user, qkv_tape *t);
    /* Frees what the others made, the models too; after a failure as well. */
    void (*end)(void *user);
    void *user; /* handed to all three */
} qkv_predicted_step;

/* Bytes. */
typedef struct {
    size_t parameters;  /* of both models */
    size_t gradients;
    size_t optimizer;   /* state of the optimiser */
    size_t activations; /* what the tape keeps for the backward pass, and its gradients */
    size_t scratch;     /* the most that kernels take for themselves */
    size_t process;     /* this process as it is, and what libraries take once they compute */
    size_t total;       /* the sum of these */
} qkv_memory_prediction;

/* Lays out forward and backward pass, clipping and an update (optimizer NULL: AdamW with its
 * defaults) in a meta context with ctx's threads, instruction sets and bf16: the same code as in
 * training reserves memory and computes nothing. `process` is measured by one product
 * (qkv_machine_product_bytes), so this is meant for a young process. On failure *out is zeroed, and
 * ctx has the sentence. */
qkv_status qkv_predict_memory(qkv_context *ctx, const qkv_predicted_step *step,
                              const qkv_optimizer_options *optimizer,
                              qkv_memory_prediction *out);

QKV_END_DECLS
#endif
