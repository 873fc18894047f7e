/* embedding_bwd.cu - the gradient of a table whose rows were taken by index. The rows are sorted by
 * index, stably, so that those of one index lie together in their order; warps sum windows of
 * WINDOW of them, and a second kernel adds the sums of an index that lies in several windows. */
#include "kernel/cuda/rows.cuh"
#include "kernel/cuda/sort_ids.cuh"

enum { WINDOW = WARP, LANE_COLUMNS = 4, WARP_COLUMNS = WARP * LANE_COLUMNS, ROWS_AHEAD = 8 };

typedef struct {
    float *dtable, *ends; /* ends (windows, 2, C): of a run that begins before, or ends after */
    const int32_t *id, *row;
    const float *dy;
    float scale;
    size_t N, C, windows, slices;
} embed_bwd_job;

/* Four columns of a row for each lane: neighbours, or WARP apart. */
template <bool QUADS>
static __device__ __forceinline__ float4 load_lane(const float *row, size_t c, size_t C)
{
    if (QUADS)
        return c < C ? *(const float4 *)(row + c) : make_float4(0, 0, 0, 0);
    return make_float4(c < C ? row[c] : 0, c + WARP < C ? row[c + WARP] : 0,
                       c + 2 * WARP < C ? row[c + 2 * WARP] : 0,
                       c + 3 * WARP < C ? row[c + 3 * WARP] : 0);
}

template <bool QUADS>
static __device__ __forceinline__ void store_lane(float *row, size_t c, size_t C, float4 v,
                                                  bool acc)
{
    if (acc) {
        const float4 was = load_lane<QUADS>(row, c, C);
        v = make_float4(was.x + v.x, was.y + v.y, was.z + v.z, was.w + v.w);
    }
    if (QUADS) {
        if (c < C)
            *(float4 *)(row + c) = v;
        return;
    }
    const float x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (c + (size_t)i * WARP < C)
            row[c + (size_t)i * WARP] = x[i];
}

/* A warp for a window and WARP_COLUMNS columns. A run that lies in the window goes to the table. */
template <bool QUADS> __global__ void __launch_bounds__(BLOCK) embed_bwd_windows(embed_bwd_job a)
{
    const unsigned lane = threadIdx.x % WARP;
    const size_t job = (size_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const size_t window = job / a.slices, first = window * WINDOW, i = first + lane;
    const size_t c = job % a.slices * WARP_COLUMNS + lane * (QUADS ? LANE_COLUMNS : 1);
    if (window >= a.windows)
        return;
    const int count = (int)(a.N - first < WINDOW ? a.N - first : (size_t)WINDOW);
    const int32_t id = i < a.N ? a.id[i] : -1, row = i < a.N ? a.row[i] : 0;
    const int32_t before = first ? a.id[first - 1] : -1;
    const int32_t after = first + WINDOW < a.N ? a.id[first + WINDOW] : -1;
    const int32_t next = __shfl_down_sync(0xffffffffu, id, 1);
    const unsigned last = __ballot_sync(0xffffffffu, id != next || (int)lane == count - 1);
    bool from_before = before == __shfl_sync(0xffffffffu, id, 0);
    float4 sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < count; k += ROWS_AHEAD) {
        float4 v[ROWS_AHEAD];
#pragma unroll
        for (int u = 0; u < ROWS_AHEAD; u++) {
            const size_t r = (size_t)__shfl_sync(0xffffffffu, row, (k + u) % WARP);
            if (k + u < count)
                v[u] = load_lane<QUADS>(a.dy + r * a.C, c, a.C);
        }
#pragma unroll
        for (int u = 0; u < ROWS_AHEAD; u++) {
            const int32_t its = __shfl_sync(0xffffffffu, id, (k + u) % WARP);
            if (k + u >= count)
                continue;
            sum = make_float4(sum.x + a.scale * v[u].x, sum.y + a.scale * v[u].y,
                              sum.z + a.scale * v[u].z, sum.w + a.scale * v[u].w);
            if (!(last >> (k + u) & 1))
                continue;
            const bool goes_on = k + u == count - 1 && after == its;
            float *to = from_before || goes_on
                            ? a.ends + (2 * window + (from_before ? 0 : 1)) * a.C
                            : a.dtable + (size_t)its * a.C;
            store_lane<QUADS>(to, c, a.C, sum, !from_before && !goes_on);
            from_before = false;
            sum = make_float4(0, 0, 0, 0);
        }
    }
}

/* A run that begins in the warp's window and goes on after it. */
template <bool QUADS> __global__ void __launch_bounds__(BLOCK) embed_bwd_runs(embed_bwd_job a)
{
    const unsigned lane = threadIdx.x % WARP;
    const size_t job = (size_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const size_t window = job / a.slices, first = window * WINDOW, end = first + WINDOW;
    const size_t c = job % a.slices * WARP_COLUMNS + lane * (QUADS ? LANE_COLUMNS : 1);
    if (window >= a.windows || end >= a.N)
        return;
    const int32_t id = a.id[end];
    if (a.id[end - 1] != id || (first > 0 && a.id[first - 1] == id))
        return;
    float4 sum = load_lane<QUADS>(a.ends + (2 * window + 1) * a.C, c, a.C);
    for (size_t w = window + 1;; w += WARP) {
        const size_t i = (w + lane) * WINDOW; /* this lane's window begins with the run? */
        const unsigned in = __ballot_sync(0xffffffffu, i < a.N && a.id[i] == id);
        const int count = __popc(in);
#pragma unroll 8
        for (int k = 0; k < count; k++) {
            float4 v = load_lane<QUADS>(a.ends + 2 * (w + (size_t)k) * a.C, c, a.C);
            sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        }
        if (count < WARP)
            break;
    }
    store_lane<QUADS>(a.dtable + (size_t)id * a.C, c, a.C, sum, true);
}

extern "C" void cuda_embed_bwd(const qkv_exec *e, qkv_real *dtable, const int32_t *ids,
                               const qkv_real *dy, double scale, size_t N, size_t C)
{
    if (N == 0 || C == 0)
        return;
    const size_t windows = (N + WINDOW - 1) / WINDOW;
    const size_t slices = (C + WARP_COLUMNS - 1) / WARP_COLUMNS;
    const size_t ends = windows * 2 * C, words = 2 * N + sort_ids_words(N);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    float *sums = (float *)qkv__arena_alloc(e->scratch, (ends + words) * sizeof *sums);
    if (sums) {
        int32_t *p = (int32_t *)(sums + ends);
        cuda_sort_ids(p, p + N, p + 2 * N, ids, N);
        const embed_bwd_job a = {dtable, sums, p, p + N, dy, (float)scale, N, C, windows, slices};
        const unsigned blocks = (unsigned)((windows * slices + BLOCK / WARP - 1) / (BLOCK / WARP));
        if (C % 4 == 0 && quads_fit(dtable) && quads_fit(dy)) {
            LAUNCH(embed_bwd_windows<true>, blocks, BLOCK, 0, a);
            LAUNCH(embed_bwd_runs<true>, blocks, BLOCK, 0, a);
        } else {
            LAUNCH(embed_bwd_windows<false>, blocks, BLOCK, 0, a);
            LAUNCH(embed_bwd_runs<false>, blocks, BLOCK, 0, a);
        }
    }
    qkv__arena_release(e->scratch, mark);
}
