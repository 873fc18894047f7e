/* simd_update.c - optimiser updates in vector types: one pass over all arrays, at the speed of
 * memory. The definitions are those of ref_update.c. */
#include "kernel/simd.h"

enum { GRAIN = 16384, BLOCK = 4096 };

static size_t simd_update_block_end(size_t b, size_t n)
{
    return n - b < BLOCK ? n : b + BLOCK;
}

typedef struct {
    vf lr, wd, scale, mu, mix;
    bool first, nesterov;
} sgd_constants;

QKV_INLINE void sgd_vector(float *p, float *s, const float *g, const sgd_constants *c, size_t k)
{
    vf w = vf_get(p, k), d = vf_fma(c->wd, w, vf_get(g, k) * c->scale);
    if (s) {
        vf b = c->first ? d : vf_fma(c->mix, d, c->mu * vf_get(s, k));
        vf_put(s, b, k);
        d = c->nesterov ? vf_fma(c->mu, b, d) : b;
    }
    vf_put(p, vf_fnma(c->lr, d, w), k);
}

static void simd_sgd(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                     const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)s2, (void)s3;
    const sgd_constants c = {
        vf_set1((float)args->lr), vf_set1((float)args->weight_decay),
        vf_set1((float)args->grad_scale), vf_set1((float)args->momentum),
        vf_set1((float)(1 - args->dampening)), args->first, args->nesterov,
    };
#pragma omp parallel for num_threads(e->threads) default(none) shared(p, s1, g, c, n) \
    if (n >= GRAIN)
    for (size_t b = 0; b < n; b += BLOCK) {
        size_t end = simd_update_block_end(b, n);
        for (size_t i = b; i < end; i += VF)
            sgd_vector(p + i, s1 ? s1 + i : NULL, g + i, &c, end - i < VF ? end - i : VF);
    }
}

typedef struct {
    vf lr, wd, scale, mu, alpha, mix, eps;
} rmsprop_constants;

QKV_INLINE void rmsprop_vector(float *p, float *s1, float *s2, float *s3, const float *g,
                               const rmsprop_constants *c, size_t k)
{
    vf w = vf_get(p, k), d = vf_fma(c->wd, w, vf_get(g, k) * c->scale);
    vf square = vf_fma(c->mix * d, d, c->alpha * vf_get(s1, k));
    vf_put(s1, square, k);
    if (s3) {
        vf mean = vf_get(s3, k);
        mean = vf_fma(c->mix, d - mean, mean);
        vf_put(s3, mean, k);
        square = vf_fnma(mean, mean, square);
    }
    d = d / (vf_sqrt(square) + c->eps);
    if (s2) {
        d = vf_fma(c->mu, vf_get(s2, k), d);
        vf_put(s2, d, k);
    }
    vf_put(p, vf_fnma(c->lr, d, w), k);
}

static void simd_rmsprop(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2,
                         qkv_real *s3, const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    const rmsprop_constants c = {
        vf_set1((float)args->lr), vf_set1((float)args->weight_decay),
        vf_set1((float)args->grad_scale), vf_set1((float)args->momentum),
        vf_set1((float)args->alpha), vf_set1((float)(1 - args->alpha)), vf_set1((float)args->eps),
    };
#pragma omp parallel for num_threads(e->threads) default(none) shared(p, s1, s2, s3, g, c, n) \
    if (n >= GRAIN)
    for (size_t b = 0; b < n; b += BLOCK) {
        size_t end = simd_update_block_end(b, n);
        for (size_t i = b; i < end; i += VF)
            rmsprop_vector(p + i, s1 + i, s2 ? s2 + i : NULL, s3 ? s3 + i : NULL, g + i, &c,
                           end - i < VF ? end - i : VF);
    }
}

typedef struct {
    vf keep, wd, scale, mix1, beta2, mix2, root, eps, step;
} adam_constants;

QKV_INLINE void adam_vector(float *p, float *s1, float *s2, const float *g,
                            const adam_constants *c, size_t k)
{
    vf w = vf_get(p, k), d = vf_fma(c->wd, w, vf_get(g, k) * c->scale), m = vf_get(s1, k);
    m = vf_fma(c->mix1, d - m, m);
    vf v = vf_fma(c->mix2 * d, d, c->beta2 * vf_get(s2, k));
    vf_put(s1, m, k);
    vf_put(s2, v, k);
    vf_put(p, vf_fnma(c->step, m / vf_fma(vf_sqrt(v), c->root, c->eps), w * c->keep), k);
}

/* decay multiplies p (adamw), l2 is added to the gradient (adam). */
static void simd_update_adam_step(const qkv_exec *e, float *p, float *m, float *v, const float *g,
                                  const qkv_k_update_args *args, double decay, double l2, size_t n)
{
    const adam_constants c = {
        vf_set1((float)decay), vf_set1((float)l2), vf_set1((float)args->grad_scale),
        vf_set1((float)(1 - args->beta1)), vf_set1((float)args->beta2),
        vf_set1((float)(1 - args->beta2)), vf_set1((float)(1 / args->correction2)),
        vf_set1((float)args->eps), vf_set1((float)(args->lr / args->correction1)),
    };
#pragma omp parallel for num_threads(e->threads) default(none) shared(p, m, v, g, c, n) \
    if (n >= GRAIN)
    for (size_t b = 0; b < n; b += BLOCK) {
        size_t end = simd_update_block_end(b, n);
        for (size_t i = b; i < end; i += VF)
            adam_vector(p + i, m + i, v + i, g + i, &c, end - i < VF ? end - i : VF);
    }
}

static void simd_adam(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                      const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)s3;
    simd_update_adam_step(e, p, s1, s2, g, args, 1, args->weight_decay, n);
}

static void simd_adamw(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                       const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)s3;
    simd_update_adam_step(e, p, s1, s2, g, args, 1 - args->lr * args->weight_decay, 0, n);
}

void QKV_SIMD(qkv__kernels_update)(qkv_kernels *k)
{
    k->sgd = simd_sgd;
    k->rmsprop = simd_rmsprop;
    k->adam = simd_adam;
    k->adamw = simd_adamw;
}
