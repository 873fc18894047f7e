/* top.cu - the k largest of a row of logits, and the nearest code.
 *
 * A block has a row. It lists the columns that are not below a threshold and sorts the list. The
 * threshold is the k-th largest of the threads' own largest numbers; where the list has no room for
 * that many, or k is larger than the block, bisection finds another. */
#include "kernel/cuda/list.cuh"
#include "kernel/cuda/rows.cuh"
#include "kernel/cuda/top_best.cuh"

enum { TOP_THREADS = 1024, TOP_LIST = 2048 }; /* columns that shared memory has room for */

/* A column: its number in the order of integers, then its complement, so that of equals the lower
 * column comes first. 0: none. */
typedef unsigned long long top_key;

static __device__ __forceinline__ top_key key_of(float x, unsigned column)
{
    const unsigned u = __float_as_uint(x == 0 ? 0.0f : x); /* -0 is 0 */
    const unsigned order = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (top_key)order << 32 | (0xffffffffu - column);
}

static __device__ __forceinline__ size_t column_of(top_key key)
{
    return 0xffffffffu - (unsigned)key;
}

typedef struct {
    float *value;
    int32_t *id;
    const float *x;
    const int32_t *banned;
    top_key *lists; /* (N, room): in place of shared memory; or NULL */
    size_t N, V, k, bans, room; /* room: a power of two, >= k */
    bool renormalize;
} top_job;

static __device__ __forceinline__ bool is_banned(top_job a, size_t column)
{
    size_t from = 0, to = a.bans;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if ((size_t)a.banned[middle] < column)
            from = middle + 1;
        else
            to = middle;
    }
    return from < a.bans && (size_t)a.banned[from] == column;
}

/* Sorts count keys, a power of two, the largest first. */
static __device__ void top_sort(top_key *keys, size_t count)
{
    for (size_t run = 2; run <= count; run *= 2)
        for (size_t step = run / 2; step > 0; step /= 2) {
            for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
                const size_t j = i ^ step;
                if (j > i && (keys[i] < keys[j]) == ((i & run) == 0)) {
                    top_key key = keys[i];
                    keys[i] = keys[j];
                    keys[j] = key;
                }
            }
            __syncthreads();
        }
}

/* Lists the columns whose keys are least or more, and returns how many there are; what is beyond
 * the room is only counted. */
static __device__ unsigned top_list(top_job a, const float *x, row_groups g, top_key least,
                                    top_key *list, unsigned *counter)
{
    __syncthreads();
    if (threadIdx.x == 0)
        *counter = 0;
    __syncthreads();
    for (unsigned start = threadIdx.x; start < g.count; start += AHEAD * blockDim.x) {
        float4 fours[AHEAD];
        load_groups(fours, x, g, start, -INFINITY);
#pragma unroll
        for (int i = 0; i < 4 * AHEAD; i++) {
            const float4 four = fours[i / 4];
            const float low = i % 2 ? four.y : four.x, high = i % 2 ? four.w : four.z;
            const float v = i % 4 < 2 ? low : high;
            const unsigned j = start + (unsigned)(i / 4) * blockDim.x;
            const unsigned column = (unsigned)(group_first(g, j) + i % 4);
            const top_key key = key_of(v, column);
            if (v > -INFINITY && key >= least && !is_banned(a, column)) {
                unsigned at = atomicAdd(counter, 1u);
                if (at < a.room)
                    list[at] = key;
            }
        }
    }
    __syncthreads();
    return *counter;
}

/* The k-th largest of the threads' own largest keys, of which k columns or more are not below. */
static __device__ top_key top_guess(size_t k, top_key mine, top_key *list)
{
    __syncthreads();
    list[threadIdx.x] = mine;
    __syncthreads();
    top_sort(list, blockDim.x);
    return list[k - 1];
}

/* Lists at least min(k, all) columns, all those from some key on, and returns how many. */
static __device__ size_t top_choose(top_job a, const float *x, row_groups g, top_key mine,
                                    top_key *list, unsigned *counter)
{
    top_key from = 0;
    if (a.k <= blockDim.x && a.V > a.room)
        from = top_guess(a.k, mine, list);
    size_t n = top_list(a, x, g, from, list, counter);
    if (n <= a.room)
        return n;
    top_key low = from, high = ~(top_key)0; /* more than there is room for; less than k */
    do {
        from = low + (high - low) / 2;
        n = top_list(a, x, g, from, list, counter);
        if (n > a.room)
            low = from;
        else if (n < a.k)
            high = from;
    } while (n > a.room || n < a.k);
    return n;
}

/* What the probabilities of a row are relative to; mine: this thread's largest key. */
static __device__ row_reading top_read(top_job a, const float *x, row_groups g, top_key *mine,
                                       float *partial)
{
    row_reading r = reading_of_none();
    float best = -INFINITY;
    unsigned best_column = 0;
    for (unsigned start = threadIdx.x; start < g.count; start += AHEAD * blockDim.x) {
        float4 fours[AHEAD];
        load_groups(fours, x, g, start, -INFINITY);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int first = group_first(g, start + (unsigned)k * blockDim.x);
            float v[4] = {fours[k].x, fours[k].y, fours[k].z, fours[k].w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const unsigned column = (unsigned)(first + i);
                if (v[i] > best && !is_banned(a, column)) {
                    best = v[i];
                    best_column = column;
                }
                if (a.renormalize && a.bans && is_banned(a, column))
                    v[i] = -INFINITY;
            }
            read_group(&r, make_float4(v[0], v[1], v[2], v[3]), first);
        }
    }
    *mine = best > -INFINITY ? key_of(best, best_column) : 0;
    return block_reading(r, false, partial);
}

