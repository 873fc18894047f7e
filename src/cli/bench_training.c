/* bench_training.c - a training step of a GPT on made-up text: timed by `qkv bench train`, only
 * laid out in memory by `qkv info --predict`. */
#include "cli/bench.h"

#define FIELD(member) .offset = offsetof(bench_step, member)
static const qkv_option rows[] = {
    {.flag = "model", .type = QKV_OPT_STRING, FIELD(model), .value = "PRESET",
     .initial = "gpt2", .help = "size: nano tiny mini small medium large gpt2 .."},
    {.flag = "layout", .type = QKV_OPT_ENUM, FIELD(layout), .names = bench_layouts,
     .initial = "gpt2", .help = "of the model"},
    {.flag = "batch", .type = QKV_OPT_SIZE, .min = 1, .max = 65536, FIELD(batch),
     .initial = "4", .help = "sequences in a step"},
    {.flag = "length", .type = QKV_OPT_SIZE, .min = 1, .max = 1048576, FIELD(length),
     .initial = "256", .help = "tokens in a sequence"},
};
const qkv_option_table bench_step_table = {"Training step", rows, sizeof rows / sizeof *rows};

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
