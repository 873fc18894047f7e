/* list_kernel.cu - the launch that carries out a list. Every block goes through all items and does
 * its part of each; where an item waits, all blocks meet first.
 *
 * The emulator, whose blocks cannot meet, has one block do all of a list, or several what is
 * between two meetings, in turns. */
#include <cstdlib>

#include "kernel/cuda/attention_few_block.cuh"
#include "kernel/cuda/list_product.cuh"

/* ---- items ----------------------------------------------------------------------------------- */

static __device__ __noinline__ void run_copies(const list_copies &c, const part &p)
{
    for (size_t r = p.block; r < c.rows; r += p.blocks)
        for (size_t i = threadIdx.x; i < c.row[r].n; i += blockDim.x)
            c.row[r].y[i] = c.row[r].x[i];
}

/* Data that stands behind its item goes where it is wanted. */
static __device__ void run_data(const list_data &d, const part &p)
{
    const char *from = (const char *)(&d + 1);
    for (size_t i = threadIdx.x; d.to && p.block == 0 && i < d.n; i += blockDim.x)
        ((char *)d.to)[i] = from[i];
}

static __device__ __noinline__ void run_norm(const list_norm_item &n, const part &p)
{
    norm_of_rows(n.a, p.block, p.blocks, p.partial);
}

static __device__ __noinline__ void run_embed(const list_embed_item &e, const part &p)
{
    if (e.quads)
        embed_some<true>(e.y, e.a, p.warp(), p.warps());
    else
        embed_some<false>(e.y, e.a, p.warp(), p.warps());
}

static __device__ __noinline__ void run_embed_small(const embed_small_args &a, const part &p)
{
    if (a.table.type == QKV_K_BF16)
        embed_lines<QKV_K_BF16>(a, p.thread(), p.threads());
    else if (a.table.type == QKV_K_INT8)
        embed_lines<QKV_K_INT8>(a, p.thread(), p.threads());
    else
        embed_lines<QKV_K_INT4>(a, p.thread(), p.threads());
}

template <typename Body>
static __device__ void run_elements(const list_elements<Body> &e, const part &p)
{
    some_elements<4>(e.body, e.n, e.fours, p.thread(), p.threads());
}

static __device__ __noinline__ void run_act(const list_act_item &a, const part &p)
{
    for (size_t k = p.thread(); k < a.n; k += p.threads())
        a.a.y[k] = act_any_value(a.a.act, a.a.x[k]);
}

static __device__ __noinline__ void run_rotary(const rotary_job &a, const part &p,
                                               const list_copies *copies)
{
    rotary_some(a, p.thread(), p.threads(), [copies](float *to, float v) {
        *to = v;
        copy_elsewhere(copies, to, v);
    });
}

static __device__ __noinline__ void run_gated(const list_gated_item &g, const part &p)
{
    for (size_t i = p.thread(); i < g.N * g.a.C; i += p.threads()) {
        size_t r, c;
        split(i, g.a.C, &r, &c);
        g.a.y[i] = g.a.up[r * g.a.ldu + c] * act_any_value(g.act, g.a.gate[r * g.a.ldg + c]);
    }
}

static __device__ __noinline__ void run_kv(const list_kv_item &k, const part &p)
{
    for (size_t r = 0; r < k.rows; r++)
        kv_store_some(k.row[r], (p.warp() + r * k.row[r].heads) % p.warps(), p.warps());
}

template <int kind, int ROWS, int KEYS>
static __device__ __noinline__ void run_few_rows(const list_few_item &f, const part &p)
{
    const int splits = f.w.splits, all = f.places * splits;
    for (int at = (int)p.block; at < all; at += (int)p.blocks) {
        few_part_of<kind, ROWS, KEYS>(f.p, f.w, at / splits, at % splits, p.room);
        __syncthreads();
    }
}

template <int kind>
static __device__ __forceinline__ void run_few_kind(const list_few_item &f, const part &p)
{
    if (f.rows == 1)
        run_few_rows<kind, 1, 4>(f, p);
    else if (f.rows == 2)
        run_few_rows<kind, 2, 4>(f, p);
    else
        run_few_rows<kind, 4, 2>(f, p);
}

static __device__ void run_few(const list_few_item &f, const part &p)
{
    if (f.kind == LIST_FEW_WHOLE)
        for (int at = (int)p.block; at < f.places; at += (int)p.blocks) {
            few_whole(f.p, f.w, at, p.room);
            __syncthreads();
        }
    else if (f.store == QKV_K_KV_REAL)
        run_few_kind<QKV_K_KV_REAL>(f, p);
    else if (f.store == QKV_K_KV_BF16)
        run_few_kind<QKV_K_KV_BF16>(f, p);
    else
        run_few_kind<QKV_K_KV_INT8>(f, p);
}

