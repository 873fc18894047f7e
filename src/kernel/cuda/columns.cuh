/* columns.cuh - sums over rows for every column, and maps with numbers of their own for every
 * column: what bias gradients, batch norm, group norm and the parameters of norms are made of.
 *
 * Arrays are (images, N, C). A block of BLOCK threads has 4 L neighbouring columns and a chunk of
 * the rows of one image; L threads side by side have four columns each, and BLOCK / L rows are in
 * work at a time. The sums of chunks go to scratch, and the last block of a tile of columns adds
 * them, in an order that sizes alone decide. */
#ifndef QKV_KERNEL_CUDA_COLUMNS_CUH
#define QKV_KERNEL_CUDA_COLUMNS_CUH

#include "kernel/cuda/rows.cuh"

enum { COLUMNS_BLOCKS = 1056, COLUMNS_ROWS = 16 }; /* blocks to aim at; rows of a thread at least */

typedef struct {
    size_t N, C, chunks, rows; /* rows of a chunk */
    unsigned L, tiles, blocks;
} columns_plan;

static inline columns_plan columns_plan_of(size_t images, size_t N, size_t C)
{
    columns_plan p;
    p.N = N;
    p.C = C;
    for (p.L = 1; p.L < WARP && 4 * p.L < C;)
        p.L *= 2;
    p.tiles = (unsigned)((C + 4 * p.L - 1) / (4 * p.L));
    size_t least = BLOCK / p.L * COLUMNS_ROWS, most = (N + least - 1) / least;
    p.chunks = (COLUMNS_BLOCKS + p.tiles * images - 1) / (p.tiles * images);
    p.chunks = p.chunks > most ? most : p.chunks;
    p.chunks = p.chunks < 1 ? 1 : p.chunks;
    p.rows = (N + p.chunks - 1) / p.chunks;
    p.blocks = (unsigned)(p.tiles * p.chunks * images);
    return p;
}

/* Where a thread is. Its columns are c, c + step, c + 2 step, c + 3 step: neighbours that one load
 * of 16 bytes brings, or columns L apart. */
typedef struct {
    size_t image, part, row, end, c; /* part: image * chunks + chunk; rows row, row + rows .. end */
    unsigned rows, step;
} column_place;

template <bool QUADS> static __device__ __forceinline__ column_place column_place_of(columns_plan p)
{
    column_place at;
    const unsigned tile = blockIdx.x % p.tiles, part = blockIdx.x / p.tiles;
    const unsigned chunks = (unsigned)p.chunks;
    const size_t first = part % chunks * p.rows, end = first + p.rows;
    at.part = part;
    at.image = part / chunks;
    at.row = first + threadIdx.x / p.L;
    at.end = end < p.N ? end : p.N;
    at.c = (size_t)tile * 4 * p.L + threadIdx.x % p.L * (QUADS ? 4 : 1);
    at.rows = blockDim.x / p.L;
    at.step = QUADS ? 1 : p.L;
    return at;
}

/* The four numbers of a row that belong to a thread; 0 beyond the last column. */
template <bool QUADS, typename T>
static __device__ __forceinline__ float4 load_columns(const T *row, column_place at, size_t C)
{
    if (QUADS)
        return at.c < C ? load_quad(row + at.c) : make_float4(0, 0, 0, 0);
    const size_t c = at.c, s = at.step;
    return make_float4(c < C ? load_one(row + c) : 0, c + s < C ? load_one(row + c + s) : 0,
                       c + 2 * s < C ? load_one(row + c + 2 * s) : 0,
                       c + 3 * s < C ? load_one(row + c + 3 * s) : 0);
}

template <bool QUADS, typename T>
static __device__ __forceinline__ void store_columns(T *row, column_place at, size_t C, float4 v)
{
    if (QUADS) {
        if (at.c < C)
            store_quad(row + at.c, v);
        return;
    }
    const size_t c = at.c, s = at.step;
    if (c < C)
        store_one(row + c, v.x);
    if (c + s < C)
        store_one(row + c + s, v.y);
    if (c + 2 * s < C)
        store_one(row + c + 2 * s, v.z);
    if (c + 3 * s < C)
        store_one(row + c + 3 * s, v.w);
}

