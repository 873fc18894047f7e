/* activations.cuh - the values of activations, and gated units. Formulas are those of
 * ref_elementwise.c. */
#ifndef QKV_KERNEL_CUDA_ACTIVATIONS_CUH
#define QKV_KERNEL_CUDA_ACTIVATIONS_CUH

#include "kernel/cuda/elements.cuh"

static const float sqrt_half = 0.70710678118654752440f, inv_sqrt_2pi = 0.39894228040143267794f;
static const float gelu_scale = 1.59576912160573071176f, gelu_cubic = 0.044715f; /* 2 sqrt(2/pi) */
static const float quick = 1.702f, leak = 0.2f;

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* (1 + tanh(u)) / 2 = sigmoid(2u) keeps the relative accuracy of the negative tail. */
static __device__ __forceinline__ float tanh_gate(float x)
{
    return sigmoid(gelu_scale * (x + gelu_cubic * x * x * x));
}

template <int A> static __device__ __forceinline__ float act_value(float x)
{
    if constexpr (A == QKV_K_RELU)
        return x < 0 ? 0 : x;
    else if constexpr (A == QKV_K_GELU)
        return x * (erfcf(-x * sqrt_half) / 2);
    else if constexpr (A == QKV_K_GELU_TANH)
        return x * tanh_gate(x);
    else if constexpr (A == QKV_K_QUICK_GELU)
        return x * sigmoid(quick * x);
    else if constexpr (A == QKV_K_SILU)
        return x * sigmoid(x);
    else if constexpr (A == QKV_K_SIGMOID)
        return sigmoid(x);
    else if constexpr (A == QKV_K_TANH)
        return tanhf(x);
    else if constexpr (A == QKV_K_LEAKY_RELU)
        return x < 0 ? leak * x : x;
    else
        return x;
}

/* CASE(A) for the activation act. */
#define BY_ACTIVATION(act, CASE)                                                                   \
    switch (act) {                                                                                 \
    case QKV_K_RELU: CASE(QKV_K_RELU); break;                                                      \
    case QKV_K_GELU: CASE(QKV_K_GELU); break;                                                      \
    case QKV_K_GELU_TANH: CASE(QKV_K_GELU_TANH); break;                                            \
    case QKV_K_QUICK_GELU: CASE(QKV_K_QUICK_GELU); break;                                          \
    case QKV_K_SILU: CASE(QKV_K_SILU); break;                                                      \
    case QKV_K_SIGMOID: CASE(QKV_K_SIGMOID); break;                                                \
    case QKV_K_TANH: CASE(QKV_K_TANH); break;                                                      \
    case QKV_K_LEAKY_RELU: CASE(QKV_K_LEAKY_RELU); break;                                          \
    case QKV_K_NONE:                                                                               \
    case QKV_K_ACT_COUNT: CASE(QKV_K_NONE); break;                                                 \
    }

/* ---- gated: W elements of one row ------------------------------------------------------------ */

template <typename T> struct gated_args {
    T *y;
    const T *gate, *up;
    size_t ldg, ldu, C;
};

template <int A, typename T> struct gated_body {
    gated_args<T> a;
    template <int W> __device__ void at(size_t i) const
    {
        size_t r, c;
        split(i, a.C, &r, &c);
        pack<W> g = load<W>(a.gate + r * a.ldg + c), u = load<W>(a.up + r * a.ldu + c);
        for (int k = 0; k < W; k++)
            u.v[k] *= act_value<A>(g.v[k]);
        store<W>(a.y + i, u);
    }
};

#endif
