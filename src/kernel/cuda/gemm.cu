/* gemm.cu - matrix products: cuBLASLt's, and a plain kernel for what it refuses. Operands of bf16
 * products are rounded into scratch first, to nearest, ties to even; sums are in f32. */
#include <mutex>

#include "kernel/cuda/blas.cuh"

/* ---- the plain kernel ------------------------------------------------------------------------ */

enum { TILE = 32 };

/* Element (i, j) of op(x), where x is stored turned if t; 0 outside (rows, cols). */
template <typename T>
static __device__ __forceinline__ float element(const T *x, size_t ld, bool t, size_t i, size_t j,
                                                size_t rows, size_t cols)
{
    if (i >= rows || j >= cols)
        return 0;
    return blas_number(x[t ? j * ld + i : i * ld + j]);
}

template <typename T>
static __global__ void plain_product(float *c, const T *a, const T *b, blas_product p)
{
    __shared__ float as[TILE][TILE + 1], bs[TILE][TILE + 1];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const size_t column = (size_t)blockIdx.x * TILE + x;
    for (size_t first = (size_t)blockIdx.y * TILE; first < p.m; first += (size_t)gridDim.y * TILE) {
        float sum = 0;
        for (size_t k = 0; k < p.k; k += TILE) {
            as[y][x] = element(a, p.lda, p.ta, first + y, k + x, p.m, p.k);
            bs[y][x] = element(b, p.ldb, p.tb, k + y, column, p.k, p.n);
            __syncthreads();
            for (int i = 0; i < TILE; i++)
                sum += as[y][i] * bs[i][x];
            __syncthreads();
        }
        if (first + y < p.m && column < p.n) {
            float *to = c + (first + y) * p.ldc + column;
            *to = ((p.acc ? *to : 0) + (p.bias ? p.bias[column] : 0)) + sum;
        }
    }
}

template <typename T>
static void multiply(float *c, const T *a, const T *b, const blas_product &p)
{
    cuda_wrote();
    if (blas_multiply(c, a, b, &p))
        return;
    size_t down = (p.m + TILE - 1) / TILE;
    dim3 grid((unsigned)((p.n + TILE - 1) / TILE), (unsigned)(down < 65535 ? down : 65535));
    LAUNCH(plain_product<T>, grid, dim3(TILE, TILE), 0, c, a, b, p);
}

extern "C" void cuda_gemm(const qkv_exec *, qkv_real *c, const qkv_real *a, const qkv_real *b,
                          const qkv_k_gemm_args *args)
{
    if (args->m && args->n)
        multiply(c, a, b, {args->ta, args->tb, args->acc, args->m, args->n, args->k, args->lda,
                           args->ldb, args->ldc, args->bias});
}

/* ---- operands in bf16 ------------------------------------------------------------------------ */

enum { BF16_ROW = 8 }; /* a row of a rounded operand is a multiple of so many numbers: 16 bytes */

/* y (rows, ldy) = x (rows, cols; row stride ldx), 4 neighbours a thread where rows begin at
 * multiples of 16 bytes. What lies between cols and ldy is 0. */
static __global__ void round_rows(bf16 *y, size_t ldy, const float *x, size_t ldx, size_t rows,
                                  size_t cols, bool wide)
{
    const size_t groups = ldy / 4;
    for (FOR_EACH(i, rows * groups)) {
        size_t r = i / groups, c = i % groups * 4;
        const float *from = x + r * ldx + c;
        float4 v;
        if (wide && c + 4 <= cols)
            v = *(const float4 *)from;
        else
            v = make_float4(c < cols ? from[0] : 0, c + 1 < cols ? from[1] : 0,
                            c + 2 < cols ? from[2] : 0, c + 3 < cols ? from[3] : 0);
        __nv_bfloat162 *to = (__nv_bfloat162 *)(y + r * ldy + c);
        to[0] = __floats2bfloat162_rn(v.x, v.y);
        to[1] = __floats2bfloat162_rn(v.z, v.w);
    }
}

/* The last first operand, rounded: a backward pass multiplies the same gradient twice, a gated
 * layer the same input. It holds while nothing but products has written anything since. */
static struct {
    std::mutex lock;
    const float *x;
    size_t rows, cols, ldx, bytes;
    bf16 *y;
    uint64_t writes;
} last;

static void forget_rounded(void) { last.x = NULL; }

/* After a product that wrote c. */
static void keep_rounded(const float *c, size_t m, size_t ldc)
{
    last.writes = cuda_writes();
    if (last.x && c < last.x + last.rows * last.ldx && last.x < c + m * ldc)
        forget_rounded();
}

void cuda_spares_operand(uint64_t before)
{
    std::lock_guard<std::mutex> guard(last.lock);
    if (last.writes == before)
        last.writes = cuda_writes();
}

/* Room for so many numbers, or NULL; what was kept is lost. */
static bf16 *last_room(size_t numbers)
{
    forget_rounded();
    if (numbers * sizeof(bf16) <= last.bytes)
        return last.y;
    cuda_note(cudaFree(last.y));
    last.bytes = numbers * sizeof(bf16);
    if (cudaMalloc((void **)&last.y, last.bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        last.y = NULL, last.bytes = 0;
    }
    return last.y;
}

static bf16 *rounded(const qkv_exec *e, const float *x, size_t rows, size_t cols, size_t ldx,
                     size_t *ldy, bool keep)
{
    *ldy = (cols + BF16_ROW - 1) / BF16_ROW * BF16_ROW;
    if (keep && last.x == x && last.rows == rows && last.cols == cols && last.ldx == ldx &&
        last.writes == cuda_writes())
        return last.y;
    bf16 *y = keep ? last_room(rows * *ldy) : NULL;
    if (y)
        last.x = x, last.rows = rows, last.cols = cols, last.ldx = ldx;
    else
        y = (bf16 *)qkv__arena_alloc(e->scratch, rows * *ldy * sizeof *y);
    bool wide = ldx % 4 == 0 && (uintptr_t)x % 16 == 0;
    if (y)
        LAUNCH(round_rows, cuda_blocks(rows * *ldy / 4), BLOCK, 0, y, *ldy, x, ldx, rows, cols,
               wide);
    return y;
}

extern "C" void cuda_gemm_bf16(const qkv_exec *e, qkv_real *c, const qkv_real *a,
                               const qkv_real *b, const qkv_k_gemm_args *args)
{
    const size_t m = args->m, n = args->n, k = args->k;
    if (!m || !n || m * n * k < QKV__BF16_LEAST) {
        cuda_gemm(e, c, a, b, args);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    std::lock_guard<std::mutex> guard(last.lock);
    size_t lda, ldb;
    bf16 *ra = args->ta ? rounded(e, a, k, m, args->lda, &lda, true)
                        : rounded(e, a, m, k, args->lda, &lda, true);
    bf16 *rb = args->tb ? rounded(e, b, n, k, args->ldb, &ldb, false)
                        : rounded(e, b, k, n, args->ldb, &ldb, false);
    if (ra && rb)
        multiply(c, (const bf16 *)ra, (const bf16 *)rb,
                 {args->ta, args->tb, args->acc, m, n, k, lda, ldb, args->ldc, args->bias});
    keep_rounded(c, m, args->ldc);
    qkv__arena_release(e->scratch, mark);
}

extern "C" void qkv__cuda_gemm(qkv_kernels *k) { k->gemm = cuda_gemm; }
extern "C" void qkv__cuda_gemm_bf16(qkv_kernels *k) { k->gemm = cuda_gemm_bf16; }