static __device__ __noinline__ void run_best(const list_best_item &b, const part &p)
{
    for (size_t at = p.block; at < b.a.N * best_parts(b.a.V); at += p.blocks)
        best_read(b.a, at, p.partial);
}

/* By one block, the same as of run_out. */
static __device__ __noinline__ void run_best_whole(const list_best_item &b)
{
    for (size_t row = threadIdx.x / WARP; blockIdx.x == 0 && row < b.a.N;
         row += blockDim.x / WARP)
        best_whole(b.a, row);
}

/* For the host: the number when the bytes are there. */
static __device__ __noinline__ void run_out(const list_out_item &o)
{
    if (blockIdx.x != 0)
        return;
    for (size_t i = threadIdx.x; i < o.n; i += blockDim.x)
        o.to[i] = o.from[i];
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0)
        *(volatile unsigned *)o.written = o.number;
}

/* An item that is no product. */
static __device__ __forceinline__ void run_item(const list_item *i, const part &p,
                                                const list_copies *copies)
{
    switch (i->kind) {
    case LIST_DATA: run_data(*(const list_data *)i, p); break;
    case LIST_COPIES: run_copies(*(const list_copies *)i, p); break;
    case LIST_EMBED: run_embed(*(const list_embed_item *)i, p); break;
    case LIST_EMBED_SMALL: run_embed_small(((const list_embed_small_item *)i)->a, p); break;
    case LIST_NORM: run_norm(*(const list_norm_item *)i, p); break;
    case LIST_ADD: run_elements(*(const list_elements<add_body> *)i, p); break;
    case LIST_AXPY: run_elements(*(const list_elements<axpy_body> *)i, p); break;
    case LIST_MUL: run_elements(*(const list_elements<mul_body> *)i, p); break;
    case LIST_ACT: run_act(*(const list_act_item *)i, p); break;
    case LIST_GATED: run_gated(*(const list_gated_item *)i, p); break;
    case LIST_ROTARY: run_rotary(((const list_rotary_item *)i)->a, p, copies); break;
    case LIST_KV: run_kv(*(const list_kv_item *)i, p); break;
    case LIST_BEST: run_best(*(const list_best_item *)i, p); break;
    case LIST_BEST_WHOLE: run_best_whole(*(const list_best_item *)i); break;
    case LIST_OUT: run_out(*(const list_out_item *)i); break;
    default: run_few(*(const list_few_item *)i, p); break;
    }
}

/* ---- the list -------------------------------------------------------------------------------- */

static __host__ __device__ __forceinline__ const list_item *item_behind(const list_item *i)
{
    return (const list_item *)((const char *)i + i->bytes);
}

/* The copies that stand behind i and are part of it, or NULL. */
static __device__ __forceinline__ const list_copies *copies_of(const list_item *i,
                                                               const list_item *end)
{
    const list_item *next = item_behind(i);
    const bool part_of = next < end && next->kind == LIST_COPIES && next->flags & LIST_JOINED;
    return part_of ? (const list_copies *)next : NULL;
}

static __device__ __forceinline__ void load_list(const list_launch &l, char *to)
{
    for (unsigned i = threadIdx.x; i < l.bytes / LIST_ALIGN; i += blockDim.x)
        ((uint4 *)to)[i] = ((const uint4 *)l.items)[i];
    __syncthreads();
}

