/* update.c - optimiser updates and averages, one parameter at a time: from the rule's numbers to
 * the kernel's. No groups, no schedules, no order of parameters. */
#include "tensor/update.h"

#include <math.h>

#include "base/device.h"
#include "tensor/param.h"

static qkv_k_adam_fn *kernel_of(const qkv_kernels *k, qkv__update_rule rule)
{
    qkv_k_adam_fn *const fn[] = {
        [QKV__UPDATE_SGD] = k->sgd,
        [QKV__UPDATE_RMSPROP] = k->rmsprop,
        [QKV__UPDATE_ADAM] = k->adam,
        [QKV__UPDATE_ADAMW] = k->adamw,
    };
    return fn[rule];
}

void qkv__param_update(qkv_param *p, const qkv__update *u,
                       qkv_real *const state[QKV__UPDATE_STATES], size_t from, size_t n)
{
    double t = (double)u->step;
    qkv_k_update_args args = {
        .lr = u->lr,
        .weight_decay = u->weight_decay,
        .grad_scale = u->grad_scale,
        .momentum = u->momentum,
        .dampening = u->dampening,
        .nesterov = u->nesterov,
        .first = u->step == 1,
        .alpha = u->alpha,
        .eps = u->eps,
        .beta1 = u->beta1,
        .beta2 = u->beta2,
        .correction1 = 1.0 - pow(u->beta1, t),
        .correction2 = sqrt(1.0 - pow(u->beta2, t)),
        .version = n == p->count ? p->version : 0,
        .becomes = qkv__new_version(),
    };
    qkv_exec e = qkv__params_exec(p->owner);
    kernel_of(qkv__params_kernels(p->owner), u->rule)(&e, p->data + from, state[0], state[1],
                                                      state[2], u->grad ? u->grad : p->grad + from,
                                                      &args, n);
    p->version = args.becomes;
}

static bool squares_are_known(const qkv_param *p)
{
    return !p->has_grad || p->squares_of == p->grad_version + 1;
}

/* Sums the squares of all gradients of ps whose sums are not known. */
static void sum_grad_squares(qkv_params *ps)
{
    enum { AT_ONCE = 256 };
    const qkv_real *grad[AT_ONCE];
    qkv_param *of[AT_ONCE];
    size_t size[AT_ONCE], count = qkv_params_count(ps), n = 0;
    double sums[AT_ONCE];
    qkv_exec e = qkv__params_exec(ps);
    for (size_t i = 0; i <= count; i++) {
        qkv_param *p = i < count ? qkv_params_at(ps, i) : NULL;
        if (p && !squares_are_known(p)) {
            of[n] = p;
            grad[n] = p->grad;
            size[n++] = p->count;
        }
        if (n < AT_ONCE && p)
            continue;
        if (n)
            qkv__params_kernels(ps)->many_sums(&e, sums, grad, size, n, true);
        for (size_t k = 0; k < n; k++) {
            of[k]->squares = sums[k];
            of[k]->squares_of = of[k]->grad_version + 1;
        }
        n = 0;
    }
}

double qkv__param_grad_squares(qkv_param *p)
{
    if (!squares_are_known(p))
        sum_grad_squares(p->owner);
    return p->has_grad ? p->squares : 0.0;
}

bool qkv__param_lacked_scratch(const qkv_param *p)
{
    qkv__arena *scratch = qkv__params_exec(p->owner).scratch;
    bool failed = qkv__arena_failed(scratch);
    if (failed)
        qkv__arena_reset(scratch);
    return failed;
}

double qkv__param_squares(const qkv_param *p)
{
    qkv_exec e = qkv__params_exec(p->owner);
    return qkv__params_kernels(p->owner)->sum_squares(&e, p->data, p->count);
}

void qkv__param_mix(qkv_real *average, const qkv_param *p, double weight, size_t from, size_t n)
{
    qkv_exec e = qkv__params_exec(p->owner);
    if (weight == 1.0)
        qkv__context_device(qkv__params_context(p->owner))
            ->copy(average, p->data + from, n * sizeof *average);
    else
        qkv__params_kernels(p->owner)->lerp(&e, average, p->data + from, weight, n);
}

void qkv__param_swap(qkv_real *other, qkv_param *p, size_t from, size_t n)
{
    qkv_exec e = qkv__params_exec(p->owner);
    qkv__params_kernels(p->owner)->swap(&e, p->data + from, other, n);
    qkv__param_changed(p);
}
