/* list_product.cuh - a block's part of a product of a list. Its first weights are on their way
 * before the blocks have met and the rows that they multiply are there. */
#ifndef QKV_KERNEL_CUDA_LIST_PRODUCT_CUH
#define QKV_KERNEL_CUDA_LIST_PRODUCT_CUH

#include "kernel/cuda/list_stream.cuh"

/* ---- f32 ------------------------------------------------------------------------------------- */

template <int M, int R>
static __device__ __noinline__ void run_gemv_rows(const list_gemv_item &item, const list_turn &s)
{
    const gemv_args &a = item.a;
    const product_put put(item, s.copies);
    const part &p = s.p;
    const size_t chunks = (a.m + M - 1) / M, all = (a.n + R - 1) / R * chunks;
    gemv_places<R, gemv_ahead(M, R)> places;
    size_t at = p.warp(), group = 0, chunk = 0;
    split(at, chunks, &group, &chunk);
    if (at < all && !s.late)
        gemv_first<M, R, true>(places, a, group * R);
    begin<false>(s);
    if (at < all && s.late)
        gemv_first<M, R, true>(places, a, group * R);
    while (at < all) {
        gemv_rows<M, R, true>(a, group * R, chunk * M, places, put);
        at += p.warps();
        split(at, chunks, &group, &chunk);
        if (at < all)
            gemv_first<M, R, true>(places, a, group * R);
    }
}

static __device__ __forceinline__ void run_gemv(const list_gemv_item &g, const list_turn &s)
{
    const bool staged = s.norm || stream_stages(rows_of(g));
    if (staged && g.a.m == 1)
        run_stream<false, true, 1>(g, s);
    else if (staged && g.a.m == 2)
        run_stream<false, true, 2>(g, s);
    else if (g.a.m <= 2)
        run_gemv_rows<2, 1>(g, s);
    else if (g.a.m <= 4)
        run_gemv_rows<4, 2>(g, s);
    else
        run_gemv_rows<8, 2>(g, s);
}

/* ---- weights in fewer bits ------------------------------------------------------------------- */

/* room: sums of warps; behind them x in 8 bits, where weights are integers, which every block makes
 * for itself. */
template <int TYPE>
static __device__ __forceinline__ void round_rows(small_product &t, float *room)
{
    const size_t warps = blockDim.x / WARP, rows = (t.m + ROWS - 1) / ROWS * ROWS;
    float *scale = room + warps * ROWS * QKV_K_PACKED;
    int8_t *q = (int8_t *)(scale + (rows * t.w.blocks + 3) / 4 * 4);
    round_blocks(q, scale, t, small_block(TYPE), threadIdx.x / WARP, warps);
    __syncthreads();
    t.q = q;
    t.q_scale = scale;
}

template <int TYPE, int M>
static __device__ __noinline__ void run_small_rows(const list_small_item &item, const list_turn &s)
{
    enum { FIRST = M <= 2 };
    small_product t = item.t;
    const product_put put(item, s.copies);
    float *const room = room_of(s);
    const unsigned blocks = s.p.blocks;
    const size_t chunks = (t.m + M - 1) / M, groups = (t.w.n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    small_unit<TYPE> unit;
    size_t at = s.p.block, group = 0, chunk = 0;
    split(at, chunks, &group, &chunk);
    if (FIRST && group < groups && !s.late)
        first_unit<TYPE>(unit, t, group);
    begin<FIRST>(s);
    if (FIRST && group < groups && s.late)
        first_unit<TYPE>(unit, t, group);
    round_rows<TYPE>(t, room);
    while (group < groups) {
        const size_t now = group, rows = chunk;
        float sum[M][4] = {};
        small_sums<TYPE, M>(sum, t, now, rows, FIRST ? &unit : NULL);
        at += blocks;
        split(at, chunks, &group, &chunk);
        if (FIRST && group < groups)
            first_unit<TYPE>(unit, t, group);
        small_finish<TYPE, M>(sum, t, now, rows, (float(*)[M][QKV_K_PACKED])room, put);
        __syncthreads();
    }
}

template <int TYPE>
static __device__ __forceinline__ void run_small(const list_small_item &m, const list_turn &s)
{
    if (m.t.m == 1)
        run_small_rows<TYPE, 1>(m, s);
    else if (m.t.m == 2)
        run_small_rows<TYPE, 2>(m, s);
    else if (m.t.m <= 4)
        run_small_rows<TYPE, 4>(m, s);
    else
        run_small_rows<TYPE, ROWS>(m, s);
}

/* A row's numbers do not depend on how many there are. */
static __device__ __forceinline__ void run_small_stream(const list_small_item &m,
                                                        const list_turn &s)
{
    const bool staged = s.norm || stream_stages(rows_of(m));
    if (staged && m.t.m == 1)
        run_stream<true, true, 1>(m, s);
    else if (staged && m.t.m == 2)
        run_stream<true, true, 2>(m, s);
    else if (m.t.m <= 4)
        run_stream<true, false, 4>(m, s);
    else
        run_stream<true, false, ROWS>(m, s);
}

/* ---- either ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ void run_product(const list_item *i, const list_turn &s)
{
    const list_small_item &m = *(const list_small_item *)i;
    if (i->kind == LIST_GEMV)
        run_gemv(*(const list_gemv_item *)i, s);
    else if (m.t.w.type == QKV_K_BF16)
        run_small_stream(m, s);
    else if (m.t.w.type == QKV_K_INT8)
        run_small<QKV_K_INT8>(m, s);
    else
        run_small<QKV_K_INT4>(m, s);
}

#endif
