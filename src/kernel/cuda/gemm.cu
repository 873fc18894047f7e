/* gemm.cu - matrix products: cuBLASLt's, and a plain kernel for what it refuses. Sums are
 * in f32. */
#include "kernel/cuda/blas.cuh"
#include "kernel/cuda/operands.cuh"

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

template <typename C, typename T>
static __global__ void plain_product(C *c, const T *a, const T *b, blas_product p)
{
    const C *bias = (const C *)p.bias;
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
            C *to = c + (first + y) * p.ldc + column;
            const float was = p.acc ? blas_number(*to) : 0;
            blas_store(to, (was + (bias ? blas_number(bias[column]) : 0)) + sum);
        }
    }
}

template <typename C, typename T>
static void multiply(C *c, const T *a, const T *b, const blas_product &p)
{
    cuda_wrote();
    if (blas_multiply(c, a, b, &p))
        return;
    size_t down = (p.m + TILE - 1) / TILE;
    dim3 grid((unsigned)((p.n + TILE - 1) / TILE), (unsigned)(down < 65535 ? down : 65535));
    LAUNCH((plain_product<C, T>), grid, dim3(TILE, TILE), 0, c, a, b, p);
}

extern "C" void cuda_gemm(const qkv_exec *, qkv_real *c, const qkv_real *a, const qkv_real *b,
                          const qkv_k_gemm_args *args)
{
    if (args->m && args->n)
        multiply(c, a, b, {args->ta, args->tb, args->acc, args->m, args->n, args->k, args->lda,
                           args->ldb, args->ldc, args->bias});
}

/* ---- of operands in bf16 --------------------------------------------------------------------- */

void multiply_rounded(float *c, const bf16 *a, const bf16 *b, const blas_product &p)
{
    multiply(c, a, b, p);
}

/* An operand in bf16: x itself (rows, cols; row stride ldx), or a copy, behind which there are
 * zeros to a multiple of 8 rows if it is padded. x NULL: no memory. */
struct operand {
    const bf16 *x;
    size_t ld;
    bool padded;
};

static operand operand_of(const qkv_real *x, bool rounded, size_t rows, size_t cols, size_t ldx,
                          uint64_t version)
{
    operand o = {(const bf16 *)x, ldx, false};
    if (!rounded)
        o.x = operand_rounded(x, rows, cols, ldx, &o.ld, &o.padded, version);
    return o;
}

static size_t next_eight(size_t n) { return (n + 7) / 8 * 8; }

/* The bias beside a product in bf16: n numbers, and zeros to `all`, of scratch memory, or NULL. */
static const bf16 *rounded_bias(const qkv_exec *e, const qkv_real *bias, size_t n, size_t all)
{
    bf16 *to = (bf16 *)qkv__arena_alloc(e->scratch, all * sizeof *to);
    if (to)
        operand_round_vector(to, bias, n, all);
    return to;
}

/* Sizes that no multiple of 8 are make slow products: where rows of c, or of a, have room for the
 * next one, and b has zeros there, they are taken for that. */
static void fill_up(blas_product *p, const operand &b, bool to_bf16, bool a_is_bf16)
{
    const size_t n = next_eight(p->n), k = next_eight(p->k);
    if (b.padded && p->tb && to_bf16 && n <= p->ldc)
        p->n = n;
    if (b.padded && !p->tb && !p->ta && a_is_bf16 && k <= p->lda)
        p->k = k;
}

/* Each of a, b and c may hold bf16. */
extern "C" void cuda_gemm_bf16(const qkv_exec *e, qkv_real *c, const qkv_real *a,
                               const qkv_real *b, const qkv_k_gemm_args *args)
{
    const size_t m = args->m, n = args->n, k = args->k;
    const bool to_bf16 = holds_bf16(e, 0), a_is_bf16 = holds_bf16(e, 1), ta = args->ta;
    if (!m || !n || (!e->bf16 && m * n * k < QKV__BF16_LEAST)) {
        cuda_gemm(e, c, a, b, args);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    operands_lock();
    const operand ra = operand_of(a, a_is_bf16, ta ? k : m, ta ? m : k, args->lda, 0);
    const operand rb = operand_of(b, holds_bf16(e, 2), args->tb ? n : k, args->tb ? k : n,
                                  args->ldb, args->b_version);
    blas_product p = {ta, args->tb, args->acc, m, n, k, ra.ld, rb.ld, args->ldc, args->bias};
    fill_up(&p, rb, to_bf16, a_is_bf16);
    if (to_bf16 && args->bias)
        p.bias = rounded_bias(e, args->bias, n, p.n);
    if (!ra.x || !rb.x || (args->bias && !p.bias))
        cuda_note(cudaErrorMemoryAllocation);
    else if (to_bf16)
        multiply((bf16 *)c, ra.x, rb.x, p);
    else
        multiply(c, ra.x, rb.x, p);
    operands_unlock(c, to_bf16 ? m / 2 + 1 : m, args->ldc);
    qkv__arena_release(e->scratch, mark);
}

extern "C" void qkv__cuda_gemm(qkv_kernels *k) { k->gemm = cuda_gemm; }
extern "C" void qkv__cuda_gemm_bf16(qkv_kernels *k) { k->gemm = cuda_gemm_bf16; }
