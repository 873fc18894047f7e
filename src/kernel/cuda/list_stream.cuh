/* list_stream.cuh - a block's part of a product with weights in f32, of one or two rows, or in
 * bf16: the weights come through a ring of shared memory that each warp has, and which is full
 * before the blocks have met. */
#ifndef QKV_KERNEL_CUDA_LIST_STREAM_CUH
#define QKV_KERNEL_CUDA_LIST_STREAM_CUH

#include "kernel/cuda/list_staged.cuh"

/* ---- the ring -------------------------------------------------------------------------------- */

static __device__ __forceinline__ unsigned shared_address(const void *p)
{
#ifdef QKV_CUDA_EMULATED
    (void)p;
    return 0;
#else
    return (unsigned)__cvta_generic_to_shared(p);
#endif
}

/* What threads wrote to memory before they met is seen by copies asked for from here on. */
static __device__ __forceinline__ void ring_see(void)
{
#ifndef QKV_CUDA_EMULATED
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
}

/* Before the first use of a ring's barriers, which all threads wait for afterwards. */
static __device__ __forceinline__ void ring_begin(const list_ring &r)
{
#ifndef QKV_CUDA_EMULATED
    for (unsigned i = threadIdx.x; i < LIST_RING * (LIST_THREADS / WARP); i += blockDim.x)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(r.full + i))
                     : "memory");
#endif
    ring_see();
    if (threadIdx.x < LIST_THREADS / WARP)
        r.parities[threadIdx.x] = 0;
}

/* A warp's part of the ring. bit s of parities: that of slot s, whose copies come next. */
struct warp_ring {
    char *slots;
    uint64_t *full;
    unsigned parities, slot;
};

/* The slot gets `bytes`, a multiple of 16, which whoever waits for it finds there. The warp has
 * read what was there. */
static __device__ __forceinline__ void ring_ask(const warp_ring &r, unsigned slot, const char *from,
                                                unsigned bytes)
{
    char *to = r.slots + slot * STREAM_SLOT;
    if (threadIdx.x % WARP == 0) {
#ifdef QKV_CUDA_EMULATED
        emulated_aligned(from, 16);
        memcpy(to, from, bytes);
#else
        const unsigned full = shared_address(r.full + slot);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full),
                     "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                     "[%1], %2, [%3];" ::"r"(shared_address(to)),
                     "l"(from), "r"(bytes), "r"(full)
                     : "memory");
#endif
    }
}

/* The slot's bytes are there, for the whole warp. */
static __device__ __forceinline__ void ring_wait(warp_ring &r)
{
#ifdef QKV_CUDA_EMULATED
    __syncwarp();
#else
    const unsigned full = shared_address(r.full + r.slot), parity = r.parities >> r.slot & 1;
    unsigned done;
    do
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(full), "r"(parity)
                     : "memory");
    while (!done);
#endif
    r.parities ^= 1u << r.slot;
}

/* ---- the weights of a warp ------------------------------------------------------------------- */

/* What a warp has of a block's units: `bytes` of each `together`-th from unit `mine` on, which it
 * asks for in this order, `passes` times; count: units of the block. */
struct stream_weights {
    const char *first;       /* of its bytes in the first of its units */
    const char *unit, *next; /* of those in the unit asked for, and what is asked for next */
    size_t apart;            /* bytes from one of its units to the next */
    unsigned bytes, left, i, count, mine, together, passes;
};

static __device__ __forceinline__ stream_weights weights_of(const stream_plan &p, const char *w,
                                                            unsigned block, unsigned blocks,
                                                            unsigned passes)
{
    const unsigned warp = threadIdx.x / WARP, part = warp & ((1u << p.parts) - 1);
    const unsigned begin = part * p.part_bytes, end = min(begin + p.part_bytes, p.unit_bytes);
    stream_weights s;
    s.mine = s.i = warp >> p.parts;
    s.together = (LIST_THREADS / WARP) >> p.parts;
    s.count = block < p.units ? (p.units - 1 - block) / blocks + 1 : 0;
    s.bytes = s.left = end > begin ? end - begin : 0;
    s.first = w + ((size_t)s.mine * blocks + block) * p.unit_bytes + begin;
    s.unit = s.next = in_global(s.first);
    s.apart = (size_t)(s.together * blocks) * p.unit_bytes;
    s.passes = s.bytes ? passes : 0;
    s.i = s.bytes ? s.i : s.count;
    return s;
}

