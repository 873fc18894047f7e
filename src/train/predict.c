/* predict.c - the memory of a training step, from a step in a meta context.
 *
 * What the arenas hold after it is the answer. Beside them there is the process itself, and what
 * libraries take once they compute, which is measured. */
#include "qkv/predict.h"

#include "base/base.h"
#include "qkv/machine.h"

/* What the step makes. */
typedef struct {
    qkv_context *ctx; /* computes nothing */
    qkv_tape *tape;
    qkv_optimizer *optimizer;
} plan;

static qkv_status predict_lay_out(plan *p, const qkv_predicted_step *step,
                                  const qkv_optimizer_options *optimizer,
                                  qkv_memory_prediction *out)
{
    const qkv_optimizer_step_args args = {.lr = 1e-4, .max_norm = 1};
    qkv_model *models[2] = {NULL, NULL};
    qkv_status status = step->make(step->user, p->ctx, models);
    if (status)
        return status;
    qkv_params *params = qkv_model_params(models[0]);
    size_t before = qkv_params_bytes(params);
    out->parameters = before + (models[1] ? qkv_params_bytes(qkv_model_params(models[1])) : 0);
    status = qkv_tape_create(&p->tape, p->ctx);
    if (!status)
        status = qkv_optimizer_create(&p->optimizer, params, optimizer,
                                      qkv_optimizer_decay_matrices(), 1);
    if (status)
        return status;
    qkv_tape_mode(p->tape, true, true);
    qkv_tape_recompute(p->tape, step->recompute);
    status = qkv_backward(p->tape, step->loss(step->user, p->tape));
    if (!status)
        status = qkv_optimizer_step(p->optimizer, &args, NULL);
    out->gradients = qkv_params_bytes(params) - before;
    out->optimizer = qkv_optimizer_bytes(p->optimizer);
    out->activations = qkv_tape_high_water(p->tape);
    out->scratch = qkv_tape_scratch_high_water(p->tape);
    return status;
}

qkv_status qkv_predict_memory(qkv_context *ctx, const qkv_predicted_step *step,
                              const qkv_optimizer_options *optimizer, qkv_memory_prediction *out)
{
    const qkv_optimizer_options usual = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAMW);
    qkv_context_options options = qkv_context_defaults();
    plan p = {0};
    *out = (qkv_memory_prediction){0};
    options.threads = qkv_context_threads(ctx);
    options.isa = qkv_context_isa(ctx);
    options.meta = true;
    out->process = qkv_machine_rss() + qkv_machine_product_bytes(ctx);
    if (qkv_context_create(&p.ctx, &options))
        return qkv_fail(ctx, QKV_E_MEMORY, "out of memory");
    (void)qkv_machine_products(ctx);
    qkv__context_choose(p.ctx, qkv__context_products(ctx));
    qkv_status status = predict_lay_out(&p, step, optimizer ? optimizer : &usual, out);
    if (status) {
        (void)qkv_fail(ctx, status, "%s", qkv_context_message(p.ctx));
        *out = (qkv_memory_prediction){0};
    }
    qkv_optimizer_destroy(p.optimizer);
    qkv_tape_destroy(p.tape);
    step->end(step->user);
    qkv_context_destroy(p.ctx);
    out->total = out->parameters + out->gradients + out->optimizer + out->activations +
                 out->scratch + out->process; /* 0 after a failure */
    return status;
}
