/* ref_update.c - optimiser updates in plain C, as torch.optim defines them (single-tensor
 * path): sgd, rmsprop, adam, adamw. Constants are computed in double and rounded once. */
#include "kernel/ref_math.h"

static void ref_sgd(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                    const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)s2, (void)s3;
    const qkv_real lr = (qkv_real)args->lr, wd = (qkv_real)args->weight_decay;
    const qkv_real scale = (qkv_real)args->grad_scale, mu = (qkv_real)args->momentum;
    const qkv_real mix = (qkv_real)(1 - args->dampening);
    const bool first = args->first, nesterov = args->nesterov;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(p, s1, g, n, lr, wd, scale, mu, mix, first, nesterov) if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++) {
        qkv_real d = g[i] * scale + wd * p[i];
        if (s1) {
            s1[i] = first ? d : mu * s1[i] + mix * d;
            d = nesterov ? d + mu * s1[i] : s1[i];
        }
        p[i] -= lr * d;
    }
}

static void ref_rmsprop(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                        const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    const qkv_real lr = (qkv_real)args->lr, wd = (qkv_real)args->weight_decay;
    const qkv_real scale = (qkv_real)args->grad_scale, mu = (qkv_real)args->momentum;
    const qkv_real alpha = (qkv_real)args->alpha, mix = (qkv_real)(1 - args->alpha);
    const qkv_real eps = (qkv_real)args->eps;
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(p, s1, s2, s3, g, n, lr, wd, scale, mu, alpha, mix, eps) if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++) {
        qkv_real d = g[i] * scale + wd * p[i];
        s1[i] = alpha * s1[i] + mix * d * d;
        qkv_real square = s1[i];
        if (s3) {
            s3[i] += mix * (d - s3[i]);
            square -= s3[i] * s3[i];
        }
        d /= real_sqrt(square) + eps;
        if (s2)
            d = s2[i] = mu * s2[i] + d;
        p[i] -= lr * d;
    }
}

/* decay multiplies p (adamw), l2 is added to the gradient (adam). */
static void ref_update_adam_step(const qkv_exec *e, qkv_real *p, qkv_real *m, qkv_real *v,
                                 const qkv_real *g, const qkv_k_update_args *args, double decay,
                                 double l2, size_t n)
{
    const qkv_real keep = (qkv_real)decay, wd = (qkv_real)l2;
    const qkv_real scale = (qkv_real)args->grad_scale, eps = (qkv_real)args->eps;
    const qkv_real mix1 = (qkv_real)(1 - args->beta1), mix2 = (qkv_real)(1 - args->beta2);
    const qkv_real beta2 = (qkv_real)args->beta2, root = (qkv_real)args->correction2;
    const qkv_real step = (qkv_real)(args->lr / args->correction1);
#pragma omp parallel for num_threads(e->threads) default(none) \
    shared(p, m, v, g, n, keep, wd, scale, eps, mix1, mix2, beta2, root, step) \
    if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++) {
        qkv_real d = g[i] * scale + wd * p[i];
        m[i] += mix1 * (d - m[i]);
        v[i] = beta2 * v[i] + mix2 * d * d;
        p[i] = p[i] * keep - step * (m[i] / (real_sqrt(v[i]) / root + eps));
    }
}

static void ref_adam(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                     const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)s3;
    ref_update_adam_step(e, p, s1, s2, g, args, 1, args->weight_decay, n);
}

static void ref_adamw(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                      const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)s3;
    ref_update_adam_step(e, p, s1, s2, g, args, 1 - args->lr * args->weight_decay, 0, n);
}

static void ref_lerp(const qkv_exec *e, qkv_real *y, const qkv_real *x, double weight, size_t n)
{
    const qkv_real w = (qkv_real)weight;
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, w, n) \
    if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++)
        y[i] += w * (x[i] - y[i]);
}

static void ref_swap(const qkv_exec *e, qkv_real *x, qkv_real *y, size_t n)
{
#pragma omp parallel for num_threads(e->threads) default(none) shared(y, x, n) if (n >= REF_GRAIN)
    for (size_t i = 0; i < n; i++) {
        qkv_real kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

void qkv__kernels_ref_update(qkv_kernels *k)
{
    k->sgd = ref_sgd;
    k->rmsprop = ref_rmsprop;
    k->adam = ref_adam;
    k->adamw = ref_adamw;
    k->lerp = ref_lerp;
    k->swap = ref_swap;
}
