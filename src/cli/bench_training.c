/* bench_training.c - a training step of a GPT on made-up text: timed by `qkv bench train`, only
 * laid out in memory by `qkv info --predict`. */
#include "cli/bench.h"

qkv_status bench_training_create(bench_training *b, qkv_context *ctx, const bench_step *step)
{
    *b = (bench_training){.ctx = ctx, .batch = step->batch, .length = step->length};
    qkv_optimizer_options o = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_status status = bench_model(ctx, &b->model, step->layout, step->model, step->length);
    if (!status)
        status = qkv_tape_create(&b->tape, ctx);
    if (!status)
        status = qkv_optimizer_create(&b->optimizer, qkv_model_params(b->model), &o,
                                      qkv_optimizer_decay_matrices, 1);
    if (status)
        return status;
    b->ids = qkv__calloc(ctx, b->batch * b->length + 1, sizeof *b->ids);
    return b->ids ? QKV_OK : QKV_E_MEMORY;
}

void bench_training_free(bench_training *b)
{
    qkv__free(b->ctx, b->ids);
    qkv_optimizer_destroy(b->optimizer);
    qkv_tape_destroy(b->tape);
    qkv_model_destroy(b->model);
}

qkv_status bench_training_step(bench_training *b)
{
    qkv_tape *t = b->tape;
    size_t shape[] = {b->batch, b->length};
    qkv_tape_reset(t);
    qkv_tape_mode(t, true, true);
    qkv_tensor *ids = qkv_tensor_ids(t, b->ids, 2, shape);
    qkv_tensor *targets = qkv_tensor_ids(t, b->ids + 1, 2, shape);
    qkv_tensor *h = qkv_lm_hidden(b->model, t, ids, 0, NULL, NULL);
    qkv_tensor *loss = qkv_lm_loss(b->model, t, h, targets, NULL);
    qkv_status status = qkv_backward(t, loss);
    qkv_optimizer_step_args args = {.lr = 1e-4, .max_norm = 1};
    if (!status)
        status = qkv_optimizer_step(b->optimizer, &args, NULL);
    qkv_params_zero_grad(qkv_model_params(b->model));
    return status;
}
