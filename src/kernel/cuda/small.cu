/* small.cu - products with weights in fewer bits: w is read once, at the speed of memory, for up to
 * 8 rows of x, and for more from the second-level cache by blocks that run side by side. Where w is
 * integers, x is rounded to 8 bits first.
 *
 * A block has one group of 16 rows of w. 4 threads read a line in vectors of 4 rows and go along k
 * in units, whose sums the block adds up in the end. The order of every sum depends on k alone:
 * what a row gets does not depend on the rows beside it. */
#include <cfloat>

#include "kernel/cuda/small.cuh"

enum { ROWS = 8, QUAD = 4 }; /* rows of x at a time; lanes that share a line */

struct small_product {
    float *y;
    const float *x, *bias; /* bias NULL: none */
    small_matrix w;
    size_t ldy, ldx, m;
    const int8_t *q;      /* (m, blocks, block): x in 8 bits */
    const float *q_scale; /* (m, blocks) */
    bool wide;            /* of bf16: rows of x begin at multiples of 16 bytes */
};

/* ---- x in 8 bits: a warp for each block ------------------------------------------------------ */

static __global__ void __launch_bounds__(BLOCK) round_kernel(int8_t *q, float *scale,
                                                             small_product t, size_t block)
{
    const unsigned lane = threadIdx.x % WARP;
    const size_t warps = (size_t)gridDim.x * (BLOCK / WARP);
    for (size_t b = (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
         b < t.m * t.w.blocks; b += warps) {
        size_t row, at;
        split(b, t.w.blocks, &row, &at);
        float v[2], most = 0, odd = 0;
        for (int i = 0; i < 2; i++) { /* a block has 32 numbers or 64 */
            const size_t in = lane + i * WARP, p = at * block + in;
            v[i] = in < block && p < t.w.k ? t.x[row * t.ldx + p] : 0;
            most = fmaxf(most, fabsf(v[i]));
            odd += v[i] * 0; /* NaN where v is not finite */
        }
        most = warp_max(most);
        const bool finite = !__any_sync(0xffffffffu, odd != 0);
        const float inverse = 127 / most;
        const bool fine = finite && inverse <= FLT_MAX;
        for (int i = 0; i < 2; i++)
            if (lane + i * WARP < block)
                q[b * block + lane + i * WARP] = fine ? (int8_t)__float2int_rn(v[i] * inverse) : 0;
        if (lane == 0)
            scale[b] = fine ? most / 127 : finite ? 0 : NAN;
    }
}

/* ---- one unit of a group, for M rows of x ---------------------------------------------------- */

/* Lines of a unit: a block of integers; 8 numbers in bf16. */
static constexpr __host__ __device__ int unit_lines(int type)
{
    return type == QKV_K_INT8 ? 16 : 4;
}

/* 4 rows of a line. */
static __device__ __forceinline__ void line_of(uint32_t out[4], const uint32_t *line)
{
    const uint4 v = *reinterpret_cast<const uint4 *>(line);
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
}

static __device__ __forceinline__ void words_of(int out[4], const int8_t *q)
{
    const int4 v = *reinterpret_cast<const int4 *>(q);
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
}

/* The integers of a word, less what is added to them, as signed bytes; of 4 bits times 16. */
static __device__ __forceinline__ int signed8(uint32_t word) { return (int)(word ^ 0x80808080u); }
static __device__ __forceinline__ int signed4(uint32_t word)
{
    return (int)((word & 0xf0f0f0f0u) ^ 0x80808080u);
}

template <int M>
static __device__ __forceinline__ void unit8(float sum[M][4], const small_product &t,
                                             const uint32_t *lines, size_t first, size_t u)
{
    int dot[M][4] = {};
#pragma unroll (M <= 2 ? 4 : 1)
    for (int s = 0; s < 4; s++) {
        uint32_t w[4][4];
        for (int l = 0; l < 4; l++)
            line_of(w[l], lines + (4 * s + l) * QKV_K_PACKED);
#pragma unroll
        for (int i = 0; i < M; i++) {
            int x[4];
            words_of(x, t.q + ((first + i) * t.w.blocks + u) * QKV_K_INT8_BLOCK + 16 * s);
            for (int l = 0; l < 4; l++)
                for (int r = 0; r < 4; r++)
                    dot[i][r] = __dp4a(signed8(w[l][r]), x[l], dot[i][r]);
        }
    }
#pragma unroll
    for (int i = 0; i < M; i++) {
        const float by = t.q_scale[(first + i) * t.w.blocks + u];
        for (int r = 0; r < 4; r++)
            sum[i][r] += (float)dot[i][r] * by;
    }
}

/* scales: of the 4 rows. */
template <int M>
static __device__ __forceinline__ void unit4(float sum[M][4], const small_product &t,
                                             const uint32_t *lines, const uint16_t *scales,
                                             size_t first, size_t u)
{
    uint32_t w[4][4];
    float by_w[4];
    for (int l = 0; l < 4; l++)
        line_of(w[l], lines + l * QKV_K_PACKED);
    for (int r = 0; r < 4; r++)
        by_w[r] = bf16_low(scales[r]) * 0.0625f;
#pragma unroll
    for (int i = 0; i < M; i++) {
        const int8_t *q = t.q + ((first + i) * t.w.blocks + u) * QKV_K_INT4_BLOCK;
        const float by = t.q_scale[(first + i) * t.w.blocks + u];
        int x[8], dot[4] = {};
        words_of(x, q);
        words_of(x + 4, q + 16);
        for (int l = 0; l < 4; l++)
            for (int r = 0; r < 4; r++)
                dot[r] = __dp4a(signed4(w[l][r] << 4), x[2 * l],
                                __dp4a(signed4(w[l][r]), x[2 * l + 1], dot[r]));
        for (int r = 0; r < 4; r++)
            sum[i][r] += (float)dot[r] * by_w[r] * by;
    }
}

/* Numbers p .. p+3 of a row of x, 0 past its end; past the last row those of it. */
static __device__ __forceinline__ pack<4> x_four(const small_product &t, size_t row, size_t p)
{
    const float *x = t.x + (row < t.m ? row : t.m - 1) * t.ldx + p;
    pack<4> v = {};
    if (p + 4 <= t.w.k)
        v = load_four(x, t.wide);
    else
        for (int i = 0; i < 3; i++)
            v.v[i] = p + i < t.w.k ? x[i] : 0;
    return v;
}

/* left: lines from here on. */
template <int M>
static __device__ __forceinline__ void unit16(float sum[M][4], const small_product &t,
                                              const uint32_t *lines, size_t left,
                                              size_t first, size_t u)
{
    uint32_t w[4][4] = {};
    for (int l = 0; l < 4; l++)
        if ((size_t)l < left)
            line_of(w[l], lines + l * QKV_K_PACKED);
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const pack<4> x = x_four(t, first + i, 8 * u + 4 * half);
            for (int l = 0; l < 2; l++)
                for (int r = 0; r < 4; r++) {
                    const uint32_t word = w[2 * half + l][r];
                    sum[i][r] += bf16_low(word) * x.v[2 * l];
                    sum[i][r] += bf16_high(word) * x.v[2 * l + 1];
                }
        }
}

