/* kv.cu - keys and values of a cache as bf16, or as 8-bit integers with a scale for each head of a
 * position, and back. */
#include "kernel/cuda/kv.cuh"
#include "kernel/cuda/list.cuh"

static __global__ void __launch_bounds__(BLOCK) kv_store_rows(kv_rows a)
{
    kv_store_some(a, (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP,
                  (size_t)gridDim.x * (BLOCK / WARP));
}

static void cuda_kv_store(const qkv_exec *e, void *y, qkv_real *scale, const qkv_real *x,
                          size_t x_row, size_t x_head, qkv_k_kv kind, size_t rows, size_t heads,
                          size_t D)
{
    (void)e;
    const kv_rows a = {y, kind == QKV_K_KV_INT8 ? scale : NULL, x, x_row, x_head, heads, rows, D};
    if (rows && heads && !list_kv_store(a))
        LAUNCH(kv_store_rows, cuda_blocks(rows * heads * WARP), BLOCK, 0, a);
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
