/* sums.cu - sums that end in one number on the host, in double: of elements, of their squares and
 * of pointwise losses; and the losses' slopes.
 *
 * A grid whose size depends on n alone leaves one partial sum a block; the host adds those in
 * order. */
#include <cstdlib>

#include "kernel/cuda/elements.cuh"
#include "kernel/cuda/jobs.cuh"

enum { SUM_BLOCKS = 1024 };

static __device__ __forceinline__ double loss_value(double x, double target,
                                                    const qkv_k_loss_args &a)
{
    const double d = x - target, size = fabs(d);
    switch (a.loss) {
    case QKV_K_SQUARED: return d * d;
    case QKV_K_ABSOLUTE: return size;
    case QKV_K_HUBER: return size <= a.delta ? d * d / 2 : a.delta * (size - a.delta / 2);
    case QKV_K_BINARY: /* -t log s(x) - (1-t) log(1 - s(x)), without overflow */
        return (x > 0 ? x : 0) - x * target + log1p(exp(-fabs(x)));
    }
    return 0;
}

/* d loss / dx; the other way round, d loss / dtarget. The slope of |d| at 0 is 0. */
static __device__ __forceinline__ double loss_slope(double x, double target,
                                                    const qkv_k_loss_args &a)
{
    const double d = x - target, sign = d > 0 ? 1 : d < 0 ? -1 : 0, turn = a.to_target ? -1 : 1;
    switch (a.loss) {
    case QKV_K_SQUARED: return turn * 2 * d;
    case QKV_K_ABSOLUTE: return turn * sign;
    case QKV_K_HUBER: return turn * (fabs(d) <= a.delta ? d : a.delta * sign);
    case QKV_K_BINARY: return a.to_target ? -x : 1 / (1 + exp(-x)) - target;
    }
    return 0;
}

/* A term is a struct with `double of(float x, float target)`. */
struct plain_term {
    __device__ double of(float x, float) const { return (double)x; }
};

struct square_term {
    __device__ double of(float x, float) const { return (double)x * (double)x; }
};

struct loss_term {
    qkv_k_loss_args a;
    __device__ double of(float x, float target) const
    {
        return loss_value((double)x, (double)target, a);
    }
};

/* What one of so many blocks sums up; partial: as block_sum's. target NULL: there is none. wide: x
 * and target are multiples of 16 bytes; the bits are the same where they are not. */
template <typename Term>
static __device__ __forceinline__ double part_of_sum(const Term &term, const float *x,
                                                     const float *target, size_t n, bool wide,
                                                     unsigned block, unsigned blocks,
                                                     double *partial)
{
    const size_t first = (size_t)block * blockDim.x + threadIdx.x, rest = n / 4 * 4;
    double sum = 0;
    for (size_t i = first; i < n / 4; i += (size_t)blocks * blockDim.x) {
        const pack<4> v = load_four(x + 4 * i, wide);
        pack<4> t = {};
        if (target)
            t = load_four(target + 4 * i, wide);
        for (int k = 0; k < 4; k++)
            sum += term.of(v.v[k], t.v[k]);
    }
    if (first < n % 4)
        sum += term.of(x[rest + first], target ? target[rest + first] : 0);
    return block_sum(sum, partial);
}

