/* kv.cu - keys and values of a cache as bf16, or as 8-bit integers with a scale for each head of a
 * position. A warp has one head of one position. */
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

struct kv_store_args {
    const float *x;
    size_t x_row, x_head, heads, count, D;
};

static __device__ __forceinline__ const float *kv_from(const kv_store_args &a, size_t i)
{
    size_t row, head;
    split(i, a.heads, &row, &head);
    return a.x + row * a.x_row + head * a.x_head;
}

static __global__ void __launch_bounds__(BLOCK) kv_store_bf16(uint16_t *y, kv_store_args a)
{
    const size_t warps = (size_t)gridDim.x * (BLOCK / WARP);
    const unsigned lane = threadIdx.x % WARP;
    for (size_t i = (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP; i < a.count;
         i += warps) {
        const float *from = kv_from(a, i);
        for (size_t d = lane; d < a.D; d += WARP)
            y[i * a.D + d] = kv_to_bf16(from[d]);
    }
}

static __global__ void __launch_bounds__(BLOCK) kv_store_int8(int8_t *y, float *scale,
                                                              kv_store_args a)
{
    const size_t warps = (size_t)gridDim.x * (BLOCK / WARP);
    const unsigned lane = threadIdx.x % WARP;
    for (size_t i = (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP; i < a.count;
         i += warps) {
        const float *from = kv_from(a, i);
        float most = 0;
        int ill = 0;
        for (size_t d = lane; d < a.D; d += WARP) {
            const float size = fabsf(from[d]);
            most = size > most ? size : most;
            ill |= !(size <= FLT_MAX);
        }
        most = warp_max(most);
        const bool finite = !__any_sync(0xffffffffu, ill);
        const float by = finite && most > nothing ? int8_most / most : 0;
        for (size_t d = lane; d < a.D; d += WARP) {
            const float v = finite ? __fmul_rn(from[d], by) : 0;
            y[i * a.D + d] = (int8_t)(v + (v < 0 ? -0.5f : 0.5f));
        }
        if (lane == 0)
            scale[i] = finite ? most / int8_most : NAN;
    }
}

static void cuda_kv_store(const qkv_exec *e, void *y, qkv_real *scale, const qkv_real *x,
                          size_t x_row, size_t x_head, qkv_k_kv kind, size_t rows, size_t heads,
                          size_t D)
{
    (void)e;
    const kv_store_args a = {x, x_row, x_head, heads, rows * heads, D};
    if (a.count == 0)
        return;
    const unsigned blocks = cuda_blocks(a.count * WARP);
    if (kind == QKV_K_KV_BF16)
        LAUNCH(kv_store_bf16, blocks, BLOCK, 0, (uint16_t *)y, a);
    else
        LAUNCH(kv_store_int8, blocks, BLOCK, 0, (int8_t *)y, scale, a);
}

static __global__ void __launch_bounds__(BLOCK) kv_load_bf16(float *y, const uint16_t *x, size_t n)
{
    for (FOR_EACH(i, n))
        y[i] = __uint_as_float((uint32_t)x[i] << 16);
}

static __global__ void __launch_bounds__(BLOCK) kv_load_int8(float *y, const int8_t *x,
                                                             const float *scale, size_t n, size_t D)
{
    for (FOR_EACH(i, n)) {
        size_t row, d;
        split(i, D, &row, &d);
        y[i] = (float)x[i] * scale[row];
    }
}

static void cuda_kv_load(const qkv_exec *e, qkv_real *y, const void *x, const qkv_real *scale,
                         qkv_k_kv kind, size_t rows, size_t D)
{
    (void)e;
    const size_t n = rows * D;
    if (n == 0)
        return;
    if (kind == QKV_K_KV_BF16)
        LAUNCH(kv_load_bf16, cuda_blocks(n), BLOCK, 0, y, (const uint16_t *)x, n);
    else
        LAUNCH(kv_load_int8, cuda_blocks(n), BLOCK, 0, y, (const int8_t *)x, scale, n, D);
}

extern "C" void qkv__cuda_kv(qkv_kernels *k)
{
    k->kv_store = cuda_kv_store;
    k->kv_load = cuda_kv_load;
}
