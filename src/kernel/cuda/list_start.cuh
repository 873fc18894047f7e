/* list_start.cuh - what every product of a list begins and ends with: the blocks meet, a norm makes
 * its rows, and results are stored. */
#ifndef QKV_KERNEL_CUDA_LIST_START_CUH
#define QKV_KERNEL_CUDA_LIST_START_CUH

#include "kernel/cuda/list_part.cuh"

/* An item's turn, in shared memory: after the blocks have met, what threads have in local memory is
 * no longer in the first-level cache. */
struct list_turn {
    part p;
    meeting m;
    const norm_job *norm;      /* of a product: NULL: none; else x is made by it, in room */
    const list_copies *copies; /* rows of what it makes that go elsewhere too, or NULL */
    weights_ahead *ahead;
    const char *items;
    bool late; /* a product whose weights cannot be read before the blocks have met, either */
};

/* By one thread, before all others read the item: where x will be. */
static __device__ __forceinline__ void prepare_product(list_item *i, float *room, bool norm)
{
    if (i->kind == LIST_GEMV) {
        gemv_args &a = ((list_gemv_item *)i)->a;
        a.x = norm ? room : a.x, a.ldx = norm ? a.k : a.ldx;
        return;
    }
    small_product &t = ((list_small_item *)i)->t;
    if (norm)
        t.x = room, t.ldx = t.w.k, t.wide = t.m == 1 || t.w.k % 4 == 0;
}

/* Where a product's own shared memory begins. */
static __device__ __forceinline__ float *room_of(const list_turn &s)
{
    return s.p.room + (s.norm ? LIST_HELD / sizeof(float) : 0);
}

/* What a norm reads besides its rows is brought while the blocks meet. */
static __device__ __forceinline__ void bring_norm(const norm_job &a)
{
    const size_t c = (size_t)threadIdx.x * (LIST_LINE / sizeof(float));
    if (c < a.C && a.weight)
        bring_line(a.weight + c);
    if (c < a.C && a.bias)
        bring_line(a.bias + c);
}

static __device__ __forceinline__ void begin_at_once(const list_turn &s)
{
    if (s.norm)
        bring_norm(*s.norm);
    if (s.m.arrived)
        bring_some(*s.ahead, s.items);
    meet_end(s.m);
    if (s.norm)
        norm_for_product(*s.norm, s.p);
}

static __device__ __noinline__ void begin_by_call(const list_turn &s) { begin_at_once(s); }

/* Of few rows, whose weights are loaded before: registers stay where they are. */
template <bool AT_ONCE>
static __device__ __forceinline__ void begin(const list_turn &s)
{
    if (AT_ONCE)
        begin_at_once(s);
    else
        begin_by_call(s);
}

/* How a product stores number (i, j) of y. copies: rows of it that go elsewhere too, or NULL. */
struct product_put {
    float *y;
    const float *bias;
    size_t ldy, n;
    const list_tail &tail;
    const list_copies *copies;
    __device__ __forceinline__ product_put(const list_gemv_item &g, const list_copies *copies)
        : y(g.a.y), bias(g.a.bias), ldy(g.a.ldy), n(g.a.n), tail(g.tail), copies(copies)
    {
    }
    __device__ __forceinline__ product_put(const list_small_item &m, const list_copies *copies)
        : y(m.t.y), bias(m.t.bias), ldy(m.t.ldy), n(m.t.w.n), tail(m.tail), copies(copies)
    {
    }
    /* What is read for it: the bias, and what is added to y. */
    __device__ __forceinline__ float2 before(size_t i, size_t j) const
    {
        return make_float2(bias ? bias[j] : 0, tail.sum ? tail.added[i * n + j] : 0);
    }
    __device__ __forceinline__ void store(size_t i, size_t j, float sum, float2 read) const
    {
        const float *place = y + i * ldy + j;
        float v = sum + read.x;
        v = tail.act == QKV_K_NONE ? v : act_any_value(tail.act, v);
        y[i * ldy + j] = v;
        if (tail.sum) {
            v = read.y + v;
            tail.sum[i * n + j] = v;
            place = tail.sum + i * n + j;
        }
        copy_elsewhere(copies, place, v);
    }
    __device__ __forceinline__ void operator()(size_t i, size_t j, float sum) const
    {
        store(i, j, sum, before(i, j));
    }
};

#endif
