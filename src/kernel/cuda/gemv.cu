/* gemv.cu - y = x w^T + bias in f32 for few rows of x: w is read once, at the speed of memory, for
 * up to 8 of them, and for more from the second-level cache by blocks that run side by side. The
 * same of packed weights; and packing.
 *
 * The order of every sum depends on k alone: what a row gets does not depend on the rows beside it,
 * on alignment, or on the row's place. */
#include "kernel/cuda/gemv.cuh"
#include "kernel/cuda/list.cuh"

enum { GEMV_BLOCK = 128 };

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

/* Adds up N numbers of each lane over the lanes that differ in bits D, 2 D, .. of 16. While a lane
 * has several it keeps half of them, so that the work is shared: what it ends with begins at number
 * *first, 0 before, of the N. */
template <int N, int D, int ALL>
static __device__ __forceinline__ void add_lanes(float (&sum)[ALL], unsigned lane, unsigned *first)
{
    enum { HALF = N / 2, LEFT = N > 1 ? +HALF : 1 };
    const bool upper = N > 1 && lane & D;
#pragma unroll
    for (int i = 0; i < LEFT; i++) {
        const float low = sum[i], high = sum[i + HALF];
        sum[i] = (upper ? high : low) + __shfl_xor_sync(0xffffffffu, upper ? low : high, D);
    }
    *first += upper ? HALF : 0;
    if constexpr (D < WARP / 2)
        add_lanes<LEFT, 2 * D>(sum, lane, first);
}

/* Four places along k of the group's numbers that the thread has. */
template <bool WIDE>
static __device__ __forceinline__ void load_group(pack<4> (&u)[4], const float *w, size_t p,
                                                  size_t k)
{
#pragma unroll
    for (int s = 0; s < 4; s++) {
        u[s] = {};
        if (WIDE || p + s < k)
            u[s] = load_four(w + (p + s) * QKV_K_PACKED, WIDE);
    }
}

/* A block has one group of w and M rows of x. A thread has 4 numbers of the group, of 4 places
 * along k at a time; the places of a warp are 32 in a row. */
template <int M, bool WIDE>
static __global__ void __launch_bounds__(BLOCK, M <= 16 ? 2 : 1)
    packed_kernel(gemv_args a, size_t chunks)
{
    enum { WARPS = BLOCK / WARP, LEFT = M * 4 < 8 ? 1 : M * 4 / 8 };
    __shared__ float part[WARPS][M * QKV_K_PACKED];
    size_t group, chunk;
    split(blockIdx.x, chunks, &group, &chunk);
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, quad = lane % 4;
    const size_t i0 = chunk * M;
    const float *w = a.w + group * a.k * QKV_K_PACKED + quad * 4, *const x = a.x + i0 * a.ldx;
    float sum[M * 4] = {};
    unsigned first = 0, row[M]; /* where rows of x begin */
    for (unsigned i = 0; i < M; i++)
        row[i] = (unsigned)((i0 + i < a.m ? i : a.m - 1 - i0) * a.ldx);
#pragma unroll 1
    for (size_t p = threadIdx.x / 4 * 4; p < a.k; p += BLOCK) {
        pack<4> u[4];
        load_group<WIDE>(u, w, p, a.k);
#pragma unroll
        for (int i = 0; i < M; i++) {
            const pack<4> v = row_four<WIDE>(x + row[i], p, a.k);
            for (int s = 0; s < 4; s++)
                for (int q = 0; q < 4; q++)
                    sum[i * 4 + q] += u[s].v[q] * v.v[s];
        }
    }
    add_lanes<M * 4, 4>(sum, lane, &first);
#pragma unroll
    for (int r = 0; r < LEFT; r++)
        part[warp][(first + r) / 4 * QKV_K_PACKED + quad * 4 + (first + r) % 4] = sum[r];
    __syncthreads();
    for (unsigned at = threadIdx.x; at < M * QKV_K_PACKED; at += BLOCK) {
        const size_t i = i0 + at / QKV_K_PACKED, j = group * QKV_K_PACKED + at % QKV_K_PACKED;
        float total = 0;
        for (int v = 0; v < WARPS; v++)
            total += part[v][at];
        if (i < a.m && j < a.n)
            a.y[i * a.ldy + j] = total + (a.bias ? a.bias[j] : 0);
    }
}

template <int M> static void launch_packed(const gemv_args &a)
{
    const size_t chunks = (a.m + M - 1) / M, groups = (a.n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    if (a.k % 4 == 0 && (a.m == 1 || a.ldx % 4 == 0) && aligned16(a.x, a.w))
        LAUNCH((packed_kernel<M, true>), (unsigned)(groups * chunks), BLOCK, 0, a, chunks);
    else
        LAUNCH((packed_kernel<M, false>), (unsigned)(groups * chunks), BLOCK, 0, a, chunks);
}

/* More rows at a time read w less often, and are fewer blocks. */
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
    else if (m <= 8)
        launch_packed<8>(a);
    else if (m <= 16 || n < MANY_COLUMNS)
        launch_packed<16>(a);
    else
        launch_packed<32>(a);
}

extern "C" void qkv__cuda_gemv(qkv_kernels *k)
{
    k->gemv = cuda_gemv;
    k->pack = cuda_pack;
    k->packed = cuda_packed;
}