static __device__ __forceinline__ void stream_ask(stream_weights &s, const warp_ring &r,
                                                  unsigned slot)
{
    if (s.i >= s.count)
        return;
    const unsigned now = min(s.left, (unsigned)STREAM_SLOT);
    ring_ask(r, slot, s.next, now);
    s.next += now, s.left -= now;
    if (s.left)
        return;
    s.i += s.together, s.unit += s.apart;
    if (s.i >= s.count && --s.passes)
        s.i = s.mine, s.unit = s.first;
    s.next = s.unit, s.left = s.bytes;
}

static __device__ __forceinline__ void stream_fill(stream_weights &s, const warp_ring &r)
{
#pragma unroll 1
    for (unsigned i = 0; i < LIST_RING; i++)
        stream_ask(s, r, i);
}

/* ---- a chunk times rows of x ----------------------------------------------------------------- */

/* Rows of x in shared memory, or in the device's; wide: at multiples of 16 bytes there. */
template <int M> struct stream_x {
    const float *row[M];
    unsigned k;
    bool wide;
};

/* sum[i] += the lane's 4 numbers of a row of w times those of x from c on. */
template <int M>
static __device__ __forceinline__ void stream_add(float (&sum)[M][1], const char *w,
                                                  const stream_x<M> &x, unsigned c)
{
    const pack<4> v = load<4>((const float *)w);
#pragma unroll
    for (int i = 0; i < M; i++) {
        const pack<4> u = load<4>(x.row[i] + c);
        for (int q = 0; q < 4; q++)
            sum[i][0] += v.v[q] * u.v[q];
    }
}

/* sum[i] += the lane's 2 numbers of each of 4 rows of w times those of x, 0 from k on. */
template <int M>
static __device__ __forceinline__ void stream_add(float (&sum)[M][4], const char *w,
                                                  const stream_x<M> &x, unsigned c)
{
    const uint4 v = *(const uint4 *)w;
    const unsigned word[4] = {v.x, v.y, v.z, v.w};
    const bool pair = x.wide && c + 2 <= x.k;
#pragma unroll
    for (int i = 0; i < M; i++) {
        const float *row = x.row[i] + c;
#ifdef QKV_CUDA_EMULATED
        if (pair)
            emulated_aligned(row, sizeof(float2));
#endif
        const float2 u = pair ? *(const float2 *)row
                              : make_float2(c < x.k ? row[0] : 0, c + 1 < x.k ? row[1] : 0);
        for (int q = 0; q < 4; q++) {
            sum[i][q] += bf16_low(word[q]) * u.x;
            sum[i][q] += bf16_high(word[q]) * u.y;
        }
    }
}

/* Numbers of a row of w in `bytes` of a unit. */
template <bool SMALL> static __device__ __forceinline__ unsigned numbers_in(unsigned bytes)
{
    return SMALL ? bytes / (QKV_K_PACKED * sizeof(uint32_t)) * 2 : bytes / sizeof(float);
}