static __global__ void __launch_bounds__(BLOCK)
    loss_kernel(double *part, loss_term term, const float *x, const float *target, size_t n,
                bool wide)
{
    __shared__ double partial[WARP];
    const double sum = part_of_sum(term, x, target, n, wide, blockIdx.x, gridDim.x, partial);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

struct sum_job {
    const float *x;
    size_t n;
};

template <typename Term>
static __global__ void __launch_bounds__(BLOCK)
    sums_kernel(double *part, const __grid_constant__ jobs<sum_job> all)
{
    __shared__ double partial[WARP];
    const job_place at = place_of_block(all);
    const sum_job job = all.of[at.job];
    const double sum = part_of_sum(Term{}, job.x, NULL, job.n, (uintptr_t)job.x % 16 == 0,
                                   at.block, at.blocks, partial);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

static unsigned blocks_of_sum(size_t n)
{
    return (unsigned)smaller((n + 4 * BLOCK - 1) / (4 * BLOCK), SUM_BLOCKS);
}

static double sum_of_parts(const double *part, unsigned blocks)
{
    double total = 0;
    for (unsigned b = 0; b < blocks; b++)
        total += part[b];
    return total;
}

static void fetch_parts(double *part, const double *from, size_t blocks)
{
    memset(part, 0, blocks * sizeof *part);
    cuda_note(cudaMemcpyAsync(part, from, blocks * sizeof *part, cudaMemcpyDeviceToHost,
                              cuda_stream()));
    cuda_note(cudaStreamSynchronize(cuda_stream()));
}

/* The parts of each array's sum, those of one array after those of another. */
template <typename Term>
static void launch_sums(double *part, const float *const *x, const size_t *n, size_t count)
{
    jobs<sum_job> all = {};
    for (size_t i = 0; i < count; i++) {
        if (n[i])
            all.add({x[i], n[i]}, blocks_of_sum(n[i]));
        if (!all.full() && i + 1 < count)
            continue;
        if (all.count)
            LAUNCH(sums_kernel<Term>, all.blocks(), BLOCK, 0, part, all);
        part += all.blocks();
        all.count = 0;
    }
}

/* NaN when there is no memory. */
static void cuda_many_sums(const qkv_exec *e, double *sums, const qkv_real *const *x,
                           const size_t *n, size_t count, bool squares)
{
    size_t blocks = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        blocks += blocks_of_sum(n[i]);
    qkv__mark mark = qkv__arena_mark(e->scratch);
    double *on_card = (double *)qkv__arena_alloc(e->scratch, (blocks + 1) * sizeof *on_card);
    double *part = (double *)malloc((blocks + 1) * sizeof *part);
    const bool fine = on_card && part;
    if (fine && blocks) {
        (squares ? launch_sums<square_term> : launch_sums<plain_term>)(on_card, x, n, count);
        fetch_parts(part, on_card, blocks);
    }
    for (size_t i = 0; i < count; i++) {
        sums[i] = fine ? sum_of_parts(part + at, blocks_of_sum(n[i])) : NAN;
        at += blocks_of_sum(n[i]);
    }
    free(part);
    qkv__arena_release(e->scratch, mark);
}

static double cuda_sum(const qkv_exec *e, const qkv_real *x, size_t n)
{
    double sum;
    cuda_many_sums(e, &sum, &x, &n, 1, false);
    return sum;
}

static double cuda_sum_squares(const qkv_exec *e, const qkv_real *x, size_t n)
{
    double sum;
    cuda_many_sums(e, &sum, &x, &n, 1, true);
    return sum;
}

/* NaN when there is no scratch memory. */
static double cuda_loss(const qkv_exec *e, const qkv_real *x, const qkv_real *target,
                        const qkv_k_loss_args *args, size_t n)
{
    double part[SUM_BLOCKS];
    const unsigned blocks = blocks_of_sum(n);
    if (n == 0)
        return 0;
    qkv__mark mark = qkv__arena_mark(e->scratch);
    double *sums = (double *)qkv__arena_alloc(e->scratch, blocks * sizeof *sums);
    if (sums) {
        LAUNCH(loss_kernel, blocks, BLOCK, 0, sums, loss_term{*args}, x, target, n,
               aligned16(x, target));
        fetch_parts(part, sums, blocks);
    }
    qkv__arena_release(e->scratch, mark);
    return sums ? sum_of_parts(part, blocks) : NAN;
}

struct loss_bwd_body {
    float *d;
    const float *x, *target;
    qkv_k_loss_args a;
    bool acc;
    template <int W> __device__ void at(size_t i) const
    {
        const pack<W> v = load<W>(x + i), t = load<W>(target + i);
        pack<W> g;
        for (int k = 0; k < W; k++)
            g.v[k] = (float)(a.scale * loss_slope((double)v.v[k], (double)t.v[k], a));
        put<W>(d + i, g, acc);
    }
};

static void cuda_loss_bwd(const qkv_exec *e, qkv_real *d, const qkv_real *x,
                          const qkv_real *target, bool acc, const qkv_k_loss_args *args, size_t n)
{
    (void)e;
    launch_elements(loss_bwd_body{d, x, target, *args, acc}, n, aligned16(d, x, target));
}

extern "C" void qkv__cuda_sums(qkv_kernels *k)
{
    k->sum = cuda_sum;
    k->sum_squares = cuda_sum_squares;
    k->many_sums = cuda_many_sums;
    k->loss = cuda_loss;
    k->loss_bwd = cuda_loss_bwd;
}
