/* attention.cuh - what the files of attention in f32 share: the problem as kernels see it, tiles of
 * 64 rows in shared memory, their products in registers, the dropout of weights.
 *
 * A block of 128 threads computes a product of two tiles as 64 x 64 numbers, 8 x 4 in each thread:
 * of the first tile's rows att_row() + att_step(0..7), of the second's att_column() + 16 j or, where
 * the second tile is weighed by rows, of its columns 4 att_column() + j. Channels come in chunks of
 * 64, so that one kernel serves every width. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_CUH
#define QKV_KERNEL_CUDA_ATTENTION_CUH

#include "kernel/cuda/cuda.cuh"

enum {
    ATT_TILE = 64,
    ATT_ROW = 68, /* floats from row to row of a tile: rows 8 apart start at different banks */
    ATT_CHUNK = ATT_TILE * ATT_ROW,
    ATT_CHUNK_BYTES = ATT_CHUNK * (int)sizeof(float),
    ATT_THREADS = 128,
    ATT_INLINE = 64, /* sequences that travel in the parameters of a launch */
    ATT_HELD = 2     /* chunks of a tile that stay in shared memory; wider tiles are read again */
};

struct att_sequence {
    size_t q_begin, k_begin;
    int q_len, k_len, k_full;
};

struct att_problem {
    int B, H, Hkv, D, Dv;
    int longest_q, longest_k, longest_full; /* of q_len, k_len, k_full */
    int causal, window;
    size_t q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head;
    float scale;
    const float *bias;
    ptrdiff_t bias_b, bias_h, bias_t;
    int dropout; /* of weights */
    float keep;  /* what those that are kept are multiplied by */
    uint32_t threshold, step, site, seed_low, seed_high;
    uint64_t first_row;
    const att_sequence *many; /* NULL: they are in few */
    att_sequence few[ATT_INLINE];
};

/* False when there is nothing to launch. */
bool att_problem_of(att_problem *p, const qkv_k_attention_args *a);

qkv_k_attention_fn cuda_attention;
qkv_k_attention_bwd_fn cuda_attention_bwd;
qkv_k_attention_rows_fn cuda_attention_rows;
qkv_k_attention_stored_fn cuda_attention_stored;
/* attention of few queries a sequence; false: not of this shape, and nothing was done. */
bool att_few(const qkv_exec *e, float *out, float *lse, const float *q, const float *k,
             const float *v, const att_problem &p);

/* What the kernels of the backward pass read. */
struct att_inputs {
    const float *dout, *lse, *delta, *q, *k, *v; /* delta (rows, H): <dout, out> */
    size_t do_row, do_head;
    bool wide_do, wide_q, wide_k, wide_v;
};
/* dbias += the gradient; attention_bias.cu. */
void att_bias_bwd(const qkv_exec *e, float *dbias, const att_problem &p, const att_inputs &x);

/* More shared memory than 48 KB is allowed kernel by kernel. */
#define ATT_ALLOW(kernel, bytes)                                                                   \
    do {                                                                                           \
        static size_t allowed;                                                                     \
        if (allowed < (bytes)) {                                                                   \
            cuda_note(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,    \
                                           (int)(bytes)));                                         \
            allowed = (bytes);                                                                     \
        }                                                                                          \
    } while (0)

static inline int att_chunks(int width) { return (width + ATT_TILE - 1) / ATT_TILE; }
static inline int att_held(int width)
{
    return att_chunks(width) <= ATT_HELD ? att_chunks(width) : 1;
}

/* Whether rows can be read 4 floats at a time. */
static inline bool att_wide(const void *p, size_t row, size_t head, int width)
{
    return ((uintptr_t)p % 16 | row % 4 | head % 4 | (size_t)width % 4) == 0;
}

#ifdef __CUDACC__
#define ATT_DEVICE static __device__ __forceinline__
#else
#define ATT_DEVICE static inline __attribute__((unused))
#endif

ATT_DEVICE const att_sequence &att_sequence_of(const att_problem &p, int b)
{
    return p.many ? p.many[b] : p.few[b];
}

/* Of what is not above 0: within 2^-22 of 1, which is where attention's numbers come from. */
ATT_DEVICE float att_exp(float x) { return __expf(x); }

/* Query i sees keys lo .. hi-1. */
struct att_range {
    int lo, hi;
};
ATT_DEVICE att_range att_seen(const att_problem &p, const att_sequence &s, int i)
{
    const int diagonal = i + s.k_full - s.q_len;
    att_range r = {0, i < s.q_len ? s.k_len : 0};
    if (p.causal)
        r.hi = min(r.hi, diagonal + 1);
    if (p.window)
        r.lo = max(0, diagonal - p.window + 1);
    return r;
}

