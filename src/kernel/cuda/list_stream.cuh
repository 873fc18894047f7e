/* list_stream.cuh - a block's part of a product in f32 of one or two rows: each warp's rows of w
 * come through a ring of shared memory, which is full before the blocks have met. A lane reads what
 * it has asked for itself. */
#ifndef QKV_KERNEL_CUDA_LIST_STREAM_CUH
#define QKV_KERNEL_CUDA_LIST_STREAM_CUH

#include "kernel/cuda/list_start.cuh"

/* ---- copies that are on their way ------------------------------------------------------------ */

/* 16 bytes of w to shared memory. */
static __device__ __forceinline__ void stream_copy(float *to, const float *from)
{
#ifdef QKV_CUDA_EMULATED
    emulated_aligned(from, 16);
    memcpy(to, from, 16);
#else
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from)
                 : "memory");
#endif
}

/* One more group of copies, of the calling thread. */
static __device__ __forceinline__ void stream_asked(void)
{
#ifndef QKV_CUDA_EMULATED
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* All groups but the last LIST_RING - 1 are there. */
static __device__ __forceinline__ void stream_wait(void)
{
#ifndef QKV_CUDA_EMULATED
    asm volatile("cp.async.wait_group %0;" ::"n"(LIST_RING - 1) : "memory");
#endif
}

/* ---- rows of w ------------------------------------------------------------------------------- */

enum { GROUP = LIST_PLACES * STEP }; /* numbers of a group */

/* The group that a warp asks for next: numbers of a row from `at` on. */
struct stream_place {
    const float *w; /* the row */
    size_t row;
    unsigned at;
};

static __device__ __forceinline__ void stream_ask(stream_place &next, float *to,
                                                  const gemv_args &a, size_t rows, unsigned lane4)
{
    const unsigned k = (unsigned)a.k;
    if (next.row < a.n) {
#pragma unroll
        for (unsigned u = 0; u < GROUP; u += STEP)
            if (next.at + u + lane4 < k)
                stream_copy(to + u, next.w + next.at + u + lane4);
        next.at += GROUP;
        if (next.at >= k)
            next.at = 0, next.row += rows, next.w += rows * a.k;
    }
    stream_asked();
}

static __device__ __forceinline__ void stream_fill(stream_place &next, float *ring,
                                                   const gemv_args &a, size_t rows, unsigned lane4)
{
#pragma unroll 1
    for (unsigned i = 0; i < LIST_RING; i++)
        stream_ask(next, ring + i * GROUP, a, rows, lane4);
}

/* sum += a group's products. x, from: the lane's first numbers; left: numbers of the row from the
 * lane's first on, or fewer than 1. */
template <int M>
static __device__ __forceinline__ void stream_add(float sum[M], const float *from, const float *x,
                                                  size_t k, int left)
{
    pack<4> w[LIST_PLACES];
#pragma unroll
    for (int u = 0; u < LIST_PLACES; u++) {
        w[u] = {};
        if (u * STEP < left)
            w[u] = load<4>(from + u * STEP);
    }
#pragma unroll
    for (int i = 0; i < M; i++) {
        pack<4> v[LIST_PLACES];
#pragma unroll
        for (int u = 0; u < LIST_PLACES; u++) {
            v[u] = {};
            if (u * STEP < left)
                v[u] = load<4>(x + i * k + u * STEP);
        }
#pragma unroll
        for (int u = 0; u < LIST_PLACES; u++)
            for (int q = 0; q < 4; q++)
                sum[i] += w[u].v[q] * v[u].v[q];
    }
}

/* Rows of x to room, one behind the other. */
static __device__ __forceinline__ void stream_rows(const gemv_args &a, float *room)
{
    for (size_t i = 0; i < a.m; i++)
        for (size_t c = 4 * threadIdx.x; c < a.k; c += 4 * blockDim.x)
            *(float4 *)(room + i * a.k + c) = *(const float4 *)(a.x + i * a.ldx + c);
}

/* Whether the rows of x have room. */
static __device__ __forceinline__ bool stream_fits(const gemv_args &a)
{
    return a.m <= 2 && a.m * a.k * sizeof(float) <= LIST_ROOM;
}

/* a.m is M. */
template <int M>
static __device__ __noinline__ void run_stream(const list_gemv_item &item,
                                               const list_turn &s)
{
    const gemv_args a = item.a;
    const product_put put(item, s.copies);
    const part p = s.p;
    const unsigned lane = threadIdx.x % WARP, lane4 = 4 * lane;
    const size_t rows = p.warps();
    float *const ring = p.ring + threadIdx.x / WARP * (LIST_RING * GROUP) + lane4;
    const float *const x = p.room + lane4;
    stream_place next = {in_global(a.w) + p.warp() * a.k, p.warp(), 0};
    unsigned slot = 0;
    if (!s.late)
        stream_fill(next, ring, a, rows, lane4);
    if (a.bias && lane == 0 && p.warp() < a.n)
        bring_line(a.bias + p.warp());
    begin<true>(s);
    if (!s.norm)
        stream_rows(a, p.room);
    __syncthreads();
    if (s.late)
        stream_fill(next, ring, a, rows, lane4);
    for (size_t row = p.warp(); row < a.n; row += rows) {
        const float2 read = lane < M ? put.before(lane, row) : make_float2(0, 0);
        float sum[M] = {};
        for (unsigned at = 0; at < (unsigned)a.k; at += GROUP) {
            stream_wait();
            stream_add<M>(sum, ring + slot * GROUP, x + at, a.k,
                          (int)a.k - (int)(at + lane4));
            stream_ask(next, ring + slot * GROUP, a, rows, lane4);
            slot = (slot + 1) % LIST_RING;
        }
#pragma unroll
        for (int i = 0; i < M; i++) {
            const float total = warp_sum(sum[i]);
            if (lane == (unsigned)i)
                put.store(i, row, total, read);
        }
    }
}

#endif
