/* kv.cu - keys and values of a cache as they are, as bf16, or as 8-bit integers with a scale for
 * each head of a position, and back. */
#include "kernel/cuda/kv.cuh"
#include "kernel/cuda/list.cuh"

static __global__ void __launch_bounds__(BLOCK) kv_store_rows(kv_rows a)
{
    kv_store_some(a, (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP,
                  (size_t)gridDim.x * (BLOCK / WARP));
}

/* Row i of a, which goes to row `place` of y. */
static kv_rows one_row(const kv_rows &a, size_t i, size_t place)
{
    static const size_t bytes[] = {sizeof(float), sizeof(uint16_t), sizeof(int8_t)};
    kv_rows one = a;
    one.y = (char *)a.y + place * a.heads * a.D * bytes[a.kind];
    one.scale = a.scale ? a.scale + place * a.heads : NULL;
    one.x = a.x + i * a.x_row;
    one.rows = 1;
    return one;
}

/* Few rows are listed one by one: those of reals become part of the product that made them. */
static bool list_places(const kv_rows &a, const size_t *places)
{
    const bool whole = a.heads == 1 || a.x_head == a.D;
    bool listed = a.rows <= LIST_ROWS_MOST && (a.kind != QKV_K_KV_REAL || whole);
    for (size_t i = 0; i < a.rows && listed; i++) { /* the first one says whether they are */
        const kv_rows one = one_row(a, i, places[i]);
        const size_t n = a.heads * a.D;
        listed = a.kind == QKV_K_KV_REAL ? list_rows((float *)one.y, n, one.x, n, 1, n)
                                         : list_kv_store(one);
    }
    return listed;
}

static void cuda_kv_store(const qkv_exec *e, void *y, qkv_real *scale, const qkv_real *x,
                          size_t x_row, size_t x_head, const size_t *places, qkv_k_kv kind,
                          size_t rows, size_t heads, size_t D)
{
    (void)e;
    kv_rows a = {y, kind == QKV_K_KV_INT8 ? scale : NULL, x, NULL, x_row, x_head, heads, rows, D,
                 kind};
    if (!rows || !heads || list_places(a, places))
        return;
    a.places = (const size_t *)cuda_upload(places, rows * sizeof *places);
    if (a.places)
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