ATT_DEVICE const float *att_bias(const att_problem &p, int b, int h, int i)
{
    return p.bias + (b * p.bias_b + h * p.bias_h + i * p.bias_t);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Up to 64 rows of `width` numbers in global memory, and the chunks of them in shared memory. */
struct att_side {
    const float *data;
    size_t row;
    int rows, width;
    bool wide;
    int held; /* chunks there is room for: all of them, or 1 */
    float *shared;
};

ATT_DEVICE int att_side_chunks(const att_side &t) { return (t.width + ATT_TILE - 1) / ATT_TILE; }

/* What lies beyond rows and width is 0. */
ATT_DEVICE void att_load(float *to, const att_side &t, int chunk)
{
    const float *from = t.data + chunk * ATT_TILE;
    const int columns = t.width - chunk * ATT_TILE;
#pragma unroll
    for (int n = 0; n < ATT_TILE * ATT_TILE / 4 / ATT_THREADS; n++) {
        const int at = (int)threadIdx.x + n * ATT_THREADS;
        const int r = at / (ATT_TILE / 4), c = at % (ATT_TILE / 4) * 4;
        float4 x = make_float4(0, 0, 0, 0);
        if (r < t.rows && c < columns) {
            const float *p = from + (size_t)r * t.row + c;
            if (t.wide) {
                x = *(const float4 *)p;
            } else {
                x.x = p[0];
                x.y = c + 1 < columns ? p[1] : 0;
                x.z = c + 2 < columns ? p[2] : 0;
                x.w = c + 3 < columns ? p[3] : 0;
            }
        }
        *(float4 *)(to + r * ATT_ROW + c) = x;
    }
}

/* Loads all chunks where there is room for them; a barrier follows before they are read. */
ATT_DEVICE void att_fill(const att_side &t)
{
    const int n = att_side_chunks(t);
    for (int c = 0; n <= t.held && c < n; c++)
        att_load(t.shared + c * ATT_CHUNK, t, c);
}

/* A chunk in shared memory, loaded now if there is no room for all. The whole block calls it. */
ATT_DEVICE const float *att_chunk(const att_side &t, int chunk)
{
    if (att_side_chunks(t) <= t.held)
        return t.shared + chunk * ATT_CHUNK;
    __syncthreads();
    att_load(t.shared, t, chunk);
    __syncthreads();
    return t.shared;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Rows of a thread: two groups of four neighbours. Those of a warp's halves are 4 apart, so that
 * both are read at once. */
ATT_DEVICE int att_row()
{
    const int y = (int)threadIdx.x / 16;
    return y / 2 * 16 + y % 2 * 4;
}
ATT_DEVICE constexpr int att_step(int i) { return i % 4 + i / 4 * 8; }
ATT_DEVICE int att_column() { return (int)threadIdx.x % 16; }

typedef float att_numbers[8][4];

ATT_DEVICE void att_clear(att_numbers &x)
{
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            x[i][j] = 0;
}

/* s[i][j] += <row i of a, row column + 16 j of b> over the first `width` channels. */
ATT_DEVICE void att_dots(att_numbers &s, const float *a, const float *b, int width)
{
    a += att_row() * ATT_ROW;
    b += att_column() * ATT_ROW;
#pragma unroll 1
    for (int c = 0; c < width; c += 4) {
        float4 y[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            y[j] = *(const float4 *)(b + 16 * j * ATT_ROW + c);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float4 x = *(const float4 *)(a + att_step(i) * ATT_ROW + c);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                s[i][j] += x.x * y[j].x;
                s[i][j] += x.y * y[j].y;
                s[i][j] += x.z * y[j].z;
                s[i][j] += x.w * y[j].w;
            }
        }
    }
}

/* The same over all chunks of both. The whole block calls it. */
ATT_DEVICE void att_all_dots(att_numbers &s, const att_side &a, const att_side &b)
{
    att_clear(s);
    for (int c = 0; c < att_side_chunks(a); c++) {
        const float *x = att_chunk(a, c), *y = att_chunk(b, c);
        att_dots(s, x, y, min((int)ATT_TILE, a.width - c * ATT_TILE));
    }
}

/* o[i][j] += sum over k < rows of a[row i][k] b[k][4 column + j]. */
ATT_DEVICE void att_weigh(att_numbers &o, const float *a, const float *b, int rows)
{
    a += att_row() * ATT_ROW;
    b += att_column() * 4;
#pragma unroll 1
    for (int k = 0; k < rows; k += 4) {
        float4 y[4];
#pragma unroll
        for (int n = 0; n < 4; n++)
            y[n] = *(const float4 *)(b + (k + n) * ATT_ROW);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float4 x = *(const float4 *)(a + att_step(i) * ATT_ROW + k);
            const float w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int n = 0; n < 4; n++) {
                o[i][0] += w[n] * y[n].x;
                o[i][1] += w[n] * y[n].y;
                o[i][2] += w[n] * y[n].z;
                o[i][3] += w[n] * y[n].w;
            }
        }
    }
}

