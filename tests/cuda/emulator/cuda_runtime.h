/* cuda_runtime.h - CUDA's runtime on the CPU, as far as src/kernel/cuda uses it: device memory is
 * the host's, a launch runs its blocks one after another, and the threads of a block are coroutines
 * that take turns at barriers and warp operations. It finds wrong indices, missing barriers that
 * hang and formulas that are wrong; races and speed it does not show. */
#ifndef QKV_EMULATED_CUDA_RUNTIME_H
#define QKV_EMULATED_CUDA_RUNTIME_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#define QKV_CUDA_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static
#define __constant__ static
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __restrict__ __restrict

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct __attribute__((aligned(8))) float2 {
    float x, y;
};
struct __attribute__((aligned(16))) float4 {
    float x, y, z, w;
};
struct __attribute__((aligned(8))) int2 {
    int x, y;
};
struct __attribute__((aligned(16))) int4 {
    int x, y, z, w;
};
struct __attribute__((aligned(8))) uint2 {
    unsigned x, y;
};
struct __attribute__((aligned(16))) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

/* ---- the running thread ---------------------------------------------------------------------- */

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
enum { warpSize = 32 };

void emulated_launch(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel);
char *emulated_dynamic_shared();
/* Ends the program if it is not so. */
void emulated_expect(bool so, const char *else_what);
void __syncthreads();
int __syncthreads_or(int x);
int __syncthreads_and(int x);
int __syncthreads_count(int x);
void __syncwarp(unsigned mask = 0xffffffffu);
/* 32 places of 64 bytes that the lanes of this warp share. */
char *emulated_warp_slots();
static inline unsigned emulated_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <typename T> T emulated_exchange(unsigned mask, T x, unsigned from)
{
    static_assert(sizeof(T) <= 64, "a shuffle of at most 64 bytes");
    char *slots = emulated_warp_slots();
    T result;
    memcpy(slots + emulated_lane() * 64, &x, sizeof x);
    __syncwarp(mask);
    memcpy(&result, slots + from * 64, sizeof x);
    __syncwarp(mask);
    return result;
}
template <typename T> T __shfl_sync(unsigned mask, T x, int from, int width = 32)
{
    unsigned lane = emulated_lane();
    const unsigned first = lane & ~(unsigned)(width - 1);
    return emulated_exchange(mask, x, first + ((unsigned)from & (width - 1)));
}
template <typename T> T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32)
{
    unsigned lane = emulated_lane(), from = lane ^ (unsigned)with;
    return emulated_exchange(mask, x, from / width > lane / width ? lane : from);
}
template <typename T> T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    unsigned lane = emulated_lane();
    return emulated_exchange(mask, x, lane % width + by < (unsigned)width ? lane + by : lane);
}
template <typename T> T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32)
{
    unsigned lane = emulated_lane();
    return emulated_exchange(mask, x, lane % width >= by ? lane - by : lane);
}
unsigned __ballot_sync(unsigned mask, int x);
static inline int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
static inline int __all_sync(unsigned mask, int x) { return !__ballot_sync(mask, !x); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

/* One thread runs at a time. */
template <typename T, typename U> T atomicAdd(T *p, U x)
{
    T was = *p;
    *p = was + (T)x;
    return was;
}
template <typename T, typename U> T atomicMax(T *p, U x)
{
    T was = *p;
    *p = was > (T)x ? was : (T)x;
    return was;
}
template <typename T, typename U> T atomicMin(T *p, U x)
{
    T was = *p;
    *p = was < (T)x ? was : (T)x;
    return was;
}
template <typename T, typename U> T atomicOr(T *p, U x)
{
    T was = *p;
    *p = was | (T)x;
    return was;
}
template <typename T, typename U> T atomicExch(T *p, U x)
{
    T was = *p;
    *p = (T)x;
    return was;
}
template <typename T, typename U, typename V> T atomicCAS(T *p, U compare, V x)
{
    T was = *p;
    if (was == (T)compare)
        *p = (T)x;
    return was;
}

/* Where a card would refuse the address. */
static inline void emulated_aligned(const void *p, size_t bytes)
{
    if ((uintptr_t)p % bytes)
        abort();
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
static inline double rsqrt(double x) { return 1 / std::sqrt(x); }
/* Names that the C library has for itself. */
#define __expf(x) std::exp((float)(x))
#define __logf(x) std::log((float)(x))
#define __powf(x, y) std::pow((float)(x), (float)(y))
#define __sinf(x) std::sin((float)(x))
#define __cosf(x) std::cos((float)(x))
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1 / x; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float x) { return std::sqrt(x); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline int __float2int_rn(float x) { return (int)std::nearbyint(x); }
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; i++)
        c += (int)(int8_t)(a >> 8 * i) * (int)(int8_t)(b >> 8 * i);
    return c;
}
static inline unsigned __float_as_uint(float x)
{
    unsigned u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
static inline float __uint_as_float(unsigned u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline float __int_as_float(int i) { return __uint_as_float((unsigned)i); }
template <typename T> static inline T __ldg(const T *p) { return *p; }
template <typename T> static inline T __ldcs(const T *p) { return *p; }
template <typename T> static inline void __stcs(T *p, T x) { *p = x; }
template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }

/* ---- the runtime ----------------------------------------------------------------------------- */

typedef enum {
    cudaSuccess, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600
} cudaError_t;
typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef enum {
    cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
} cudaMemcpyKind;
enum { cudaStreamNonBlocking = 1 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem, sharedMemPerBlockOptin;
};
static inline cudaError_t cudaGetDeviceCount(int *n) { return *n = 1, cudaSuccess; }
static inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "emulated");
    p->major = 9;
    p->multiProcessorCount = 4;
    p->totalGlobalMem = (size_t)1 << 32;
    p->sharedMemPerBlockOptin = 227 << 10;
    return cudaSuccess;
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    return *s = nullptr, cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline const char *cudaGetErrorString(cudaError_t) { return "emulated error"; }
cudaError_t cudaMalloc(void **p, size_t bytes); /* full of NaNs */
cudaError_t cudaFree(void *p);
enum { cudaHostAllocMapped = 2 };
static inline cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    return cudaMalloc(p, bytes);
}
static inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                          cudaStream_t)
{
    return memmove(to, from, bytes), cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t)
{
    return memset(to, byte, bytes), cudaSuccess;
}
template <typename F> static inline cudaError_t cudaFuncSetAttribute(F, int, int)
{
    return cudaSuccess;
}

#endif