/* ---- the product ----------------------------------------------------------------------------- */

/* part (warps, M, 16): the sums of the warps' units. */
template <int M>
static __device__ __forceinline__ void add_up(float sum[M][4], float part[][M][QKV_K_PACKED])
{
    const unsigned lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < M; i++)
        for (int r = 0; r < 4; r++) {
            for (int d = QUAD; d < WARP; d *= 2)
                sum[i][r] += __shfl_xor_sync(0xffffffffu, sum[i][r], d);
            if (lane < QUAD)
                part[threadIdx.x / WARP][i][lane * 4 + r] = sum[i][r];
        }
    __syncthreads();
}

template <int TYPE, int M>
static __global__ void __launch_bounds__(BLOCK, M >= 4 ? 2 : 3)
    small_kernel(small_product t, size_t chunks)
{
    __shared__ float part[BLOCK / WARP][M][QKV_K_PACKED];
    enum { LINES = unit_lines(TYPE) };
    size_t group, chunk;
    split(blockIdx.x, chunks, &group, &chunk);
    const unsigned quad = threadIdx.x % QUAD;
    const size_t units = (t.w.lines + LINES - 1) / LINES, step = blockDim.x / QUAD;
    const uint32_t *words = t.w.words + group * t.w.lines * QKV_K_PACKED + 4 * quad;
    float sum[M][4] = {};
    for (size_t u = threadIdx.x / QUAD; u < units; u += step) {
        const uint32_t *lines = words + u * LINES * QKV_K_PACKED;
        if constexpr (TYPE == QKV_K_INT8)
            unit8<M>(sum, t, lines, chunk * M, u);
        else if constexpr (TYPE == QKV_K_INT4)
            unit4<M>(sum, t, lines,
                     (const uint16_t *)t.w.scales + small_scale4(t.w, group * QKV_K_PACKED, u) +
                         4 * quad,
                     chunk * M, u);
        else
            unit16<M>(sum, t, lines, t.w.lines - u * LINES, chunk * M, u);
    }
    add_up<M>(sum, part);
    for (unsigned o = threadIdx.x; o < M * QKV_K_PACKED; o += blockDim.x) {
        const size_t i = o / QKV_K_PACKED, j = group * QKV_K_PACKED + o % QKV_K_PACKED;
        if (chunk * M + i >= t.m || j >= t.w.n)
            continue;
        float total = 0;
        for (unsigned v = 0; v < blockDim.x / WARP; v++)
            total += part[v][i][o % QKV_K_PACKED];
        if (TYPE == QKV_K_INT8)
            total *= ((const float *)t.w.scales)[j];
        t.y[(chunk * M + i) * t.ldy + j] = total + (t.bias ? t.bias[j] : 0);
    }
}

