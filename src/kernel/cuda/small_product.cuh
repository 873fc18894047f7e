/* small_product.cuh - a block's part of a product with weights in fewer bits: x in 8 bits where w
 * is integers, sums of units of a group of rows, and the whole. */
#ifndef QKV_KERNEL_CUDA_SMALL_PRODUCT_CUH
#define QKV_KERNEL_CUDA_SMALL_PRODUCT_CUH

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

/* Blocks first, first + warps, .. of all rows by the calling warp. */
static __device__ __forceinline__ void round_blocks(int8_t *q, float *scale,
                                                    const small_product &t, size_t block,
                                                    size_t first, size_t warps)
{
    const unsigned lane = threadIdx.x % WARP;
    for (size_t b = first; b < t.m * t.w.blocks; b += warps) {
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

/* The words of a unit that a thread has, loaded before they are wanted. */
template <int TYPE> struct small_unit {
    uint32_t w[unit_lines(TYPE)][4];
};

/* left: lines from here on. */
template <int TYPE>
static __device__ __forceinline__ void unit_of(small_unit<TYPE> &to, const uint32_t *lines,
                                               size_t left)
{
    for (int l = 0; l < unit_lines(TYPE); l++) {
        for (int r = 0; r < 4; r++)
            to.w[l][r] = 0;
        if ((size_t)l < left)
            line_of(to.w[l], lines + l * QKV_K_PACKED);
    }
}

/* Lines l .. l+3 of a unit: those that are held, or else (NULL) from memory. */
template <int TYPE>
static __device__ __forceinline__ void four_lines(uint32_t to[4][4], const small_unit<TYPE> *held,
                                                  const uint32_t *lines, int l, size_t left)
{
    for (int i = 0; i < 4; i++) {
        for (int r = 0; r < 4; r++)
            to[i][r] = held ? held->w[l + i][r] : 0;
        if (!held && (size_t)(l + i) < left)
            line_of(to[i], lines + (l + i) * QKV_K_PACKED);
    }
}

template <int M>
static __device__ __forceinline__ void unit8(float sum[M][4], const small_product &t,
                                             const small_unit<QKV_K_INT8> *held,
                                             const uint32_t *lines, size_t first, size_t u)
{
    int dot[M][4] = {};
#pragma unroll (M <= 2 ? 4 : 1)
    for (int s = 0; s < 4; s++) {
        uint32_t w[4][4];
        four_lines(w, held, lines, 4 * s, SIZE_MAX);
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
                                             const small_unit<QKV_K_INT4> *held,
                                             const uint32_t *lines, const uint16_t *scales,
                                             size_t first, size_t u)
{
    uint32_t w[4][4];
    float by_w[4];
    four_lines(w, held, lines, 0, SIZE_MAX);
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
                                              const small_unit<QKV_K_BF16> *held,
                                              const uint32_t *lines, size_t left,
                                              size_t first, size_t u)
{
    uint32_t w[4][4];
    four_lines(w, held, lines, 0, left);
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

/* Where a group's words begin for the calling thread. */
static __device__ __forceinline__ const uint32_t *group_words(const small_product &t, size_t group)
{
    return in_global(t.w.words) + group * t.w.lines * QKV_K_PACKED + 4 * (threadIdx.x % QUAD);
}

/* sum += unit u of a group. */
template <int TYPE, int M>
static __device__ __forceinline__ void add_unit(float sum[M][4], const small_product &t,
                                                const small_unit<TYPE> *held, size_t group,
                                                size_t first, size_t u)
{
    enum { LINES = unit_lines(TYPE) };
    const uint32_t *lines = group_words(t, group) + u * LINES * QKV_K_PACKED;
    if constexpr (TYPE == QKV_K_INT8)
        unit8<M>(sum, t, held, lines, first, u);
    else if constexpr (TYPE == QKV_K_INT4)
        unit4<M>(sum, t, held, lines,
                 (const uint16_t *)t.w.scales + small_scale4(t.w, group * QKV_K_PACKED, u) +
                     4 * (threadIdx.x % QUAD),
                 first, u);
    else
        unit16<M>(sum, t, held, lines, t.w.lines - u * LINES, first, u);
}

static __device__ __forceinline__ size_t small_units(const small_matrix &w, int type)
{
    return (w.lines + unit_lines(type) - 1) / unit_lines(type);
}

/* The first unit that the calling thread has of a group. */
template <int TYPE>
static __device__ __forceinline__ void first_unit(small_unit<TYPE> &to, const small_product &t,
                                                  size_t group)
{
    enum { LINES = unit_lines(TYPE) };
    const size_t u = threadIdx.x / QUAD;
    if (u < small_units(t.w, TYPE))
        unit_of(to, group_words(t, group) + u * LINES * QKV_K_PACKED, t.w.lines - u * LINES);
}

/* A thread's sums of a block's part: one group of rows of w, and M rows of x. held: of first_unit,
 * or NULL. */
template <int TYPE, int M>
static __device__ __forceinline__ void small_sums(float sum[M][4], const small_product &t,
                                                  size_t group, size_t chunk,
                                                  const small_unit<TYPE> *held)
{
    const size_t units = small_units(t.w, TYPE), step = blockDim.x / QUAD;
    size_t u = threadIdx.x / QUAD;
    if (held && u < units) {
        add_unit<TYPE, M>(sum, t, held, group, chunk * M, u);
        u += step;
    }
    for (; u < units; u += step)
        add_unit<TYPE, M>(sum, t, (const small_unit<TYPE> *)NULL, group, chunk * M, u);
}

/* All threads' sums together. part: shared memory, with which the block may go on after a barrier.
 * put(i, j, sum) stores a sum without its bias. */
template <int TYPE, int M, typename Put>
static __device__ __forceinline__ void small_finish(float sum[M][4], const small_product &t,
                                                    size_t group, size_t chunk,
                                                    float part[][M][QKV_K_PACKED], const Put &put)
{
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
        put(chunk * M + i, j, total);
    }
}

#endif
