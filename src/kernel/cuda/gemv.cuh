/* gemv.cuh - a warp's part of y = x w^T + bias in f32, for few rows of x. */
#ifndef QKV_KERNEL_CUDA_GEMV_CUH
#define QKV_KERNEL_CUDA_GEMV_CUH

#include "kernel/cuda/elements.cuh"

enum { STEP = 4 * WARP, MANY_COLUMNS = 8192 };

struct gemv_args {
    float *y;
    const float *x, *w, *bias; /* bias NULL: none */
    size_t ldy, ldx, m, n, k;
};

/* Numbers p .. p+3 of a row of k, 0 past its end. */
template <bool WIDE>
static __device__ __forceinline__ pack<4> row_four(const float *row, size_t p, size_t k)
{
    if (WIDE || p + 4 <= k)
        return load_four(row + p, WIDE);
    pack<4> v = {};
    for (int i = 0; i < 3; i++)
        v.v[i] = p + i < k ? row[p + i] : 0;
    return v;
}

/* Places p, p + STEP, .. below k (U at most) of R rows of w. */
template <int R, int U> struct gemv_places {
    pack<4> u[U][R];
};

template <int R, int U, bool WIDE>
static __device__ __forceinline__ void load_places(gemv_places<R, U> &to, const float *const w[R],
                                                   size_t p, size_t k)
{
#pragma unroll
    for (int s = 0; s < U; s++)
        for (int r = 0; r < R; r++)
            if (p + s * STEP < k)
                to.u[s][r] = row_four<WIDE>(w[r], p + s * STEP, k);
}

/* sum += the products of these with M rows of x. */
template <int M, int R, int U, bool WIDE>
static __device__ __forceinline__ void add_places(float sum[M][R], const gemv_places<R, U> &w,
                                                  const float *const x[M], size_t p, size_t k)
{
#pragma unroll
    for (int s = 0; s < U; s++) {
        if (p + s * STEP >= k)
            continue;
#pragma unroll
        for (int i = 0; i < M; i++) {
            const pack<4> v = row_four<WIDE>(x[i], p + s * STEP, k);
            for (int r = 0; r < R; r++)
                for (int q = 0; q < 4; q++)
                    sum[i][r] += w.u[s][r].v[q] * v.v[q];
        }
    }
}

/* Places whose loads are on their way at a time. */
static constexpr __host__ __device__ int gemv_ahead(int M, int R)
{
    return M * R <= 2 ? 8 : R == 2 ? 2 : 1;
}

/* The first places of rows j0 .. j0 + R - 1 of w. */
template <int M, int R, bool WIDE>
static __device__ __forceinline__ void gemv_first(gemv_places<R, gemv_ahead(M, R)> &to,
                                                  const gemv_args &a, size_t j0)
{
    const float *w[R];
    for (int r = 0; r < R; r++)
        w[r] = in_global(a.w) + (j0 + r < a.n ? j0 + r : a.n - 1) * a.k;
    load_places<R, gemv_ahead(M, R), WIDE>(to, w, 4 * (threadIdx.x % WARP), a.k);
}

/* A warp has R rows of w from j0 on, below n, and M of x from i0 on. WIDE: rows begin at multiples
 * of 16 bytes, k is a multiple of 4. places: of gemv_first. put(i, j, sum) stores a sum without its
 * bias. */
template <int M, int R, bool WIDE, typename Put>
static __device__ __forceinline__ void gemv_rows(const gemv_args &a, size_t j0, size_t i0,
                                                 gemv_places<R, gemv_ahead(M, R)> &places,
                                                 const Put &put)
{
    enum { U = gemv_ahead(M, R) };
    const unsigned lane = threadIdx.x % WARP;
    const float *w[R], *x[M];
    float sum[M][R] = {};
    for (int r = 0; r < R; r++)
        w[r] = in_global(a.w) + (j0 + r < a.n ? j0 + r : a.n - 1) * a.k;
    for (int i = 0; i < M; i++)
        x[i] = a.x + (i0 + i < a.m ? i0 + i : a.m - 1) * a.ldx;
    for (size_t p = 4 * lane; p < a.k; p += U * STEP) {
        if (p >= U * STEP)
            load_places<R, U, WIDE>(places, w, p, a.k);
        add_places<M, R, U, WIDE>(sum, places, x, p, a.k);
    }
#pragma unroll
    for (int i = 0; i < M; i++)
        for (int r = 0; r < R; r++) {
            const float total = warp_sum(sum[i][r]);
            if (lane == (unsigned)(i * R + r) && i0 + i < a.m && j0 + r < a.n)
                put(i0 + i, j0 + r, total);
        }
}

#endif
