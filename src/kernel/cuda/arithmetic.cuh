/* arithmetic.cuh - sums and products of elements, as bodies of loops (elements.cuh). */
#ifndef QKV_KERNEL_CUDA_ARITHMETIC_CUH
#define QKV_KERNEL_CUDA_ARITHMETIC_CUH

#include "kernel/cuda/elements.cuh"

struct axpy_body {
    float *y;
    const float *x;
    float alpha;
    bool acc;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(x + i);
        for (int k = 0; k < W; k++)
            v.v[k] *= alpha;
        put<W>(y + i, v, acc);
    }
};

struct add_body {
    float *y;
    const float *a, *b;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(a + i), u = load<W>(b + i);
        for (int k = 0; k < W; k++)
            v.v[k] += u.v[k];
        store<W>(y + i, v);
    }
};

struct mul_body {
    float *y;
    const float *a, *b;
    bool acc;
    template <int W> __device__ void at(size_t i) const
    {
        pack<W> v = load<W>(a + i), u = load<W>(b + i);
        for (int k = 0; k < W; k++)
            v.v[k] *= u.v[k];
        put<W>(y + i, v, acc);
    }
};

#endif