static __device__ __forceinline__ float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* a b + c. */
static __device__ __forceinline__ float4 fma4(float4 a, float4 b, float4 c)
{
    return make_float4(a.x * b.x + c.x, a.y * b.y + c.y, a.z * b.z + c.z, a.w * b.w + c.w);
}

static __device__ __forceinline__ float4 minus4(float4 a, float4 b)
{
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}

/* What sums become in the end: y[s] (C) = [y[s] +] sum s; NULL: not wanted. */
typedef struct {
    float *y[2];
    bool acc[2];
} columns_out;

static __device__ __forceinline__ void column_out(columns_out out, int s, size_t c, float sum)
{
    float *y = s ? out.y[1] : out.y[0];
    if (y)
        y[c] = (s ? out.acc[1] : out.acc[0]) ? y[c] + sum : sum;
}

/* Of each tile, the blocks that have written their sums. 0 between launches, of which one runs at a
 * time. */
static __device__ unsigned columns_arrived[COLUMNS_BLOCKS];

/* Is this block the last one of `blocks` to come here? It sees what they wrote before. *arrived is
 * how many have come, and 0 when all have. */
static __device__ __forceinline__ bool block_is_last(unsigned *arrived, unsigned blocks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1u) == blocks - 1;
        if (last)
            *arrived = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

enum { COLUMNS_GROUPS = BLOCK / WARP, COLUMNS_TILE = 4 * WARP };

/* out = the sum over parts of partial (parts, SUMS, C), in columns first .. first + wide - 1, of
 * which there are at most COLUMNS_TILE. The parts' sums are added group by group: a warp has every
 * COLUMNS_GROUPS-th part. shared: 4 * BLOCK numbers. Loops that are not unrolled take no registers
 * from those over rows. */
template <int SUMS>
static __device__ void columns_add_parts(columns_out out, const float *partial, size_t parts,
                                         size_t C, size_t first, unsigned wide, float *shared)
{
    enum { PARTS = 2 }; /* at a time */
    const unsigned lane = threadIdx.x % WARP, group = threadIdx.x / WARP, x = threadIdx.x;
#pragma unroll 1
    for (int s = 0; s < SUMS; s++) {
        const float *from = partial + (size_t)s * C + first;
        float sum[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (size_t i = group; i < parts; i += PARTS * COLUMNS_GROUPS) {
            float v[PARTS][4];
#pragma unroll
            for (int k = 0; k < PARTS; k++)
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    const size_t part = i + (size_t)k * COLUMNS_GROUPS;
                    const unsigned c = lane + (unsigned)q * WARP;
                    const bool there = part < parts && c < wide && first + c < C;
                    v[k][q] = there ? from[part * SUMS * C + c] : 0;
                }
#pragma unroll
            for (int k = 0; k < PARTS; k++)
#pragma unroll
                for (int q = 0; q < 4; q++)
                    sum[q] += v[k][q];
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 4; q++)
            shared[group * COLUMNS_TILE + (unsigned)q * WARP + lane] = sum[q];
        __syncthreads();
        float total = x < COLUMNS_TILE ? shared[x] : 0;
        for (unsigned g = 1; g < COLUMNS_GROUPS && x < COLUMNS_TILE; g++)
            total += shared[g * COLUMNS_TILE + x];
        if (x < wide && first + x < C)
            column_out(out, s, first + x, total);
    }
}

/* partial (parts, F::SUMS, C), which becomes out if anything is wanted of that, or out at once
 * where there is one part and partial is NULL. F is what to sum: begin<QUADS>(at, C) gets numbers
 * of columns, fetch<QUADS>(at, row, C) an item, which is what a row has to be read, add(sum, item)
 * adds it. */