/* All of the warp's part of a unit. c: of the row, where the lane's first numbers are. */
template <bool SMALL, int M, int Q>
static __device__ __forceinline__ void stream_part(float (&sum)[M][Q], warp_ring &r,
                                                   stream_weights &s, const stream_x<M> &x,
                                                   unsigned c)
{
    const unsigned lane16 = threadIdx.x % WARP * 16;
#pragma unroll 1
    for (unsigned left = s.bytes; left;) {
        const unsigned now = min(left, (unsigned)STREAM_SLOT);
        const char *w = r.slots + r.slot * STREAM_SLOT + lane16;
        ring_wait(r);
        if (M <= 2 && now == STREAM_SLOT) {
#pragma unroll
            for (unsigned u = 0; u < STREAM_SLOT; u += STREAM_STEP)
                stream_add<M>(sum, w + u, x, c + numbers_in<SMALL>(u));
        } else {
#pragma unroll 1
            for (unsigned u = 0; u + lane16 < now; u += STREAM_STEP)
                stream_add<M>(sum, w + u, x, c + numbers_in<SMALL>(u));
        }
        __syncwarp();
        stream_ask(s, r, r.slot);
        r.slot = (r.slot + 1) % LIST_RING;
        c += numbers_in<SMALL>(STREAM_SLOT), left -= now;
    }
}

/* The sums of all lanes, of row j of the unit at to[j]. */
static __device__ __forceinline__ void stream_total(const float (&sum)[1], float *to)
{
    const float total = warp_sum(sum[0]);
    if (threadIdx.x % WARP == 0)
        to[0] = total;
}

static __device__ __forceinline__ void stream_total(const float (&sum)[4], float *to)
{
    float total[4];
#pragma unroll
    for (int q = 0; q < 4; q++) {
        total[q] = sum[q];
        for (int d = QUAD; d < WARP; d *= 2)
            total[q] += __shfl_xor_sync(0xffffffffu, total[q], d);
    }
    const unsigned lane = threadIdx.x % WARP;
    if (lane < QUAD)
        *(float4 *)(to + 4 * lane) = make_float4(total[0], total[1], total[2], total[3]);
}

/* ---- the product ----------------------------------------------------------------------------- */

static __device__ __forceinline__ stream_rows rows_of(const list_gemv_item &g)
{
    return {g.a.x, g.a.m, g.a.k, g.a.ldx, true};
}

static __device__ __forceinline__ stream_rows rows_of(const list_small_item &m)
{
    return {m.t.x, m.t.m, m.t.w.k, m.t.ldx, m.t.wide};
}

static __device__ __forceinline__ const char *words_of(const list_gemv_item &g)
{
    return (const char *)g.a.w;
}

static __device__ __forceinline__ const char *words_of(const list_small_item &m)
{
    return (const char *)m.t.w.words;
}

/* Whether rows of x have room. */
static __device__ __forceinline__ bool stream_stages(const stream_rows &a)
{
    return a.m * a.k * sizeof(float) <= LIST_ROOM - LIST_SUMS;
}

/* Rows first .. of x, the last again where there are no more. room NULL: they are not staged. */
template <bool STAGED, int M>
static __device__ __forceinline__ stream_x<M> rows_from(const stream_rows &a, size_t first,
                                                        const float *room)
{
    stream_x<M> x = {{}, (unsigned)a.k, room ? a.k % 2 == 0 : a.wide && a.ldx % 2 == 0};
#pragma unroll
    for (size_t i = 0; i < M; i++) {
        const size_t row = first + i < a.m ? first + i : a.m - 1;
        if (STAGED)
            x.row[i] = room + (unsigned)row * (unsigned)a.k;
        else
            x.row[i] = room ? room + row * a.k : a.x + row * a.ldx;
    }
    return x;
}

/* A number that a thread stores of the units that its warp, or if they have parts its block, works
 * on at a time: row i of x and column j of the first such units, of unit `in` of those; total:
 * where its parts' sums are. in too large: none. */
struct stream_number {
    unsigned in, i, j;
    const float *total;
};

/* The c-th of the calling thread. */
template <int M, int R>
static __device__ __forceinline__ stream_number number_of(const stream_plan &p, unsigned block,
                                                          unsigned blocks, const float *sums,
                                                          unsigned c)
{
    const unsigned t = p.parts ? threadIdx.x + c * LIST_THREADS : threadIdx.x % WARP + c * WARP;
    const unsigned in = p.parts ? t / (M * R) : threadIdx.x / WARP;
    const unsigned at = p.parts ? t % (M * R) : t;
    return {at < M * R ? in : UINT32_MAX / 2, at / R, (block + in * blocks) * R + at % R,
            sums + ((in << p.parts) * (M * R) + at)};
}

