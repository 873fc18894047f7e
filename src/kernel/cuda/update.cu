/* update.cu - optimiser updates as torch.optim defines them (single-tensor path). Constants are
 * computed in double on the host and rounded once. */
#include "kernel/cuda/gather.cuh"
#include "kernel/cuda/operands.cuh"

/* The body's p becomes another state; its copy for products with it, where there is one. */
template <typename B>
static void gather_update(B body, const qkv_k_update_args *args, size_t n, const gather_arrays &a)
{
    body.copy = operand_to_update(body.p, n, args->version, args->becomes);
    gather_elements(body, n, a);
    operand_updated(body.copy);
}

struct sgd_body {
    float *p, *s1; /* s1 NULL: no momentum */
    const float *g;
    float lr, wd, scale, mu, mix;
    bool first, nesterov;
    bf16 *copy; /* of p; NULL: none */
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> x = load<W>(p + i), d = load<W>(g + i), s = {};
        if (s1 && !first)
            s = load<W>(s1 + i);
        for (int k = 0; k < W; k++) {
            d.v[k] = d.v[k] * scale + wd * x.v[k];
            if (s1) {
                s.v[k] = first ? d.v[k] : mu * s.v[k] + mix * d.v[k];
                d.v[k] = nesterov ? d.v[k] + mu * s.v[k] : s.v[k];
            }
            x.v[k] -= lr * d.v[k];
        }
        if (s1)
            store<W>(s1 + i, s);
        store<W>(p + i, x);
        if (copy)
            store<W>(copy + i, x);
    }
};

static void cuda_sgd(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                     const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)e, (void)s2, (void)s3;
    const sgd_body body = {p, s1, g, (float)args->lr, (float)args->weight_decay,
                           (float)args->grad_scale, (float)args->momentum,
                           (float)(1 - args->dampening), args->first, args->nesterov,
                           NULL};
    gather_update(body, args, n, {{p, s1}, g});
}

struct rmsprop_body {
    float *p, *s1, *s2, *s3; /* s2 NULL: no momentum; s3 NULL: not centred */
    const float *g;
    float lr, wd, scale, mu, alpha, mix, eps;
    bf16 *copy; /* of p; NULL: none */
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> x = load<W>(p + i), d = load<W>(g + i), square = load<W>(s1 + i), m = {}, mean = {};
        if (s2)
            m = load<W>(s2 + i);
        if (s3)
            mean = load<W>(s3 + i);
        for (int k = 0; k < W; k++) {
            float q = d.v[k] * scale + wd * x.v[k];
            square.v[k] = alpha * square.v[k] + mix * q * q;
            mean.v[k] += mix * (q - mean.v[k]);
            q /= sqrtf(s3 ? square.v[k] - mean.v[k] * mean.v[k] : square.v[k]) + eps;
            if (s2)
                q = m.v[k] = mu * m.v[k] + q;
            x.v[k] -= lr * q;
        }
        store<W>(s1 + i, square);
        if (s2)
            store<W>(s2 + i, m);
        if (s3)
            store<W>(s3 + i, mean);
        store<W>(p + i, x);
        if (copy)
            store<W>(copy + i, x);
    }
};

static void cuda_rmsprop(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                         const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)e;
    const rmsprop_body body = {p, s1, s2, s3, g, (float)args->lr, (float)args->weight_decay,
                               (float)args->grad_scale, (float)args->momentum, (float)args->alpha,
                               (float)(1 - args->alpha), (float)args->eps, NULL};
    gather_update(body, args, n, {{p, s1, s2, s3}, g});
}

/* keep multiplies p (adamw), wd is of what is added to the gradient (adam). */
struct adam_body {
    float *p, *m, *v;
    const float *g;
    float keep, wd, scale, eps, mix1, mix2, beta2, root, step;
    bf16 *copy; /* of p; NULL: none */
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> x = load<W>(p + i), d = load<W>(g + i), a = load<W>(m + i), b = load<W>(v + i);
        for (int k = 0; k < W; k++) {
            const float q = d.v[k] * scale + wd * x.v[k];
            a.v[k] += mix1 * (q - a.v[k]);
            b.v[k] = beta2 * b.v[k] + mix2 * q * q;
            x.v[k] = x.v[k] * keep - step * (a.v[k] / (sqrtf(b.v[k]) / root + eps));
        }
        store<W>(m + i, a);
        store<W>(v + i, b);
        store<W>(p + i, x);
        if (copy)
            store<W>(copy + i, x);
    }
};

static void adam_step(float *p, float *m, float *v, const float *g, const qkv_k_update_args *args,
                      double keep, double l2, size_t n)
{
    const adam_body body = {p, m, v, g, (float)keep, (float)l2, (float)args->grad_scale,
                            (float)args->eps, (float)(1 - args->beta1), (float)(1 - args->beta2),
                            (float)args->beta2, (float)args->correction2,
                            (float)(args->lr / args->correction1), NULL};
    gather_update(body, args, n, {{p, m, v}, g});
}

static void cuda_adam(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                      const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)e, (void)s3;
    adam_step(p, s1, s2, g, args, 1, args->weight_decay, n);
}

static void cuda_adamw(const qkv_exec *e, qkv_real *p, qkv_real *s1, qkv_real *s2, qkv_real *s3,
                       const qkv_real *g, const qkv_k_update_args *args, size_t n)
{
    (void)e, (void)s3;
    adam_step(p, s1, s2, g, args, 1 - args->lr * args->weight_decay, 0, n);
}

struct lerp_body {
    float *y;
    const float *x;
    float weight;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> a = load<W>(y + i), b = load<W>(x + i);
        for (int k = 0; k < W; k++)
            a.v[k] += weight * (b.v[k] - a.v[k]);
        store<W>(y + i, a);
    }
};

static void cuda_lerp(const qkv_exec *e, qkv_real *y, const qkv_real *x, double weight, size_t n)
{
    (void)e;
    gather_elements(lerp_body{y, x, (float)weight}, n, {{y}, x});
}

extern "C" void qkv__cuda_update(qkv_kernels *k)
{
    k->sgd = cuda_sgd;
    k->rmsprop = cuda_rmsprop;
    k->adam = cuda_adam;
    k->adamw = cuda_adamw;
    k->lerp = cuda_lerp;
}