template <typename F, bool QUADS>
__global__ void __launch_bounds__(BLOCK) columns_kernel(F f, columns_out out, float *partial,
                                                        columns_plan p)
{
    __shared__ float shared[4 * BLOCK * F::SUMS];
    const column_place at = column_place_of<QUADS>(p);
    const unsigned wide = 4 * p.L, x = threadIdx.x % p.L, group = threadIdx.x / p.L;
    float4 sum[F::SUMS];
    for (int s = 0; s < F::SUMS; s++)
        sum[s] = make_float4(0, 0, 0, 0);
    f.template begin<QUADS>(at, p.C);
    size_t row = at.row;
    for (; row + (AHEAD - 1) * at.rows < at.end; row += AHEAD * at.rows) {
        typename F::item v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            v[i] = f.template fetch<QUADS>(at, row + (size_t)i * at.rows, p.C);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            f.add(sum, v[i]);
    }
    for (; row < at.end; row += at.rows)
        f.add(sum, f.template fetch<QUADS>(at, row, p.C));
    for (int s = 0; s < F::SUMS; s++) {
        float *mine = shared + (group * F::SUMS + s) * wide + x * (QUADS ? 4 : 1);
        mine[0] = sum[s].x;
        mine[at.step] = sum[s].y;
        mine[2 * at.step] = sum[s].z;
        mine[3 * at.step] = sum[s].w;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < wide * F::SUMS; i += BLOCK) {
        size_t c = blockIdx.x % p.tiles * wide + i % wide;
        float total = 0;
        for (unsigned g = 0; g < at.rows; g++)
            total += shared[g * F::SUMS * wide + i];
        if (c < p.C && partial)
            partial[(at.part * F::SUMS + i / wide) * p.C + c] = total;
        else if (c < p.C)
            column_out(out, (int)(i / wide), c, total);
    }
    if (!partial || !(out.y[0] || out.y[1]))
        return;
    const unsigned tile = blockIdx.x % p.tiles, parts = gridDim.x / p.tiles;
    if (block_is_last(&columns_arrived[tile], parts))
        columns_add_parts<F::SUMS>(out, partial, parts, p.C, (size_t)tile * wide, wide, shared);
}

/* At most COLUMNS_BLOCKS tiles where parts become out. */
template <typename F>
static void columns_launch(F f, columns_out out, float *partial, columns_plan p, bool quads)
{
    if (quads)
        LAUNCH((columns_kernel<F, true>), p.blocks, BLOCK, 0, f, out, partial, p);
    else
        LAUNCH((columns_kernel<F, false>), p.blocks, BLOCK, 0, f, out, partial, p);
}

/* out = the sums over N rows; C > 0. */
template <typename F>
static void columns_sums(const qkv_exec *e, F f, columns_out out, size_t N, size_t C, bool quads)
{
    const columns_plan p = columns_plan_of(1, N, C);
    if (p.chunks == 1) {
        columns_launch(f, out, NULL, p, quads);
        return;
    }
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *partial =
        (float *)qkv__arena_alloc(e->scratch, p.chunks * F::SUMS * C * sizeof *partial);
    if (partial)
        columns_launch(f, out, partial, p, quads);
    qkv__arena_release(e->scratch, mark);
}

/* F: begin and fetch as above; store<QUADS>(at, row, C, item) writes what becomes of a row. */
template <typename F, bool QUADS>
__global__ void __launch_bounds__(BLOCK) columns_map_kernel(F f, columns_plan p)
{
    const column_place at = column_place_of<QUADS>(p);
    f.template begin<QUADS>(at, p.C);
    size_t row = at.row;
    for (; row + at.rows < at.end; row += 2 * at.rows) {
        const typename F::item v = f.template fetch<QUADS>(at, row, p.C);
        const typename F::item w = f.template fetch<QUADS>(at, row + at.rows, p.C);
        f.template store<QUADS>(at, row, p.C, v);
        f.template store<QUADS>(at, row + at.rows, p.C, w);
    }
    if (row < at.end)
        f.template store<QUADS>(at, row, p.C, f.template fetch<QUADS>(at, row, p.C));
}

template <typename F>
static void columns_map(F f, size_t images, size_t N, size_t C, bool quads)
{
    const columns_plan p = columns_plan_of(images, N, C);
    if (quads)
        LAUNCH((columns_map_kernel<F, true>), p.blocks, BLOCK, 0, f, p);
    else
        LAUNCH((columns_map_kernel<F, false>), p.blocks, BLOCK, 0, f, p);
}

#endif