static __device__ __forceinline__ void stream_meet(const stream_plan &p)
{
    if (p.parts)
        __syncthreads();
    else
        __syncwarp();
}

/* All units of the block times M rows of x from `first` on. */
template <bool SMALL, int M>
static __device__ __forceinline__ void stream_pass(size_t m, const product_put &put,
                                                   const stream_plan &p, const part &of,
                                                   warp_ring &r, stream_weights &s, size_t first,
                                                   const stream_x<M> &x, float *sums)
{
    enum { R = SMALL ? +QKV_K_PACKED : 1, Q = SMALL ? 4 : 1, EACH = (M * R + WARP - 1) / WARP };
    const unsigned warp = threadIdx.x / WARP, part = warp & ((1u << p.parts) - 1);
    const unsigned lane16 = threadIdx.x % WARP * 16, n = (unsigned)put.n;
    const unsigned c0 = numbers_in<SMALL>(part * p.part_bytes + lane16);
    const unsigned step = s.together * of.blocks * R;
    stream_number mine[EACH];
#pragma unroll
    for (unsigned c = 0; c < EACH; c++) {
        mine[c] = number_of<M, R>(p, of.block, of.blocks, sums, c);
        if (mine[c].in >= s.together || first + mine[c].i >= m)
            mine[c].j = n;
    }
#pragma unroll 1
    for (unsigned i = 0; i < s.count; i += s.together) {
        float2 read[EACH];
#pragma unroll
        for (unsigned c = 0; c < EACH; c++)
            read[c] = mine[c].j < n ? put.before(first + mine[c].i, mine[c].j)
                                    : make_float2(0, 0);
        if (i + s.mine < s.count) {
            float sum[M][Q] = {};
            stream_part<SMALL, M, Q>(sum, r, s, x, c0);
#pragma unroll
            for (int k = 0; k < M; k++)
                stream_total(sum[k], sums + (warp * M + k) * R);
        }
        stream_meet(p);
#pragma unroll
        for (unsigned c = 0; c < EACH; c++) {
            float y = 0;
            if (mine[c].j >= n)
                continue;
#pragma unroll 1
            for (unsigned k = 0; k < 1u << p.parts; k++)
                y += mine[c].total[k * (M * R)];
            put.store(first + mine[c].i, mine[c].j, y, read[c]);
            mine[c].j = n - mine[c].j > step ? mine[c].j + step : n;
        }
        stream_meet(p);
    }
}

/* M rows of x at a time. STAGED: they are in shared memory. */
template <bool SMALL, bool STAGED, int M, typename Item>
static __device__ __noinline__ void run_stream(const Item &item, const list_turn &turn)
{
    const stream_rows a = rows_of(item);
    const product_put put(item, turn.copies);
    const stream_plan plan = item.plan;
    const part &of = turn.p;
    const list_ring &ring = *of.ring;
    const unsigned warp = threadIdx.x / WARP;
    float *const room = in_shared(of.room);
    float *const sums = room + (LIST_ROOM - LIST_SUMS) / sizeof *room;
    warp_ring r = {in_shared(ring.slots) + warp * (LIST_RING * STREAM_SLOT),
                   ring.full + warp * LIST_RING, ring.parities[warp], 0};
    stream_weights s = weights_of(plan, words_of(item), of.block, of.blocks,
                                  ((unsigned)a.m + M - 1) / M);
    const bool staged = STAGED || turn.norm || stream_stages(a);
    if (!turn.late)
        stream_fill(s, r);
    begin_stream(turn, a, staged);
    if (turn.late) {
        ring_see();
        stream_fill(s, r);
    }
#pragma unroll 1
    for (size_t first = 0; first < a.m; first += M)
        stream_pass<SMALL, M>(a.m, put, plan, of, r, s, first,
                              rows_from<STAGED, M>(a, first, staged ? room : NULL), sums);
    if (threadIdx.x % WARP == 0)
        ring.parities[warp] = r.parities;
}

#endif
