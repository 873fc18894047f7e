/* sort_ids.cu - a stable sort of indices, by one digit after another, from the lowest. In each pass
 * blocks count the digits of their tiles, one block adds up the counts, and all indices go to their
 * places. */
#include "kernel/cuda/sort_ids.cuh"

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, SORT_WARPS = 8, SORT_EACH = 4, PASSES = 4 };
enum { SORT_THREADS = SORT_WARPS * WARP, TILE = SORT_THREADS * SORT_EACH, SCAN_THREADS = 1024 };

typedef struct {
    const int32_t *id, *row; /* row NULL: 0, 1, 2, ... */
} sort_from;

typedef struct {
    int32_t *id, *row;
} sort_to;

/* The sum of x over the threads before this one. partial: WARP numbers of shared memory. */
static __device__ unsigned block_before(unsigned x, unsigned *partial)
{
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    unsigned sum = x;
    for (unsigned d = 1; d < WARP; d *= 2) {
        unsigned y = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? y : 0;
    }
    if (lane == WARP - 1)
        partial[warp] = sum;
    __syncthreads();
    unsigned before = 0;
    for (unsigned w = 0; w < warps; w++)
        before += w < warp ? partial[w] : 0;
    __syncthreads();
    return before + sum - x;
}

/* counts (DIGITS, tiles) of one pass. used starts as 0; the first pass gathers the bits of all ids
 * of more than two digits in it; the last two passes have nothing to do where there are none. */