static __global__ void __launch_bounds__(LIST_THREADS, LIST_GRID) list_kernel(list_launch l)
{
    DYNAMIC_SHARED(items);
    __shared__ float partial[2 * WARP];
    __shared__ list_turn turns[2];
    __shared__ weights_ahead ahead;
    __shared__ uint64_t full[LIST_THREADS / WARP * LIST_RING];
    __shared__ unsigned parities[LIST_THREADS / WARP];
    __shared__ list_ring ring;
    float *room = (float *)(items + LIST_BYTES);
    if (threadIdx.x == 0)
        ring = {(char *)room + LIST_ROOM, full, parities};
    __syncthreads();
    ring_begin(ring);
    load_list(l, items);
    const list_item *end = (const list_item *)(items + l.bytes);
    if (brings())
        ahead = {((const list_item *)items)->product, 0, 0};
    unsigned wanted = l.before, turn = 0;
    const norm_job *norm = NULL;
    bool waits = false;
    for (list_item *i = (list_item *)items; i < end; i = (list_item *)item_behind(i)) {
        waits = waits || (i->flags & LIST_WAITS && l.arrived);
        if (i->flags & LIST_JOINED) { /* another's part */
            if (i->kind == LIST_NORM)
                norm = &((const list_norm_item *)i)->a;
            continue;
        }
        wanted += waits ? gridDim.x : 0;
        const meeting m = {waits ? l.arrived : NULL, wanted};
        list_turn &s = turns[turn++ % 2]; /* the other one may still be read */
        if (threadIdx.x == 0) {
            const unsigned shift = i->shift % gridDim.x;
            s = {{(blockIdx.x + gridDim.x - shift) % gridDim.x, gridDim.x, room, partial, &ring},
                 m, norm, copies_of(i, end), &ahead, items, (i->flags & LIST_LATE) != 0};
            if (i->weight_bytes)
                prepare_product(i, room, norm != NULL);
        }
        waits = false;
        meet_begin(m);
        if (i->weight_bytes) {
            leave_behind(ahead, items, i);
            run_product(i, s);
            norm = NULL;
        } else {
            if (m.arrived)
                bring_some(ahead, items);
            meet_end(m);
            run_item(i, s.p, s.copies);
        }
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

enum { LIST_SHARED = LIST_BYTES + LIST_ROOM + LIST_RING_BYTES };

#ifdef QKV_CUDA_EMULATED
unsigned list_blocks(void) { return LIST_GRID; }

/* Bytes of items up to the next that waits: in a launch of its own each block does all of them
 * before the next block begins. */
static unsigned bytes_of_phase(const char *items, unsigned bytes)
{
    unsigned end = 0;
    bool more = true;
    while (more) {
        const list_item *i = (const list_item *)(items + end), *next = item_behind(i);
        const bool within = i->kind == LIST_NORM && i->flags & LIST_JOINED;
        end += i->bytes;
        more = end < bytes && (within || !(next->flags & LIST_WAITS) ||
                               (next->kind == LIST_COPIES && next->flags & LIST_JOINED));
    }
    return end;
}

/* The weights of the first product from `at` on, which a card loads before the items right before
 * it are done: these may not change them. */
static const list_item *early_product(const char *items, unsigned bytes)
{
    for (unsigned at = 0; at < bytes;) {
        const list_item *i = (const list_item *)(items + at);
        at += i->bytes;
        if (at > i->bytes && i->flags & LIST_WAITS && !(i->flags & LIST_JOINED))
            break;
        if (i->weight_bytes)
            return i->flags & LIST_LATE ? NULL : i;
    }
    return NULL;
}

static uint64_t sum_of_bytes(const list_item *i)
{
    uint64_t sum = 0, word;
    for (size_t at = 0; i && at + sizeof word <= i->weight_bytes; at += sizeof word) {
        memcpy(&word, i->weights + at, sizeof word);
        sum = (sum ^ word) * 0x100000001b3u;
    }
    return sum;
}

/* All of a list by one block, or phase by phase by several; QKV_EMULATED_BLOCKS in the environment:
 * by as many. */
bool list_run(const list_launch &l)
{
    static const unsigned several[] = {1, 3, 1, 7, 2, 3, 1, 132};
    static unsigned lists;
    static const char *asked = getenv("QKV_EMULATED_BLOCKS");
    const unsigned blocks = asked ? (unsigned)atoi(asked) : several[lists++ % 8];
    for (unsigned at = 0; at < l.bytes;) {
        const char *items = l.items + at;
        const unsigned bytes = blocks == 1 ? l.bytes : bytes_of_phase(items, l.bytes - at);
        const list_launch one = {items, bytes, NULL, 0};
        const list_item *next = early_product(items + bytes, l.bytes - at - bytes);
        const uint64_t before = sum_of_bytes(next);
        emulated_launch(blocks, LIST_THREADS, LIST_SHARED, [=]() { list_kernel(one); });
        emulated_expect(before == sum_of_bytes(next), "weights are written after they are read");
        at += bytes;
    }
    return false;
}
#else
/* 0: the card has no room for a block. */
unsigned list_blocks(void)
{
    static unsigned blocks;
    int each = 0;
    if (blocks)
        return blocks;
    if (cudaFuncSetAttribute(list_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             LIST_SHARED) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, list_kernel, LIST_THREADS,
                                                      LIST_SHARED) == cudaSuccess)
        blocks = (unsigned)((each < LIST_GRID ? each : LIST_GRID) * cuda_multiprocessors());
    (void)cudaGetLastError();
    return blocks;
}

bool list_run(const list_launch &l)
{
    list_launch copy = l;
    void *arguments[] = {&copy};
    const cudaError_t error =
        cudaLaunchCooperativeKernel(list_kernel, dim3(list_blocks()), dim3(LIST_THREADS), arguments,
                                    LIST_SHARED, cuda_bare_stream());
    cuda_note(error);
    return error == cudaSuccess;
}
#endif
