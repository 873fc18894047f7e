/* positions.cuh - rows of a table by index, and rotary positions: a warp's and a thread's part. */
#ifndef QKV_KERNEL_CUDA_POSITIONS_CUH
#define QKV_KERNEL_CUDA_POSITIONS_CUH

#include "kernel/cuda/rows.cuh"

/* ---- rows by index: a warp for a row --------------------------------------------------------- */

struct embed_job {
    const int32_t *ids, *positions;
    const float *table, *ptable; /* ptable NULL: none */
    float scale;
    size_t N, C;
};

template <bool QUADS>
static __device__ __forceinline__ void embed_row(float *y, const float *row,
                                                 const float *shift, float scale, size_t C)
{
    const unsigned lane = threadIdx.x % WARP;
    if (QUADS) {
        for (size_t start = lane; start < C / 4; start += AHEAD * WARP) {
            float4 v[AHEAD], p[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const size_t j = start + (size_t)i * WARP;
                v[i] = p[i] = make_float4(0, 0, 0, 0);
                if (j < C / 4) {
                    v[i] = ((const float4 *)row)[j];
                    if (shift)
                        p[i] = ((const float4 *)shift)[j];
                }
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                const size_t j = start + (size_t)i * WARP;
                const float4 a = v[i], b = p[i];
                if (j < C / 4)
                    ((float4 *)y)[j] = make_float4(scale * a.x + b.x, scale * a.y + b.y,
                                                   scale * a.z + b.z, scale * a.w + b.w);
            }
        }
    } else {
#pragma unroll 4
        for (size_t c = lane; c < C; c += WARP)
            y[c] = shift ? scale * row[c] + shift[c] : scale * row[c];
    }
}

/* Rows first, first + warps, .. by the calling warp. */
template <bool QUADS>
static __device__ __forceinline__ void embed_some(float *y, const embed_job &a, size_t first,
                                                  size_t warps)
{
    for (size_t r = first; r < a.N; r += warps)
        embed_row<QUADS>(y + r * a.C, a.table + (size_t)a.ids[r] * a.C,
                         a.ptable ? a.ptable + (size_t)a.positions[r] * a.C : NULL, a.scale, a.C);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

struct rotary_job {
    float *y;
    const float *x;
    const int32_t *positions;
    const double *frequency;
    size_t N, H, D, half, heads, sx, hx, sy, hy; /* heads: of one thread */
    double scale;
    int sign;
    bool acc;
};

/* The angle is brought into one turn in double; what is left is exact enough in float. */
static __device__ __forceinline__ void rotary_angle(float *c, float *s, double position,
                                                    double frequency, const rotary_job &a)
{
    const double turn = 6.283185307179586476925286766559;
    double turns = position * frequency * (1 / turn);
    turns -= rint(turns);
    sincosf((float)(turns * turn), s, c);
    *c *= (float)a.scale;
    *s *= (float)(a.scale * a.sign);
}

/* Each thread has one pair of channels, or one that is not rotated, of some heads of a row: places
 * first_place, first_place + step, .. of all of them. put(p, v) stores a number of y. */
template <typename Put>
static __device__ __forceinline__ void rotary_some(const rotary_job &a, size_t first_place,
                                                   size_t step, const Put &put)
{
    const size_t each = a.D - a.half, groups = (a.H + a.heads - 1) / a.heads;
    for (size_t at = first_place; at < a.N * groups * each; at += step) {
        const size_t i = at % each, row = at / each / groups, first = at / each % groups * a.heads;
        const size_t end = first + a.heads < a.H ? first + a.heads : a.H;
        const float *in = a.x + row * a.sx;
        float *out = a.y + row * a.sy, c = 1, s = 0;
        const bool pair = i < a.half;
        if (pair)
            rotary_angle(&c, &s, (double)a.positions[row], a.frequency[i], a);
        const size_t lo = pair ? i : i + a.half, hi = i + a.half;
#pragma unroll 4
        for (size_t h = first; h < end; h++) {
            const float p = in[h * a.hx + lo], q = pair ? in[h * a.hx + hi] : 0;
            float *to = out + h * a.hy;
            const float turned = p * c - q * s;
            put(to + lo, a.acc ? to[lo] + turned : turned);
            if (pair)
                put(to + hi, (a.acc ? to[hi] : 0) + (q * c + p * s));
        }
    }
}

#endif