static __global__ void sort_count(unsigned *counts, unsigned *used, const int32_t *id, size_t N,
                                  size_t tiles, int pass)
{
    __shared__ unsigned count[DIGITS], bits;
    if (pass >= 2 && *used >> 2 * DIGIT_BITS == 0)
        return;
    count[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        bits = 0;
    __syncthreads();
    for (unsigned r = 0; r < SORT_EACH; r++) {
        const size_t i = (size_t)blockIdx.x * TILE + r * SORT_THREADS + threadIdx.x;
        if (i < N) {
            const unsigned x = (unsigned)id[i];
            atomicAdd(&count[x >> pass * DIGIT_BITS & (DIGITS - 1)], 1u);
            if (pass == 0 && x >> 2 * DIGIT_BITS)
                atomicOr(&bits, x);
        }
    }
    __syncthreads();
    counts[threadIdx.x * tiles + blockIdx.x] = count[threadIdx.x];
    if (threadIdx.x == 0 && bits)
        atomicOr(used, bits);
}

/* counts become the numbers of ids that come before: one block. */
static __global__ void __launch_bounds__(SCAN_THREADS)
sort_scan(unsigned *counts, const unsigned *used, size_t n, int pass)
{
    __shared__ unsigned partial[WARP];
    if (pass >= 2 && *used >> 2 * DIGIT_BITS == 0)
        return;
    const size_t each = (n + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    const size_t end = first + each < n ? first + each : n;
    unsigned sum = 0;
    for (size_t i = first; i < end; i++)
        sum += counts[i];
    unsigned before = block_before(sum, partial);
    for (size_t i = first; i < end; i++) {
        const unsigned count = counts[i];
        counts[i] = before;
        before += count;
    }
}

/* Lanes with this one's digit; DIGITS: of a lane that has no number. */
static __device__ __forceinline__ unsigned same_digit(unsigned digit)
{
    unsigned same = 0xffffffffu;
    for (int b = 0; b <= DIGIT_BITS; b++) {
        const unsigned with = __ballot_sync(0xffffffffu, (int)(digit >> b & 1));
        same &= digit >> b & 1 ? with : ~with;
    }
    return same;
}

/* One tile to its places. before (DIGITS, tiles) as sort_scan leaves it; NULL: there is one tile.
 * Each warp ranks its ids by itself, in their order; then the warps' counts are added up. */
static __device__ void sort_tile(sort_to to, sort_from from, const unsigned *before, size_t N,
                                 size_t tiles, int pass)
{
    __shared__ unsigned place[SORT_WARPS][DIGITS], partial[WARP];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t first = (size_t)blockIdx.x * TILE + warp * SORT_EACH * WARP + lane;
    unsigned digit[SORT_EACH], rank[SORT_EACH];
    for (unsigned w = 0; w < SORT_WARPS; w++)
        place[w][threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < SORT_EACH; r++) {
        const size_t i = first + (size_t)r * WARP;
        digit[r] = i < N ? (unsigned)from.id[i] >> pass * DIGIT_BITS & (DIGITS - 1)
                         : (unsigned)DIGITS;
        const unsigned same = same_digit(digit[r]), below = same & ((1u << lane) - 1);
        const unsigned was = i < N ? place[warp][digit[r]] : 0;
        rank[r] = was + (unsigned)__popc(below);
        __syncwarp();
        if (i < N && below == 0)
            place[warp][digit[r]] = was + (unsigned)__popc(same);
        __syncwarp();
    }
    __syncthreads();
    unsigned total = 0;
    for (unsigned w = 0; w < SORT_WARPS; w++)
        total += place[w][threadIdx.x];
    unsigned next = before ? before[threadIdx.x * tiles + blockIdx.x]
                           : block_before(total, partial);
    for (unsigned w = 0; w < SORT_WARPS; w++) {
        const unsigned count = place[w][threadIdx.x];
        place[w][threadIdx.x] = next;
        next += count;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < SORT_EACH; r++) {
        const size_t i = first + (size_t)r * WARP;
        if (i < N) {
            const size_t at = (size_t)place[warp][digit[r]] + rank[r];
            to.id[at] = from.id[i];
            to.row[at] = from.row ? from.row[i] : (int32_t)i;
        }
    }
    __syncthreads();
}

static __global__ void sort_scatter(sort_to to, sort_from from, const unsigned *before,
                                    const unsigned *used, size_t N, size_t tiles, int pass)
{
    if (pass < 2 || *used >> 2 * DIGIT_BITS)
        sort_tile(to, from, before, N, tiles, pass);
}

/* All passes of a single tile. */
static __global__ void sort_one_tile(sort_to to, sort_to other, const int32_t *ids, size_t N)
{
    for (int pass = 0; pass < PASSES; pass++) {
        const sort_to target = pass % 2 ? to : other, last = pass % 2 ? other : to;
        const sort_from from = {pass ? last.id : ids, pass ? last.row : NULL};
        sort_tile(target, from, NULL, N, 1, pass);
    }
}

static size_t sort_tiles(size_t N) { return (N + TILE - 1) / TILE; }

size_t sort_ids_words(size_t N) { return 2 * N + DIGITS * sort_tiles(N) + 1; }

void cuda_sort_ids(int32_t *sorted, int32_t *rows, int32_t *scratch, const int32_t *ids, size_t N)
{
    const size_t tiles = sort_tiles(N);
    const sort_to to = {sorted, rows}, other = {scratch, scratch + N};
    unsigned *counts = (unsigned *)(scratch + 2 * N), *used = counts + DIGITS * tiles;
    if (tiles == 1) {
        LAUNCH(sort_one_tile, 1, SORT_THREADS, 0, to, other, ids, N);
        return;
    }
    cuda_note(cudaMemsetAsync(used, 0, sizeof *used, cuda_stream()));
    for (int pass = 0; pass < PASSES; pass++) {
        const sort_to target = pass % 2 ? to : other, last = pass % 2 ? other : to;
        const sort_from from = {pass ? last.id : ids, pass ? last.row : NULL};
        LAUNCH(sort_count, (unsigned)tiles, SORT_THREADS, 0, counts, used, from.id, N, tiles, pass);
        LAUNCH(sort_scan, 1, SCAN_THREADS, 0, counts, used, DIGITS * tiles, pass);
        LAUNCH(sort_scatter, (unsigned)tiles, SORT_THREADS, 0, target, from, counts, used, N, tiles,
               pass);
    }
}
