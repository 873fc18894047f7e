/* elements.cuh - loops over elements: a body that treats 4 neighbours at once where every array
 * begins at a multiple of 16 bytes, and one element where not.
 *
 * A body is a struct of pointers and numbers with `template <int W> __device__ void at(size_t i)`
 * for elements i .. i+W-1. Arrays may be each other where a body reads before it writes. */
#ifndef QKV_KERNEL_CUDA_ELEMENTS_CUH
#define QKV_KERNEL_CUDA_ELEMENTS_CUH

#include "kernel/cuda/cuda.cuh"

/* W neighbours in registers. */
template <int W> struct pack {
    float v[W];
};

template <int W> static __device__ __forceinline__ pack<W> load(const float *p)
{
    pack<W> r;
    if constexpr (W == 4) {
        float4 f = *reinterpret_cast<const float4 *>(p);
        r.v[0] = f.x, r.v[1] = f.y, r.v[2] = f.z, r.v[3] = f.w;
    } else {
        for (int i = 0; i < W; i++)
            r.v[i] = p[i];
    }
    return r;
}

template <int W> static __device__ __forceinline__ void store(float *p, const pack<W> &x)
{
    if constexpr (W == 4) {
        *reinterpret_cast<float4 *>(p) = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    } else {
        for (int i = 0; i < W; i++)
            p[i] = x.v[i];
    }
}

/* y = [y +] x, y not read where it is stored. */
template <int W> static __device__ __forceinline__ void put(float *y, pack<W> x, bool acc)
{
    if (acc) {
        pack<W> was = load<W>(y);
        for (int i = 0; i < W; i++)
            x.v[i] = was.v[i] + x.v[i];
    }
    store<W>(y, x);
}

/* 4 neighbours; wide: p is a multiple of 16 bytes. */
static __device__ __forceinline__ pack<4> load_four(const float *p, bool wide)
{
    if (wide)
        return load<4>(p);
    return {{p[0], p[1], p[2], p[3]}};
}

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static inline bool aligned16(const void *p) { return (uintptr_t)p % 16 == 0; }
template <typename... P> static inline bool aligned16(const void *p, P... more)
{
    return aligned16(p) && aligned16(more...);
}

/* i = *row * columns + *column, by 32 bits where those do. */
static __device__ __forceinline__ void split(size_t i, size_t columns, size_t *row, size_t *column)
{
    if ((i | columns) >> 32 == 0) {
        *row = (uint32_t)i / (uint32_t)columns;
        *column = (uint32_t)i % (uint32_t)columns;
    } else {
        *row = i / columns;
        *column = i % columns;
    }
}

template <typename Body>
static __global__ void __launch_bounds__(BLOCK) each_element(Body body, size_t n, bool fours)
{
    if (!fours) {
        for (FOR_EACH(i, n))
            body.template at<1>(i);
        return;
    }
    for (FOR_EACH(i, n / 4))
        body.template at<4>(4 * i);
    size_t last = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (last < n % 4)
        body.template at<1>(n / 4 * 4 + last);
}

/* fours: all of the body's arrays are aligned. */
template <typename Body> static inline void launch_elements(Body body, size_t n, bool fours)
{
    if (n == 0)
        return;
    const unsigned blocks = cuda_blocks(fours ? (n + 3) / 4 : n);
    LAUNCH(each_element<Body>, blocks, BLOCK, 0, body, n, fours);
}

#endif