static __global__ void __launch_bounds__(TOP_THREADS) top_rows(top_job a)
{
    __shared__ top_key shared_list[TOP_LIST];
    __shared__ float partial[WARP];
    __shared__ unsigned counter;
    for (size_t row = blockIdx.x; row < a.N; row += gridDim.x) {
        const float *x = a.x + row * a.V;
        const row_groups g = groups_of(x, a.V);
        top_key *list = a.lists ? a.lists + row * a.room : shared_list, mine;
        const row_reading r = top_read(a, x, g, &mine, partial);
        const size_t n = top_choose(a, x, g, mine, list, &counter);
        size_t count = 1;
        while (count < n)
            count *= 2;
        for (size_t i = n + threadIdx.x; i < count; i += blockDim.x)
            list[i] = 0;
        __syncthreads();
        top_sort(list, count);
        const double log_sum = log((double)r.sum);
        for (size_t i = threadIdx.x; i < a.k; i += blockDim.x) {
            const bool there = i < n;
            const size_t column = there ? column_of(list[i]) : 0;
            a.id[row * a.k + i] = there ? (int32_t)column : -1;
            const double v = there ? (double)x[column] : (double)-INFINITY;
            a.value[row * a.k + i] =
                (float)(there || log_sum != log_sum ? v - (double)r.max - log_sum : v);
        }
        __syncthreads();
    }
}

/* ---- the largest alone ----------------------------------------------------------------------- */

static __global__ void __launch_bounds__(BLOCK) best_parts_of(best_job a)
{
    __shared__ float partial[WARP];
    for (size_t i = blockIdx.x; i < a.N * best_parts(a.V); i += gridDim.x)
        best_read(a, i, partial);
}

static __global__ void __launch_bounds__(BLOCK) best_rows(best_job a)
{
    const size_t row = (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    if (row < a.N)
        best_whole(a, row);
}

static void find_best(const qkv_exec *e, best_job a)
{
    const size_t parts = a.N * best_parts(a.V);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    a.parts = (row_reading *)qkv__arena_alloc(e->scratch, parts * sizeof *a.parts);
    if (a.parts && !list_best(a)) {
        LAUNCH(best_parts_of, row_blocks(parts), BLOCK, 0, a);
        LAUNCH(best_rows, (unsigned)((a.N + BLOCK / WARP - 1) / (BLOCK / WARP)), BLOCK, 0, a);
    }
    qkv__arena_release(e->scratch, mark);
}

static void cuda_top(const qkv_exec *e, qkv_real *value, int32_t *id, const qkv_real *x,
                     const qkv_k_top_args *args)
{
    if (args->N == 0)
        return;
    if (args->k == 1 && args->bans == 0 && args->V) {
        find_best(e, {value, id, x, NULL, args->N, args->V});
        return;
    }
    const size_t bytes = args->bans * sizeof *args->banned;
    top_job a = {value, id, x, NULL, NULL, args->N, args->V, args->k, args->bans, TOP_LIST,
                 args->renormalize};
    while (a.room < 4 * a.k)
        a.room *= 2;
    a.banned = a.bans ? (const int32_t *)cuda_upload(args->banned, bytes) : NULL;
    if (a.bans && !a.banned)
        return;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    if (a.room > TOP_LIST)
        a.lists = (top_key *)qkv__arena_alloc(e->scratch, a.N * a.room * sizeof(top_key));
    if (a.lists || a.room <= TOP_LIST)
        LAUNCH(top_rows, row_blocks(a.N), a.V > 4096 ? (unsigned)TOP_THREADS : 256, 0, a);
    qkv__arena_release(e->scratch, mark);
}

/* ---- the nearest code ------------------------------------------------------------------------ */

/* A warp for a row. */
static __global__ void nearest_rows(int32_t *id, const float *products, const float *x2,
                                    const float *code2, size_t N, size_t K)
{
    const size_t warps = blockDim.x / WARP;
    for (size_t n = blockIdx.x * warps + threadIdx.x / WARP; n < N; n += gridDim.x * warps) {
        const float x = x2[n], *row = products + n * K;
        float least = INFINITY;
        int32_t best = INT32_MAX;
#pragma unroll 4
        for (size_t k = threadIdx.x % WARP; k < K; k += WARP) {
            float d = x + code2[k] - 2 * row[k];
            if (d < least) {
                least = d;
                best = (int32_t)k;
            }
        }
        for (int d = WARP / 2; d > 0; d /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, least, d);
            const int32_t its = __shfl_xor_sync(0xffffffffu, best, d);
            if (other < least || (other == least && its < best)) {
                least = other;
                best = its;
            }
        }
        if (threadIdx.x % WARP == 0)
            id[n] = best == INT32_MAX ? 0 : best;
    }
}

static void cuda_nearest(const qkv_exec *e, int32_t *id, const qkv_real *products,
                         const qkv_real *x2, const qkv_real *code2, size_t N, size_t K)
{
    (void)e;
    if (N > 0)
        LAUNCH(nearest_rows, row_blocks((N + BLOCK / WARP - 1) / (BLOCK / WARP)), BLOCK, 0, id,
               products, x2, code2, N, K);
}

extern "C" void qkv__cuda_top(qkv_kernels *k)
{
    k->top = cuda_top;
    k->nearest = cuda_nearest;
}
