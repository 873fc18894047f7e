/* elements.cuh - loops over elements: a body that treats 4 neighbours at once where every array
 * begins at a multiple of 16 bytes, 8 where they are bf16, and one element where not.
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
    if constexpr (W % 4 == 0) {
#pragma unroll
        for (int i = 0; i < W; i += 4) {
            float4 f = *reinterpret_cast<const float4 *>(p + i);
            r.v[i] = f.x, r.v[i + 1] = f.y, r.v[i + 2] = f.z, r.v[i + 3] = f.w;
        }
    } else {
        for (int i = 0; i < W; i++)
            r.v[i] = p[i];
    }
    return r;
}

template <int W> static __device__ __forceinline__ pack<W> load(const bf16 *p)
{
    pack<W> r;
    if constexpr (W == 1) {
        r.v[0] = __bfloat162float(*p);
    } else {
        unsigned word[W / 2];
        if constexpr (W == 8)
            *(uint4 *)word = *(const uint4 *)p;
        else
            *(uint2 *)word = *(const uint2 *)p;
#pragma unroll
        for (int i = 0; i < W / 2; i++) {
            const float2 two = floats_of_pair(word[i]);
            r.v[2 * i] = two.x, r.v[2 * i + 1] = two.y;
        }
    }
    return r;
}

template <int W> static __device__ __forceinline__ void store(bf16 *p, const pack<W> &x)
{
    if constexpr (W == 1) {
        *p = __float2bfloat16_rn(x.v[0]);
    } else {
        unsigned word[W / 2];
#pragma unroll
        for (int i = 0; i < W / 2; i++)
            word[i] = bf16_pair(x.v[2 * i], x.v[2 * i + 1]);
        if constexpr (W == 8)
            *(uint4 *)p = *(const uint4 *)word;
        else
            *(uint2 *)p = *(const uint2 *)word;
    }
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
template <int W, typename T>
static __device__ __forceinline__ void put(T *y, pack<W> x, bool acc)
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

/* A thread's part of n elements: its number, and how many threads there are. */
template <int WIDTH, typename Body>
static __device__ __forceinline__ void some_elements(const Body &body, size_t n, bool wide,
                                                     size_t thread, size_t threads)
{
    if (!wide) {
        for (size_t i = thread; i < n; i += threads)
            body.template at<1>(i);
        return;
    }
    for (size_t i = thread; i < n / WIDTH; i += threads)
        body.template at<WIDTH>(WIDTH * i);
    if (thread < n % WIDTH)
        body.template at<1>(n / WIDTH * WIDTH + thread);
}

template <typename Body, int WIDTH>
static __global__ void __launch_bounds__(BLOCK) each_element(Body body, size_t n, bool wide)
{
    some_elements<WIDTH>(body, n, wide, (size_t)blockIdx.x * blockDim.x + threadIdx.x,
                         (size_t)gridDim.x * blockDim.x);
}

/* wide: all of the body's arrays are aligned, so that WIDTH neighbours are treated at once. */
template <typename Body, int WIDTH = 4>
static inline void launch_elements(Body body, size_t n, bool wide)
{
    if (n == 0)
        return;
    const unsigned blocks = cuda_blocks(wide ? (n + WIDTH - 1) / WIDTH : n);
    LAUNCH((each_element<Body, WIDTH>), blocks, BLOCK, 0, body, n, wide);
}

#endif
