/* simd_math.h - the functions behind the activations, in vectors: relative error below 2e-7, of
 * the normal distribution below 5e-7. */
#ifndef QKV_SIMD_MATH_H
#define QKV_SIMD_MATH_H

#include "kernel/simd.h"

static inline vf vf_sigmoid(vf x)
{
    return vf_set1(1.0f) / (vf_set1(1.0f) + vf_exp(-x));
}

/* (1 - e) / (1 + e) with e = exp(-2|x|); near 0, where that cancels, the odd polynomial of
 * Cephes' tanhf. */
static inline vf vf_tanh(vf x)
{
    vf one = vf_set1(1.0f), a = vf_abs(x), e = vf_exp(a * vf_set1(-2.0f));
    vf far = (one - e) / (one + e), z = x * x;
    vf p = vf_set1(-5.70498872745e-3f);
    p = vf_fma(p, z, vf_set1(2.06390887954e-2f));
    p = vf_fma(p, z, vf_set1(-5.37397155531e-2f));
    p = vf_fma(p, z, vf_set1(1.33314422036e-1f));
    p = vf_fma(p, z, vf_set1(-3.33332819422e-1f));
    vf near = vf_fma(p * z, x, x);
    far = vf_select(vf_lt(x, vf_zero()), -far, far);
    return vf_select(vf_lt(a, vf_set1(0.625f)), near, far);
}

/* The normal distribution's Phi(x) = (1 + erf(x/sqrt 2)) / 2 and density phi(x), both to a few
 * ulp relative, tails included: with t = |x|, Phi(-t) = exp(-t^2/2) z Q(z), z = 1/(1 + 0.27 t),
 * Q a minimax polynomial on t in [0, 14.5], error 2.4e-8. */
static inline vf vf_normal_cdf(vf x, vf *density)
{
    vf t = vf_min(vf_abs(x), vf_set1(14.5f)), square = t * t;
    vf lost = vf_fma(t, t, -square); /* what rounding t^2 dropped */
    vf e = vf_exp(square * vf_set1(-0.5f));
    e = vf_fma(e * lost, vf_set1(-0.5f), e);
    vf z = vf_set1(1.0f) / vf_fma(t, vf_set1(0.27f), vf_set1(1.0f));
    vf q = vf_set1(0.0289611039f);
    q = vf_fma(q, z, vf_set1(-0.126485875f));
    q = vf_fma(q, z, vf_set1(0.16978618f));
    q = vf_fma(q, z, vf_set1(-0.0692107822f));
    q = vf_fma(q, z, vf_set1(0.107825636f));
    q = vf_fma(q, z, vf_set1(0.0720496095f));
    q = vf_fma(q, z, vf_set1(0.101810608f));
    q = vf_fma(q, z, vf_set1(0.107542874f));
    q = vf_fma(q, z, vf_set1(0.107720657f));
    vf tail = e * (z * q);
    *density = e * vf_set1(0.39894228f);
    vf cdf = vf_select(vf_lt(x, vf_zero()), tail, vf_set1(1.0f) - tail);
    /* min above turned a NaN into 14.5. */
    return vf_select(vf_ge(vf_abs(x), vf_zero()), cdf, x);
}

#endif