template <int TYPE, int M> static void launch_small(const small_product &t)
{
    const size_t chunks = (t.m + M - 1) / M, groups = (t.w.n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    const size_t units = (t.w.lines + unit_lines(TYPE) - 1) / unit_lines(TYPE);
    const size_t threads = (units * QUAD + WARP - 1) / WARP * WARP;
    LAUNCH((small_kernel<TYPE, M>), (unsigned)(groups * chunks),
           (unsigned)smaller(threads ? threads : (size_t)WARP, BLOCK), 0, t, chunks);
}

template <int TYPE> static void launch_type(const small_product &t)
{
    if (t.m == 1)
        launch_small<TYPE, 1>(t);
    else if (t.m == 2)
        launch_small<TYPE, 2>(t);
    else if (t.m <= 4)
        launch_small<TYPE, 4>(t);
    else
        launch_small<TYPE, ROWS>(t);
}

/* Rows past m, which fill up the last ROWS, hold anything. False: no scratch memory. */
static bool round_x(const qkv_exec *e, small_product *t)
{
    const size_t block = small_block(t->w.type), count = t->m * t->w.blocks;
    const size_t room = (t->m + ROWS - 1) / ROWS * ROWS * t->w.blocks + 1;
    float *scale = (float *)qkv__arena_alloc(e->scratch, room * sizeof *scale);
    int8_t *q = scale ? (int8_t *)qkv__arena_alloc(e->scratch, room * block) : NULL;
    if (!q)
        return false;
    if (count)
        LAUNCH(round_kernel, cuda_blocks(count * WARP), BLOCK, 0, q, scale, *t, block);
    t->q = q;
    t->q_scale = scale;
    return true;
}

static void multiply(const qkv_exec *e, small_product t)
{
    qkv__mark mark = qkv__arena_mark(e->scratch);
    if (t.w.type == QKV_K_BF16)
        launch_type<QKV_K_BF16>(t);
    else if (round_x(e, &t) && t.w.type == QKV_K_INT8)
        launch_type<QKV_K_INT8>(t);
    else if (t.q)
        launch_type<QKV_K_INT4>(t);
    qkv__arena_release(e->scratch, mark);
}

static void cuda_small(const qkv_exec *e, qkv_real *y, size_t ldy, const qkv_real *x, size_t ldx,
                       const qkv_k_small *w, const qkv_real *bias, size_t m)
{
    if (m && w->n)
        multiply(e, {y, x, bias, small_matrix_of(w), ldy, ldx, m, NULL, NULL,
                     (m == 1 || ldx % 4 == 0) && aligned16(x)});
}

extern "C" void qkv__cuda_small(qkv_kernels *k) { k->small = k->small_many = cuda_small; }
