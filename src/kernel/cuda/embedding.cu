/* embedding.cu - rows of a table by index, and rotary positions. */
#include "kernel/cuda/rows.cuh"

extern "C" qkv_k_embed_bwd_fn cuda_embed_bwd; /* embedding_bwd.cu */

/* ---- rows by index: a warp for a row --------------------------------------------------------- */

typedef struct {
    const int32_t *ids, *positions;
    const float *table, *ptable; /* ptable NULL: none */
    float scale;
    size_t N, C;
} embed_job;

template <bool QUADS>
static __device__ __forceinline__ void embed_row(float *__restrict__ y,
                                                 const float *__restrict__ row,
                                                 const float *__restrict__ shift, float scale,
                                                 size_t C)
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

template <bool QUADS> __global__ void embed_rows(float *y, embed_job a)
{
    const size_t warps = blockDim.x / WARP;
    for (size_t r = blockIdx.x * warps + threadIdx.x / WARP; r < a.N; r += gridDim.x * warps)
        embed_row<QUADS>(y + r * a.C, a.table + (size_t)a.ids[r] * a.C,
                         a.ptable ? a.ptable + (size_t)a.positions[r] * a.C : NULL, a.scale, a.C);
}

static void cuda_embed(const qkv_exec *e, qkv_real *y, const int32_t *ids, const qkv_real *table,
                       double scale, const int32_t *positions, const qkv_real *ptable, size_t N,
                       size_t C)
{
    (void)e;
    if (N == 0 || C == 0)
        return;
    const embed_job a = {ids, positions, table, ptable, (float)scale, N, C};
    const unsigned blocks = row_blocks((N + BLOCK / WARP - 1) / (BLOCK / WARP));
    if (C % 4 == 0 && quads_fit(y) && quads_fit(table) && quads_fit(ptable))
        LAUNCH(embed_rows<true>, blocks, BLOCK, 0, y, a);
    else
        LAUNCH(embed_rows<false>, blocks, BLOCK, 0, y, a);
}

/* ---- rotary positions ------------------------------------------------------------------------ */

typedef struct {
    size_t N, H, D, half, heads, sx, hx, sy, hy; /* heads: of one thread */
    double scale;
    int sign;
    bool acc;
} rotary_sizes;

/* The angle is brought into one turn in double; what is left is exact enough in float. */
static __device__ __forceinline__ void rotary_angle(float *c, float *s, double position,
                                                    double frequency, rotary_sizes a)
{
    const double turn = 6.283185307179586476925286766559;
    double turns = position * frequency * (1 / turn);
    turns -= rint(turns);
    sincosf((float)(turns * turn), s, c);
    *c *= (float)a.scale;
    *s *= (float)(a.scale * a.sign);
}

/* Each thread has one pair of channels, or one that is not rotated, of some heads of a row. */
static __global__ void __launch_bounds__(BLOCK) rotary_rows(float *y, const float *x,
                                                            const int32_t *positions,
                                                            const double *frequency, rotary_sizes a)
{
    const size_t each = a.D - a.half, groups = (a.H + a.heads - 1) / a.heads;
    for (FOR_EACH(at, a.N * groups * each)) {
        const size_t i = at % each, row = at / each / groups, first = at / each % groups * a.heads;
        const size_t end = first + a.heads < a.H ? first + a.heads : a.H;
        const float *in = x + row * a.sx;
        float *out = y + row * a.sy, c = 1, s = 0;
        const bool pair = i < a.half;
        if (pair)
            rotary_angle(&c, &s, (double)positions[row], frequency[i], a);
        const size_t lo = pair ? i : i + a.half, hi = i + a.half;
#pragma unroll 4
        for (size_t h = first; h < end; h++) {
            const float p = in[h * a.hx + lo], q = pair ? in[h * a.hx + hi] : 0;
            float *to = out + h * a.hy;
            const float turned = p * c - q * s;
            to[lo] = a.acc ? to[lo] + turned : turned;
            if (pair)
                to[hi] = (a.acc ? to[hi] : 0) + (q * c + p * s);
        }
    }
}

static void cuda_rotary(const qkv_exec *e, qkv_real *y, const qkv_real *x,
                        const int32_t *positions, const qkv_k_rotary_args *args)
{
    (void)e;
    enum { MANY = 1 << 17 }; /* threads that fill a card */
    const size_t half = args->width / 2, each = args->D - half;
    if (args->N * args->H * args->D == 0)
        return;
    const size_t heads = args->N * each >= MANY ? args->H : 1;
    const rotary_sizes a = {args->N, args->H, args->D, half, heads, args->sx, args->hx,
                            args->sy, args->hy, args->scale, args->sign, args->acc};
    const double *frequency =
        half ? (const double *)cuda_upload(args->frequency, half * sizeof *frequency) : NULL;
    if (half && !frequency)
        return;
    LAUNCH(rotary_rows, cuda_blocks(args->N * ((args->H + heads - 1) / heads) * each), BLOCK, 0, y,
           x, positions, frequency, a);
}

extern "C" void qkv__cuda_embedding(qkv_kernels *k)
{
    k->embed = cuda_embed;
    k->embed_bwd = cuda_embed_bwd;
    k->rotary = cuda_rotary;
}