/* A tile of 64 x 64 in shared memory for att_weigh: x[i][j] of columns column + 16 j. */
ATT_DEVICE void att_put(float *to, const att_numbers &x)
{
    to += att_row() * ATT_ROW + att_column();
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            to[att_step(i) * ATT_ROW + 16 * j] = x[i][j];
}

/* Where results go: up to `rows` rows of a tile, `columns` of them from this chunk on. */
struct att_target {
    float *data;
    size_t row;
    int rows, columns;
    bool wide, add;
};

/* scale times row i, columns 4 column .. + 3, if they are there. */
ATT_DEVICE void att_store_row(const att_target &t, int r, const float (&x)[4], float scale)
{
    const int c = att_column() * 4;
    if (r >= t.rows || c >= t.columns)
        return;
    float *y = t.data + (size_t)r * t.row + c;
    if (t.wide) {
        const float4 was = t.add ? *(const float4 *)y : make_float4(0, 0, 0, 0);
        *(float4 *)y = make_float4(was.x + scale * x[0], was.y + scale * x[1],
                                   was.z + scale * x[2], was.w + scale * x[3]);
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (c + j < t.columns)
            y[j] = (t.add ? y[j] : 0) + scale * x[j];
}

ATT_DEVICE void att_store(const att_target &t, const att_numbers &x, float scale)
{
    const int row = att_row();
#pragma unroll
    for (int i = 0; i < 8; i++)
        att_store_row(t, row + att_step(i), x[i], scale);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Dots become scores, of rows that are queries and columns that are keys. The bias of what a query
 * does not see is not read. */
ATT_DEVICE void att_scores(att_numbers &x, const att_problem &p, const att_sequence &s, int b,
                           int h, int i0, int j0)
{
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            x[r][c] *= p.scale;
    if (!p.bias)
        return;
#pragma unroll
    for (int r = 0; r < 8; r++) {
        const int i = i0 + att_row() + att_step(r);
        const att_range seen = att_seen(p, s, i);
        const float *bias = att_bias(p, b, h, i);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const int j = j0 + att_column() + 16 * c;
            if (j >= seen.lo && j < seen.hi)
                x[r][c] += bias[j];
        }
    }
}

/* ---- dropout of weights ------------------------------------------------------------------------ */

/* Which of the weights of keys j .. j+3 (j a multiple of 4) of one query are kept: bits 0 to 3. */
ATT_DEVICE unsigned att_kept_four(const att_problem &p, const att_sequence &s, int h, int i, int j)
{
    const uint64_t row = p.first_row + s.q_begin + (uint64_t)i;
    const uint64_t g = (((row * (uint64_t)p.H + (uint64_t)h) << 20) + (uint64_t)j) / 4;
    unsigned c0 = (unsigned)g, c1 = (unsigned)(g >> 32), c2 = p.step, c3 = p.site;
    unsigned k0 = p.seed_low, k1 = p.seed_high;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned n0 = __umulhi(0xCD9E8D57u, c2) ^ c1 ^ k0;
        const unsigned n2 = __umulhi(0xD2511F53u, c0) ^ c3 ^ k1;
        c1 = 0xCD9E8D57u * c2;
        c3 = 0xD2511F53u * c0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (unsigned)(c0 >= p.threshold) | (unsigned)(c1 >= p.threshold) << 1 |
           (unsigned)(c2 >= p.threshold) << 2 | (unsigned)(c3 >= p.threshold) << 3;
}

/* Bit 4 r + c: the weight of query i0 + row r, key j0 + column + 16 c is kept (j0 a multiple of 64).
 * Of 16 keys in four groups of neighbours, each of four lanes draws for one; whole warps call it. */
ATT_DEVICE unsigned att_kept(const att_problem &p, const att_sequence &s, int h, int i0, int j0)
{
    const int column = att_column(), mine = column % 4;
    unsigned kept = 0;
    if (!p.dropout)
        return 0xffffffffu;
#pragma unroll 1
    for (int r = 0; r < 8; r++) {
        const unsigned four = att_kept_four(p, s, h, i0 + att_row() + att_step(r),
                                            j0 + 16 * mine + column - mine);
#pragma unroll
        for (int c = 0; c < 4; c++)
            kept |= (__shfl_sync(0xffffffffu, four, c, 4) >> mine & 1) << (4 * r + c);
    }
    return kept;
}

/* Sum and largest over the 16 lanes that share rows. */
ATT_DEVICE float att_row_sum(float x)
{
    for (int d = 8; d > 0; d /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
ATT_DEVICE float att_row_max(float x)
{
    for (int d = 8; d > 0; d /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

#endif
