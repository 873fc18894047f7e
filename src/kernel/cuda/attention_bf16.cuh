/* attention_bf16.cuh - what attention on tensor cores shares between its forward and its backward
 * pass: sequences as the card sees them, operands in bf16 in scratch memory, rows rounded into
 * shared memory, dropout.
 *
 * Operands are rounded to bf16 to nearest, ties to even; scores, softmax and sums are in f32. Heads
 * are computed as if they had D = 32, 64, 96 or 128 channels; those that they lack are 0. */
#ifndef QKV_KERNEL_CUDA_ATTENTION_BF16_CUH
#define QKV_KERNEL_CUDA_ATTENTION_BF16_CUH

#include "kernel/cuda/mma.cuh"

typedef qkv_k_attention_args attention_args;

enum { ATTENTION_WARPS = 4, ATTENTION_THREADS = ATTENTION_WARPS * WARP, ATTENTION_GAP = 8,
       PACK_ROWS = 16 }; /* rows that a block rounds to scratch memory */

/* One sequence. Query i sees key j when j < keys, and, if causal, j <= i + ahead. */
typedef struct {
    size_t q_begin, k_begin; /* rows of the tensors */
    size_t q_at, k_at;       /* rows of what is in scratch memory */
    int queries, keys, keys_full, ahead;
} sequence;

/* Scores are counted in units of 1 / log2(e): weights are powers of two. */
typedef struct {
    const sequence *sequences;
    int H, Hkv, D, Dv, window; /* window: INT_MAX for none */
    bool causal;
    float scale, scale2; /* scale2: scale log2(e) */
    /* of dropout */
    uint64_t first;
    uint32_t key[2], step, id, threshold;
    float kept; /* 1 / (1 - p); 1 without dropout */
} attention_shape;

/* f32 numbers at x + row * row stride + head * head stride; quads: by 16 aligned bytes. */
typedef struct {
    const float *x;
    size_t row, head;
    int width;
    bool quads;
} rows_f32;

static inline rows_f32 rows_of(const float *x, size_t row, size_t head, size_t width)
{
    return {x, row, head, (int)width, (uintptr_t)x % 16 == 0 && row % 4 == 0 && head % 4 == 0};
}

static inline bool in_pairs(const float *x, size_t row, size_t head)
{
    return (uintptr_t)x % 8 == 0 && row % 2 == 0 && head % 2 == 0;
}

/* ---- on the host ----------------------------------------------------------------------------- */

/* The largest of queries, of keys and of keys_full, and the sums of the first two. */
typedef struct {
    size_t longest_q, longest_k, longest_full, rows_q, rows_k;
} attention_sizes;
enum { LEAST = 16 }; /* channels, and queries and keys of the longest sequence */
/* False where no kernel of these serves; where one does, the sequences are on their way to the
 * card. */
bool attention_bf16_shape(attention_shape *s, attention_sizes *n, const attention_args *a);
void cuda_attention_bf16_backward(qkv_kernels *k); /* enters it */
/* The channels that heads are computed with. */
static inline int attention_channels(const attention_args *a)
{
    size_t D = a->D > a->Dv ? a->D : a->Dv;
    return (int)((D + 31) / 32 * 32);
}

/* ---- on the card ----------------------------------------------------------------------------- */

/* Keys that queries first .. last of a sequence see between them: from .. to - 1. */
typedef struct {
    int from, to;
} span;

static __device__ __forceinline__ span keys_seen(const attention_shape &s, const sequence &q,
                                                 int first, int last)
{
    span x = {0, q.keys};
    if (s.causal) {
        x.to = max(0, min(q.keys, last + q.ahead + 1));
        x.from = max(0, first + q.ahead - s.window + 1);
    }
    return x;
}

/* The same in every lane, as the compiler can see: what depends on it alone does not diverge. */
static __device__ __forceinline__ int warp_index(void)
{
    return __shfl_sync(0xffffffffu, (int)threadIdx.x / WARP, 0);
}

/* Numbers column .. column + 7 of a row, 0 from width on. */
static __device__ __forceinline__ void load_eight(float (&y)[8], const float *row, int column,
                                                  int width, bool quads)
{
    if (quads && column + 8 <= width) {
        const float4 a = *(const float4 *)(row + column), b = *(const float4 *)(row + column + 4);
        y[0] = a.x, y[1] = a.y, y[2] = a.z, y[3] = a.w;
        y[4] = b.x, y[5] = b.y, y[6] = b.z, y[7] = b.w;
        return;
    }
#pragma unroll
    for (int c = 0; c < 8; c++)
        y[c] = column + c < width ? row[column + c] : 0;
}

static __device__ __forceinline__ uint4 round_eight(const float (&x)[8])
{
    return make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]),
                      bf16_pair(x[6], x[7]));
}

/* The thread's items first .. first + n - 1 of load_rounded: all are asked for before one is
 * waited for. */
