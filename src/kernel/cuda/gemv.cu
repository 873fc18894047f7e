/* gemv.cu - y = x w^T + bias in f32 for few rows of x: w is read once, at the speed of memory, for
 * up to 8 of them, and for more from the second-level cache by blocks that run side by side. The
 * same of packed weights; and packing.
 *
 * The order of every sum depends on k alone: what a row gets does not depend on the rows beside it,
 * on alignment, or on the row's place. */
#include "kernel/cuda/gemv.cuh"
#include "kernel/cuda/list.cuh"

enum { GEMV_BLOCK = 128, PACKED_ROWS = 8 };

/* Neighbouring blocks have the same rows of w. */
template <int M, int R, bool WIDE>
static __global__ void __launch_bounds__(GEMV_BLOCK) gemv_kernel(gemv_args a, size_t chunks)
{
    size_t group, chunk;
    split(blockIdx.x, chunks, &group, &chunk);
    const size_t j0 = (group * (GEMV_BLOCK / WARP) + threadIdx.x / WARP) * R;
    gemv_places<R, gemv_ahead(M, R)> places;
    if (j0 >= a.n)
        return;
    gemv_first<M, R, WIDE>(places, a, j0);
    gemv_rows<M, R, WIDE>(a, j0, chunk * M, places, [&a](size_t i, size_t j, float sum) {
        a.y[i * a.ldy + j] = sum + (a.bias ? a.bias[j] : 0);
    });
}

template <int M, int R> static void launch_gemv(const gemv_args &a, bool wide)
{
    const size_t chunks = (a.m + M - 1) / M, rows = GEMV_BLOCK / WARP * R;
    const unsigned blocks = (unsigned)((a.n + rows - 1) / rows * chunks);
    if (wide)
        LAUNCH((gemv_kernel<M, R, true>), blocks, GEMV_BLOCK, 0, a, chunks);
    else
        LAUNCH((gemv_kernel<M, R, false>), blocks, GEMV_BLOCK, 0, a, chunks);
}

static void cuda_gemv(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
                      const qkv_real *w, const qkv_real *bias, size_t m, size_t n, size_t k)
{
    (void)e;
    const gemv_args a = {y, x, w, bias, ldy, ldx, m, n, k};
    const bool wide = k % 4 == 0 && (m == 1 || ldx % 4 == 0) && aligned16(x, w);
    if (m == 0 || n == 0 || (wide && list_gemv(a)))
        return;
    if (m == 1)
        launch_gemv<1, 1>(a, wide);
    else if (m == 2)
        launch_gemv<2, 1>(a, wide);
    else if (m <= 4)
        launch_gemv<4, 2>(a, wide);
    else if (n < MANY_COLUMNS)
        launch_gemv<8, 2>(a, wide);
    else
        launch_gemv<8, 4>(a, wide);
}

/* ---- packed weights -------------------------------------------------------------------------- */

/* Groups of QKV_K_PACKED rows of w, each turned. */
static __global__ void __launch_bounds__(BLOCK) pack_kernel(float *packed, const float *w, size_t n,
                                                            size_t k, size_t total)
{
    for (FOR_EACH(i, total)) {
        size_t group, p;
        split(i / QKV_K_PACKED, k, &group, &p);
        const size_t row = group * QKV_K_PACKED + i % QKV_K_PACKED;
        packed[i] = row < n ? w[row * k + p] : 0;
    }
}

static void cuda_pack(const qkv_exec *e, qkv_real *packed, const qkv_real *w, size_t n, size_t k)
{
    (void)e;
    const size_t total = (n + QKV_K_PACKED - 1) / QKV_K_PACKED * QKV_K_PACKED * k;
    if (total)
        LAUNCH(pack_kernel, cuda_blocks(total), BLOCK, 0, packed, w, n, k, total);
}

/* A block has one group of w and M rows of x. 4 lanes read the 16 numbers of a place along k; the
 * places of a warp are 8 in a row. */
template <int M>
static __global__ void __launch_bounds__(BLOCK) packed_kernel(gemv_args a, size_t chunks, bool wide)
{
    enum { WARPS = BLOCK / WARP, PLACES = BLOCK / 4 };
    __shared__ float part[WARPS][M][QKV_K_PACKED];
    size_t group, chunk;
    split(blockIdx.x, chunks, &group, &chunk);
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, quad = lane % 4;
    const size_t i0 = chunk * M;
    const float *w = a.w + group * a.k * QKV_K_PACKED + quad * 4, *x[M];
    float sum[M][4] = {};
    for (int i = 0; i < M; i++)
        x[i] = a.x + (i0 + i < a.m ? i0 + i : a.m - 1) * a.ldx;
#pragma unroll 4
    for (size_t p = threadIdx.x / 4; p < a.k; p += PLACES) {
        const pack<4> u = load_four(w + p * QKV_K_PACKED, wide);
#pragma unroll
        for (int i = 0; i < M; i++) {
            const float v = x[i][p];
            for (int q = 0; q < 4; q++)
                sum[i][q] += u.v[q] * v;
        }
    }
    for (int i = 0; i < M; i++)
        for (int q = 0; q < 4; q++) {
            for (int d = 4; d < WARP; d *= 2)
                sum[i][q] += __shfl_xor_sync(0xffffffffu, sum[i][q], d);
            if (lane < 4)
                part[warp][i][quad * 4 + q] = sum[i][q];
        }
    __syncthreads();
    const size_t i = threadIdx.x / QKV_K_PACKED, j = threadIdx.x % QKV_K_PACKED;
    const size_t column = group * QKV_K_PACKED + j;
    if (i < M && i0 + i < a.m && column < a.n) {
        float total = 0;
        for (int v = 0; v < WARPS; v++)
            total += part[v][i][j];
        a.y[(i0 + i) * a.ldy + column] = total + (a.bias ? a.bias[column] : 0);
    }
}

template <int M> static void launch_packed(const gemv_args &a)
{
    const size_t chunks = (a.m + M - 1) / M, groups = (a.n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    LAUNCH(packed_kernel<M>, (unsigned)(groups * chunks), BLOCK, 0, a, chunks, aligned16(a.w));
}

static void cuda_packed(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
                        const qkv_real *w, const qkv_real *bias, size_t m, size_t n, size_t k)
{
    (void)e;
    const gemv_args a = {y, x, w, bias, ldy, ldx, m, n, k};
    if (m == 0 || n == 0)
        return;
    if (m == 1)
        launch_packed<1>(a);
    else if (m <= 4)
        launch_packed<4>(a);
    else
        launch_packed<PACKED_ROWS>(a);
}

extern "C" void qkv__cuda_gemv(qkv_kernels *k)
{
    k->gemv = cuda_gemv;
    k->pack = cuda_pack;
    k->packed = cuda_packed;
}
