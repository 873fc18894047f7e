/* list_stream.cuh - a block's part of a product with weights in f32, of one or two rows, or in bf16:
 * the weights come through a ring of shared memory that each warp has, and which is full before the
 * blocks have met. */
#ifndef QKV_KERNEL_CUDA_LIST_STREAM_CUH
#define QKV_KERNEL_CUDA_LIST_STREAM_CUH

#include "kernel/cuda/list_norm.cuh"

/* ---- the ring -------------------------------------------------------------------------------- */

/* 16 bytes of a lane at a time: a chunk is LIST_PLACES of them for every lane. */
enum {
    STREAM_STEP = 16 * WARP,
    STREAM_CHUNK = LIST_PLACES * STREAM_STEP,
    STREAM_BLOCKS = 132 /* that parts are made for; fixed, as they decide the order of sums */
};

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

/* The slot gets `bytes`, a multiple of 16, which whoever waits for it finds there. The warp has read
 * what was there. bytes 0: nothing. */
static __device__ __forceinline__ void ring_ask(const warp_ring &r, unsigned slot, const char *from,
                                                unsigned bytes)
{
    const unsigned lane = threadIdx.x % WARP;
    char *to = r.slots + slot * STREAM_CHUNK;
    if (bytes && lane == 0) {
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

/* ---- a product's shares ---------------------------------------------------------------------- */

/* Units of w, a row in f32 or a group of rows in bf16, are dealt out to blocks; each is cut into
 * parts, which warps of one block take. */
struct stream_shares {
    const char *w;
    size_t unit_bytes, part_bytes, units;
    unsigned first, blocks;     /* the block's first unit; it has every blocks-th from there */
    unsigned count;             /* of its units */
    unsigned parts, part, mine; /* of a unit; the warp's; the first of the block's units it is of */
    unsigned together;          /* units that the block works on at a time */
};

static __device__ __forceinline__ stream_shares shares_of(const part &p, const char *w,
                                                          size_t unit_bytes, size_t units)
{
    const unsigned warps = LIST_THREADS / WARP, warp = threadIdx.x / WARP;
    const unsigned most = ((unsigned)units + STREAM_BLOCKS - 1) / STREAM_BLOCKS;
    const unsigned chunks = ((unsigned)unit_bytes + STREAM_STEP - 1) / STREAM_STEP;
    stream_shares s = {w, unit_bytes, 0, units, p.block, p.blocks, 0, 1, 0, 0, 0};
    if (p.block < units)
        s.count = ((unsigned)units - 1 - p.block) / p.blocks + 1;
    while (2 * s.parts * most <= warps && 2 * s.parts <= chunks)
        s.parts *= 2;
    s.part = warp % s.parts, s.mine = warp / s.parts, s.together = warps / s.parts;
    s.part_bytes = (chunks + s.parts - 1) / s.parts * STREAM_STEP;
    return s;
}

/* Bytes of the warp's part of a unit that lie behind `at` of it, a chunk at most. */
static __device__ __forceinline__ unsigned chunk_bytes(const stream_shares &s, size_t at)
{
    const size_t begin = s.part * s.part_bytes + at, last = (s.part + 1) * s.part_bytes;
    const size_t end = last < s.unit_bytes ? last : s.unit_bytes;
    return begin >= end ? 0 : end - begin < STREAM_CHUNK ? (unsigned)(end - begin) : +STREAM_CHUNK;
}

/* What a warp asks for next: of the block's unit i, from `at` of its part on; the units have to be
 * read `passes` times more. */
struct stream_next {
    unsigned i, passes;
    size_t at;
};

static __device__ __forceinline__ void stream_ask(stream_next &n, const warp_ring &r, unsigned slot,
                                                  const stream_shares &s)
{
    if (n.i >= s.count)
        return;
    const size_t unit = s.first + (size_t)n.i * s.blocks;
    ring_ask(r, slot, s.w + unit * s.unit_bytes + s.part * s.part_bytes + n.at,
             chunk_bytes(s, n.at));
    n.at += STREAM_CHUNK;
    if (n.at < s.part_bytes && chunk_bytes(s, n.at))
        return;
    n.at = 0, n.i += s.together;
    if (n.i >= s.count && --n.passes)
        n.i = s.mine;
}

static __device__ __forceinline__ void stream_fill(stream_next &n, const warp_ring &r,
                                                   const stream_shares &s)
{
#pragma unroll 1
    for (unsigned i = 0; i < LIST_RING; i++)
        stream_ask(n, r, i, s);
}

/* ---- a chunk times rows of x ----------------------------------------------------------------- */

/* Rows of x in shared memory, or in the device's; wide: at multiples of 16 bytes there. */
template <int M> struct stream_x {
    const float *row[M];
    size_t k;
    bool wide;
};

/* sum[i] += the lane's 4 numbers of a row of w times those of x from c on. */
template <int M>
static __device__ __forceinline__ void stream_add(float (&sum)[M][1], const char *w,
                                                  const stream_x<M> &x, size_t c)
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
                                                  const stream_x<M> &x, size_t c)
{
    const uint4 v = *(const uint4 *)w;
    const unsigned word[4] = {v.x, v.y, v.z, v.w};
    const bool pair = x.wide && c + 2 <= x.k;
#pragma unroll
    for (int i = 0; i < M; i++) {
        const float *row = x.row[i] + c;
        const float2 u = pair ? *(const float2 *)row
                              : make_float2(c < x.k ? row[0] : 0, c + 1 < x.k ? row[1] : 0);
        for (int q = 0; q < 4; q++) {
            sum[i][q] += bf16_low(word[q]) * u.x;
            sum[i][q] += bf16_high(word[q]) * u.y;
        }
    }
}

/* Numbers of a row of w in `bytes` of a unit. */
template <bool SMALL> static __device__ __forceinline__ size_t numbers_in(size_t bytes)
{
    return SMALL ? bytes / (QKV_K_PACKED * sizeof(uint32_t)) * 2 : bytes / sizeof(float);
}

/* All of the warp's part of a unit. */
template <bool SMALL, int M, int Q>
static __device__ __forceinline__ void stream_part(float (&sum)[M][Q], warp_ring &r, stream_next &n,
                                                   const stream_shares &s, const stream_x<M> &x)
{
    const unsigned lane16 = threadIdx.x % WARP * 16;
#pragma unroll 1
    for (size_t at = 0; at < s.part_bytes; at += STREAM_CHUNK) {
        const size_t begin = s.part * s.part_bytes + at + lane16;
        const unsigned bytes = chunk_bytes(s, at);
        if (!bytes)
            break;
        const char *w = r.slots + r.slot * STREAM_CHUNK + lane16;
        ring_wait(r);
#pragma unroll
        for (unsigned u = 0; u < STREAM_CHUNK; u += STREAM_STEP)
            if (u + lane16 < bytes)
                stream_add<M>(sum, w + u, x, numbers_in<SMALL>(begin + u));
        __syncwarp();
        stream_ask(n, r, r.slot, s);
        r.slot = (r.slot + 1) % LIST_RING;
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

static __device__ __forceinline__ stream_shares stream_weights(const list_gemv_item &g,
                                                               const part &p)
{
    return shares_of(p, (const char *)g.a.w, g.a.k * sizeof(float), g.a.n);
}

static __device__ __forceinline__ stream_shares stream_weights(const list_small_item &m,
                                                               const part &p)
{
    const size_t groups = (m.t.w.n + QKV_K_PACKED - 1) / QKV_K_PACKED;
    return shares_of(p, (const char *)m.t.w.words,
                     m.t.w.lines * QKV_K_PACKED * sizeof(uint32_t), groups);
}

/* Whether rows of x have room. */
static __device__ __forceinline__ bool stream_stages(const stream_rows &a)
{
    return a.m * a.k * sizeof(float) <= LIST_ROOM - LIST_SUMS;
}

/* Rows first .. of x, the last again where there are no more. room NULL: they are not staged. */
template <int M>
static __device__ __forceinline__ stream_x<M> rows_from(const stream_rows &a, size_t first,
                                                        const float *room)
{
    stream_x<M> x = {{}, a.k, room ? a.k % 2 == 0 : a.wide && a.ldx % 2 == 0};
#pragma unroll
    for (size_t i = 0; i < M; i++) {
        const size_t row = first + i < a.m ? first + i : a.m - 1;
        x.row[i] = room ? room + row * a.k : a.x + row * a.ldx;
    }
    return x;
}

/* One of the numbers that a thread stores of the units that its warp, or if they have parts its
 * block, works on at a time: of unit `in` of those, row i of x, row j of w. */
struct stream_number {
    unsigned in, i, j;
    bool any;
};

template <int M, int R>
static __device__ __forceinline__ stream_number number_of(const stream_shares &s, unsigned c)
{
    const unsigned of_warp = threadIdx.x % WARP + c * WARP, t = threadIdx.x + c * LIST_THREADS;
    if (s.parts == 1)
        return {s.mine, of_warp / R, of_warp % R, of_warp < M * R};
    return {t / (M * R), t % (M * R) / R, t % R, t / (M * R) < s.together};
}

static __device__ __forceinline__ void stream_meet(const stream_shares &s)
{
    if (s.parts == 1)
        __syncwarp();
    else
        __syncthreads();
}

/* All units of the block times M rows of x from `first` on. */
template <bool SMALL, int M>
static __device__ __forceinline__ void stream_pass(size_t m, const product_put &put,
                                                   const stream_shares &s, warp_ring &r,
                                                   stream_next &next, size_t first,
                                                   const stream_x<M> &x, float *sums)
{
    enum { R = SMALL ? +QKV_K_PACKED : 1, Q = SMALL ? 4 : 1, EACH = (M * R + WARP - 1) / WARP };
    float(*const total)[M][R] = (float(*)[M][R])sums;
#pragma unroll 1
    for (unsigned i = 0; i < s.count; i += s.together) {
        float2 read[EACH];
#pragma unroll
        for (unsigned c = 0; c < EACH; c++) {
            const stream_number n = number_of<M, R>(s, c);
            const size_t j = (s.first + (size_t)(i + n.in) * s.blocks) * R + n.j;
            read[c] = make_float2(0, 0);
            if (n.any && i + n.in < s.count && first + n.i < m && j < put.n)
                read[c] = put.before(first + n.i, j);
        }
        if (i + s.mine < s.count) {
            float sum[M][Q] = {};
            stream_part<SMALL, M, Q>(sum, r, next, s, x);
#pragma unroll
            for (int m = 0; m < M; m++)
                stream_total(sum[m], total[threadIdx.x / WARP][m]);
        }
        stream_meet(s);
#pragma unroll
        for (unsigned c = 0; c < EACH; c++) {
            const stream_number n = number_of<M, R>(s, c);
            const size_t j = (s.first + (size_t)(i + n.in) * s.blocks) * R + n.j;
            float y = 0;
            if (!n.any || i + n.in >= s.count || first + n.i >= m || j >= put.n)
                continue;
            const unsigned warp = s.parts == 1 ? threadIdx.x / WARP : n.in * s.parts;
#pragma unroll 1
            for (unsigned p = 0; p < s.parts; p++)
                y += total[warp + p][n.i][n.j];
            put.store(first + n.i, j, y, read[c]);
        }
        stream_meet(s);
    }
}

/* M rows of x at a time. */
template <bool SMALL, int M, typename Item>
static __device__ __noinline__ void run_stream(const Item &item, const list_turn &turn)
{
    const stream_rows a = rows_of(item);
    const product_put put(item, turn.copies);
    const stream_shares s = stream_weights(item, turn.p);
    const list_ring &ring = *turn.p.ring;
    const unsigned warp = threadIdx.x / WARP;
    float *const room = turn.p.room, *const sums = room + (LIST_ROOM - LIST_SUMS) / sizeof *room;
    warp_ring r = {ring.slots + warp * (LIST_RING * STREAM_CHUNK), ring.full + warp * LIST_RING,
                   ring.parities[warp], 0};
    stream_next next = {s.mine, (unsigned)((a.m + M - 1) / M), 0};
    const bool staged = turn.norm || stream_stages(a);
    if (!turn.late)
        stream_fill(next, r, s);
    begin_stream(turn, a, staged);
    if (turn.late) {
        ring_see();
        stream_fill(next, r, s);
    }
#pragma unroll 1
    for (size_t first = 0; first < a.m; first += M)
        stream_pass<SMALL, M>(a.m, put, s, r, next, first,
                              rows_from<M>(a, first, staged ? room : NULL), sums);
    if (threadIdx.x % WARP == 0)
        ring.parities[warp] = r.parities;
}

#endif