template <int D, bool WHOLE, int n>
static __device__ __forceinline__ void load_rounded_items(bf16 *tile, const rows_f32 &from,
                                                          const float *x, int rows, int first)
{
    float y[n][8];
#pragma unroll
    for (int k = 0; k < n; k++) {
        const int item = (first + k) * ATTENTION_THREADS + (int)threadIdx.x, r = item / (D / 8);
#pragma unroll
        for (int c = 0; c < 8; c++)
            y[k][c] = 0;
        if (r < rows)
            load_eight(y[k], x + (size_t)r * from.row, item % (D / 8) * 8, WHOLE ? D : from.width,
                       WHOLE || from.quads);
    }
#pragma unroll
    for (int k = 0; k < n; k++) {
        const int item = (first + k) * ATTENTION_THREADS + (int)threadIdx.x;
        *(uint4 *)(tile + item / (D / 8) * (D + ATTENTION_GAP) + item % (D / 8) * 8) =
            round_eight(y[k]);
    }
}

/* tile (ROWS, D; row stride D + ATTENTION_GAP) = rows row .. of a head; 0 from `rows` on. */
template <int D, int ROWS>
static __device__ __forceinline__ void load_rounded(bf16 *tile, const rows_f32 &from, size_t row,
                                                    int head, int rows)
{
    enum { ITEMS = ROWS * D / 8 / ATTENTION_THREADS, AT_ONCE = ITEMS % 4 ? 2 : 4 };
    static_assert(ITEMS % AT_ONCE == 0, "whole batches of items");
    const float *x = from.x + row * from.row + (size_t)head * from.head;
    if (from.quads && from.width == D) {
#pragma unroll
        for (int n = 0; n < ITEMS; n += AT_ONCE)
            load_rounded_items<D, true, AT_ONCE>(tile, from, x, rows, n);
        return;
    }
#pragma unroll 1
    for (int n = 0; n < ITEMS; n++)
        load_rounded_items<D, false, 1>(tile, from, x, rows, n);
}

/* Likewise, begun, of what is in bf16 already: (rows, heads, D) without gaps. */
template <int D, int ROWS>
static __device__ __forceinline__ void begin_copy(bf16 *tile, const bf16 *from, size_t row,
                                                  int head, int heads, int rows)
{
    const bf16 *x = from + (row * (size_t)heads + (size_t)head) * D;
#pragma unroll
    for (int n = 0; n < ROWS * D / 8 / ATTENTION_THREADS; n++) {
        const int item = n * ATTENTION_THREADS + (int)threadIdx.x;
        const int r = item / (D / 8), column = item % (D / 8) * 8;
        copy_async_16(tile + r * (D + ATTENTION_GAP) + column, x + r * heads * D + column,
                      r < rows);
    }
}

/* Numbers column and column + 1 of a row of `width`, and back; whole: there are both, aligned. */
static __device__ __forceinline__ float2 load_pair(const float *x, int column, int width,
                                                   bool whole)
{
    if (whole)
        return *(const float2 *)(x + column);
    return make_float2(column < width ? x[column] : 0, column + 1 < width ? x[column + 1] : 0);
}

static __device__ __forceinline__ void store_pair(float *y, float a, float b, int column, int width,
                                                  bool whole)
{
    if (whole) {
        *(float2 *)(y + column) = make_float2(a, b);
        return;
    }
    if (column < width)
        y[column] = a;
    if (column + 1 < width)
        y[column + 1] = b;
}

/* Where a lane's row lies of the four matrices that are 16 rows and 16 columns at (row, column):
 * above one another first, or beside one another first. */
template <int D>
static __device__ __forceinline__ const bf16 *above_first(const bf16 *tile, int row, int column)
{
    const int lane = (int)threadIdx.x % WARP;
    return tile + (row + lane % 16) * (D + ATTENTION_GAP) + column + lane / 16 * 8;
}

template <int D>
static __device__ __forceinline__ const bf16 *beside_first(const bf16 *tile, int row, int column)
{
    const int lane = (int)threadIdx.x % WARP;
    row += lane / 16 * 8 + lane % 8;
    return tile + row * (D + ATTENTION_GAP) + column + lane / 8 % 2 * 8;
}

/* Bits 0 .. 3: which of the weights of keys j .. j + 3 stay, j a multiple of 4. */
static __device__ __forceinline__ unsigned weights_kept(const attention_shape &s, uint64_t row,
                                                        int h, int j)
{
    const uint64_t counter =
        (((s.first + row) * (uint64_t)s.H + (uint64_t)h) << 18) + (unsigned)j / 4;
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = s.step, c3 = s.id;
    uint32_t k0 = s.key[0], k1 = s.key[1];
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (unsigned)(c0 >= s.threshold) | (unsigned)(c1 >= s.threshold) << 1 |
           (unsigned)(c2 >= s.threshold) << 2 | (unsigned)(c3 >= s.threshold) << 3;
}

#endif
