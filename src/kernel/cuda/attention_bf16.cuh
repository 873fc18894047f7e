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

/* Numbers at x + row * row stride + head * head stride, f32 or bf16; wide: by 16 aligned bytes. */
typedef struct {
    const void *x;
    size_t row, head;
    int width;
    bool bf16, wide;
} rows_in;

static inline rows_in rows_of(const void *x, size_t row, size_t head, size_t width, bool bf16)
{
    const size_t whole = bf16 ? 8 : 4;
    return {x, row, head, (int)width, bf16,
            (uintptr_t)x % 16 == 0 && row % whole == 0 && head % whole == 0};
}

/* bf16 that is copied by 16 aligned bytes, from tensors or from scratch memory (packed: rows count
 * from q_at and k_at). Columns from width, a multiple of 8, on are 0. */
typedef struct {
    const bf16 *x;
    size_t row, head;
    int width;
    bool packed;
} operand;

/* Rows that a kernel writes, f32 or bf16; pairs: by pairs of numbers. acc: they are added to. x
 * NULL: not wanted. */
typedef struct {
    void *x;
    size_t row, head;
    bool bf16, pairs, acc;
} rows_out;

static inline rows_out rows_to(void *x, size_t row, size_t head, bool bf16, bool acc)
{
    return {x, row, head, bf16,
            (uintptr_t)x % (bf16 ? 4 : 8) == 0 && row % 2 == 0 && head % 2 == 0, acc};
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

/* Operands that tensors do not have as kernels read them, on their way to scratch memory. */
enum { PACKS = 4 };
typedef struct {
    rows_in from;
    bf16 *to; /* (rows, heads, D) */
    int heads;
    bool keys;
} pack_job;
typedef struct {
    const sequence *sequences;
    int D, jobs;
    unsigned blocks; /* of a sequence */
    pack_job job[PACKS];
} packing;
/* x as kernels read it: as it lies, or by a further job; false without memory. */
bool attention_operand(operand *o, packing *p, const qkv_exec *e, const attention_sizes &n,
                       const rows_in &x, size_t heads, bool keys);
void attention_pack(packing *p, const attention_sizes &n, size_t B);

/* The kernels of f32, of arguments of which any are bf16 (e->bf16). */
void attention_plain(qkv_k_attention_fn *f32, const qkv_exec *e, qkv_real *out, qkv_real *lse,
                     const qkv_real *q, const qkv_real *k, const qkv_real *v,
                     const attention_args *a);
void attention_plain_bwd(qkv_k_attention_bwd_fn *f32, const qkv_exec *e, qkv_real *dq,
                         qkv_real *dk, qkv_real *dv, qkv_real *dbias, const qkv_real *dout,
                         const qkv_real *out, const qkv_real *lse, const qkv_real *q,
                         const qkv_real *k, const qkv_real *v, const attention_args *a,
                         const qkv_k_attention_bwd_args *w);
static inline bool in_bf16(const qkv_exec *e, int parameter) { return e->bf16 >> parameter & 1; }
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

static __device__ __forceinline__ float low_half(unsigned two)
{
    return __uint_as_float(two << 16);
}
static __device__ __forceinline__ float high_half(unsigned two)
{
    return __uint_as_float(two & 0xffff0000u);
}
static __device__ __forceinline__ void widen_eight(float (&y)[8], const uint4 &words)
{
    y[0] = low_half(words.x), y[1] = high_half(words.x);
    y[2] = low_half(words.y), y[3] = high_half(words.y);
    y[4] = low_half(words.z), y[5] = high_half(words.z);
    y[6] = low_half(words.w), y[7] = high_half(words.w);
}

/* Numbers column .. column + 7 of a row and a head, 0 from the width on. */
static __device__ __forceinline__ void load_eight(float (&y)[8], const rows_in &from, size_t row,
                                                  int head, int column)
{
    const size_t at = row * from.row + (size_t)head * from.head + (size_t)column;
    const bool all = from.wide && column + 8 <= from.width;
    if (from.bf16) {
        const bf16 *x = (const bf16 *)from.x + at;
        if (all) {
            widen_eight(y, *(const uint4 *)x);
            return;
        }
#pragma unroll
        for (int c = 0; c < 8; c++)
            y[c] = column + c < from.width ? __bfloat162float(x[c]) : 0;
        return;
    }
    const float *x = (const float *)from.x + at;
    if (all) {
        const float4 a = *(const float4 *)x, b = *(const float4 *)(x + 4);
        y[0] = a.x, y[1] = a.y, y[2] = a.z, y[3] = a.w;
        y[4] = b.x, y[5] = b.y, y[6] = b.z, y[7] = b.w;
        return;
    }
#pragma unroll
    for (int c = 0; c < 8; c++)
        y[c] = column + c < from.width ? x[c] : 0;
}

static __device__ __forceinline__ uint4 round_eight(const float (&x)[8])
{
    return make_uint4(bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]),
                      bf16_pair(x[6], x[7]));
}

/* Row i of a sequence's queries, or of its keys, as the operand counts them. */
static __device__ __forceinline__ size_t query_row(const operand &o, const sequence &q, int i)
{
    return (o.packed ? q.q_at : q.q_begin) + (size_t)i;
}
static __device__ __forceinline__ size_t key_row(const operand &o, const sequence &q, int j)
{
    return (o.packed ? q.k_at : q.k_begin) + (size_t)j;
}

/* tile (ROWS, D; row stride D + ATTENTION_GAP) = rows row .. of a head, begun; 0 from `rows` on. */
template <int D, int ROWS>
static __device__ __forceinline__ void begin_copy(bf16 *tile, const operand &from, size_t row,
                                                  int head, int rows)
{
    const bf16 *x = from.x + row * from.row + (size_t)head * from.head;
#pragma unroll
    for (int n = 0; n < ROWS * D / 8 / ATTENTION_THREADS; n++) {
        const int item = n * ATTENTION_THREADS + (int)threadIdx.x;
        const int r = item / (D / 8), column = item % (D / 8) * 8;
        copy_async_16(tile + r * (D + ATTENTION_GAP) + column, x + (size_t)r * from.row + column,
                      r < rows && column < from.width);
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

/* Likewise at number `at` of rows that are f32 or bf16. */
static __device__ __forceinline__ float2 load_pair_of(const rows_out &g, size_t at, int column,
                                                      int width, bool whole)
{
    if (!g.bf16)
        return load_pair((const float *)g.x + at, column, width, whole);
    const bf16 *x = (const bf16 *)g.x + at;
    if (whole) {
        const unsigned two = *(const unsigned *)(x + column);
        return make_float2(low_half(two), high_half(two));
    }
    return make_float2(column < width ? __bfloat162float(x[column]) : 0,
                       column + 1 < width ? __bfloat162float(x[column + 1]) : 0);
}

static __device__ __forceinline__ void store_pair_of(const rows_out &g, size_t at, float a,
                                                     float b, int column, int width, bool whole)
{
    if (!g.bf16) {
        store_pair((float *)g.x + at, a, b, column, width, whole);
        return;
    }
    bf16 *y = (bf16 *)g.x + at;
    if (whole) {
        *(unsigned *)(y + column) = bf16_pair(a, b);
        return;
    }
    if (column < width)
        y[column] = __float2bfloat16_rn(a);
    if (column + 1 < width)
        y[column + 1] = __float2bfloat16_rn(b);
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
