/* kv.cuh - one head of one position of a cache as it is, as bf16 or as 8-bit integers, by a
 * warp. */
#ifndef QKV_KERNEL_CUDA_KV_CUH
#define QKV_KERNEL_CUDA_KV_CUH

#include <cfloat>

#include "kernel/cuda/elements.cuh"

static const float int8_most = 127;
static const float nothing = 1e-30f; /* its inverse is still a number */

/* To nearest, ties to even; NaN stays the NaN it is. */
static __device__ __forceinline__ uint16_t kv_to_bf16(float x)
{
    const uint32_t bits = __float_as_uint(x);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(x != x ? bits >> 16 | 0x40 : rounded);
}

static __device__ __forceinline__ void kv_store_real(float *y, const float *from, size_t D)
{
    for (size_t d = threadIdx.x % WARP; d < D; d += WARP)
        y[d] = from[d];
}

static __device__ __forceinline__ void kv_store_bf16(uint16_t *y, const float *from, size_t D)
{
    for (size_t d = threadIdx.x % WARP; d < D; d += WARP)
        y[d] = kv_to_bf16(from[d]);
}

static __device__ __forceinline__ void kv_store_int8(int8_t *y, float *scale, const float *from,
                                                     size_t D)
{
    const unsigned lane = threadIdx.x % WARP;
    float most = 0;
    int ill = 0;
    for (size_t d = lane; d < D; d += WARP) {
        const float size = fabsf(from[d]);
        most = size > most ? size : most;
        ill |= !(size <= FLT_MAX);
    }
    most = warp_max(most);
    const bool finite = !__any_sync(0xffffffffu, ill);
    const float by = finite && most > nothing ? int8_most / most : 0;
    for (size_t d = lane; d < D; d += WARP) {
        const float v = finite ? __fmul_rn(from[d], by) : 0;
        y[d] = (int8_t)(v + (v < 0 ? -0.5f : 0.5f));
    }
    if (lane == 0)
        *scale = finite ? most / int8_most : NAN;
}

/* Rows of a cache, one head behind the other. places: of the device; NULL: row i of y is that of
 * x. */
struct kv_rows {
    void *y;
    float *scale;
    const float *x;
    const size_t *places;
    size_t x_row, x_head, heads, rows, D;
    qkv_k_kv kind;
};

/* Heads first, first + warps, .. of all rows by the calling warp. */
static __device__ __forceinline__ void kv_store_some(const kv_rows &a, size_t first, size_t warps)
{
    for (size_t i = first; i < a.rows * a.heads; i += warps) {
        size_t row, head;
        split(i, a.heads, &row, &head);
        const float *from = a.x + row * a.x_row + head * a.x_head;
        const size_t to = a.places ? a.places[row] * a.heads + head : i;
        if (a.kind == QKV_K_KV_INT8)
            kv_store_int8((int8_t *)a.y + to * a.D, a.scale + to, from, a.D);
        else if (a.kind == QKV_K_KV_BF16)
            kv_store_bf16((uint16_t *)a.y + to * a.D, from, a.D);
        else
            kv_store_real((float *)a.y + to * a.D, from, a.D);
    }
}

#endif
